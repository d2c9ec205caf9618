/** What sync tells the CNI plugin about this node: one small file in the run directory. */
import { randomUUID } from "node:crypto";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { parseJson, sentence } from "./sentence.ts";

const nodeState = z.object({
  version: z.literal(1),
  nodeName: z.string().min(1),
  /** MTU of tunl0 in bytes: the most that a pod may send in one packet. */
  mtu: z.int().min(68).max(65535),
  /** The node's own address in the pod network, on tunl0: never a pod's. */
  tunnelAddress: z.ipv4(),
  /** CIDRs of the blocks that this node holds, in the order it claimed them. */
  blocks: z.array(z.cidrv4()),
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
    const { data, error } = nodeState.safeParse(parseJson(await readFile(path, "utf8")), { reportInput: true });
    if (error) {
      throw new SyntaxError(sentence(nodeState, error.issues));
    }
    return data;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") {
      return undefined;
    }
    throw new Error(`Cannot read the node state "${path}": ${(error as Error).message}`, { cause: error });
  }
}

/** Readers see the old state or the new one, never a part, also after a power cut. */
export async function writeNodeState(runDir: string, state: NodeState): Promise<void> {
  await mkdir(runDir, { recursive: true });
  const path = nodeStatePath(runDir);
  const beside = join(runDir, `.node.json.${randomUUID()}`);
  try {
    const file = await open(beside, "wx", 0o644);
    try {
      await file.writeFile(`${JSON.stringify(state, undefined, 2)}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw new Error(`Cannot write the node state "${path}": ${(error as Error).message}`, { cause: error });
  }
}
