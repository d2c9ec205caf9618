/** What sync tells the CNI plugin about this node: one small file in the run directory. */
import { join } from "node:path";
import { z } from "zod";
import { readText, writeAtomically } from "./atomic-file.ts";
import { parseJson, sentence } from "./sentence.ts";

const nodeState = z.object({
  version: z.literal(1),
  nodeName: z.string().min(1),
  /** MTU of tunl0 in bytes: the most that a pod may send in one packet. */
  mtu: z.int().min(68).max(65535),
  /** The node's own address in the pod network, on tunl0: never a pod's. None where no pool is reached by the tunnel. */
  tunnelAddress: z.ipv4().exactOptional(),
  /** CIDRs of the blocks that pods get addresses from which ask for no pool, in the order in which they are used up. */
  blocks: z.array(z.cidrv4()),
  /** Every pool by its name, with the CIDRs of this node's blocks that a pod gets an address from which asks for it. */
  pools: z.array(z.object({ name: z.string(), disabled: z.boolean(), blocks: z.array(z.cidrv4()) })).exactOptional(),
  /** CIDRs of addresses that are never given. */
  reserved: z.array(z.cidrv4()).exactOptional(),
});

export type NodeState = z.infer<typeof nodeState>;

export function nodeStatePath(runDir: string): string {
  return join(runDir, "node.json");
}

/**
 * @returns `undefined` when sync has not written it yet
 * @throws an error that names the file and the field when something else is in it
 */
export async function readNodeState(runDir: string): Promise<NodeState | undefined> {
  const path = nodeStatePath(runDir);
  try {
    const text = await readText(path);
    if (text === undefined) {
      return undefined;
    }
    const { data, error } = nodeState.safeParse(parseJson(text), { reportInput: true });
    if (error) {
      throw new SyntaxError(sentence(nodeState, error.issues));
    }
    return data;
  } catch (error) {
    throw new Error(`Cannot read the node state "${path}": ${(error as Error).message}`, { cause: error });
  }
}

/** @throws an error that names the file */
export async function writeNodeState(runDir: string, state: NodeState): Promise<void> {
  const path = nodeStatePath(runDir);
  try {
    await writeAtomically(path, `${JSON.stringify(state, undefined, 2)}\n`);
  } catch (error) {
    throw new Error(`Cannot write the node state "${path}": ${(error as Error).message}`, { cause: error });
  }
}
