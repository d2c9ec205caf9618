/** What pools, blocks and external nodes may not say about each other. */
import { containsRange, overlaps, parseCidr } from "../cidr.ts";
import type { Refuse, Wanted } from "./assess.ts";
import type { Cluster } from "./cluster.ts";
import { type Block, type ClusterSettings, type Node, type Pool, settingsName } from "./documents.ts";
import { cidrOf } from "./parsed.ts";
import { fits, type PoolRange } from "./pool-ranges.ts";
import type { Ranges } from "./ranges.ts";

/** Pools that must not come into force, each with the reason: external nodes that are let in are in them. */
export function poolsOverExternalNodes(wanted: Wanted, previous: Cluster): Map<string, string> {
  const letIn = new Set(previous.settings.externalNodeCidrs);
  const external = wanted.settings.externalNodeCidrs.filter((cidr) => letIn.has(cidr)).map(parseCidr);
  const refused = new Map<string, string>();
  for (const [name, pool] of wanted.pools) {
    const overlapped = external.find((cidr) => overlaps(cidr, cidrOf(pool)));
    if (overlapped) {
      refused.set(name, `"${pool.cidr}" overlaps "${overlapped.text}" of the external nodes, other ranges are allowed`);
    }
  }
  return refused;
}

/** Pools whose change would leave blocks without a pool, each with the reason. */
export function strandingPools(
  pools: ReadonlyMap<string, Pool>,
  previous: Cluster,
  validBlocks: readonly Block[],
): Map<string, string> {
  const refused = new Map<string, string>();
  for (const [name, pool] of pools) {
    const before = previous.pools.get(name);
    if (!before || (before.cidr === pool.cidr && before.blockSize === pool.blockSize)) {
      continue;
    }
    const stranded = validBlocks
      .filter((block) => fits(block, before) && ![...pools.values()].some((other) => fits(block, other)))
      .map(({ cidr }) => cidr)
      .sort();
    if (stranded.length > 0) {
      const problem = `CIDR and block size of a pool with blocks cannot change, and "${stranded[0]}" is a block of "${before.cidr}" with block size ${before.blockSize}`;
      refused.set(name, problem);
    }
  }
  return refused;
}

/** Those that lie in a pool, have its block size and belong to a node: no two of them can overlap. */
export function usableBlocks(
  wanted: ReadonlyMap<string, Block>,
  nodes: ReadonlyMap<string, Node>,
  pools: Ranges<PoolRange>,
  refuse: Refuse,
): Map<string, Block> {
  const usable = new Map<string, Block>();
  for (const [name, block] of wanted) {
    const problem = problemOfPlace(block, pools) ?? problemOfNode(block, nodes);
    if (problem === undefined) {
      usable.set(name, block);
    } else {
      refuse("block", name, problem);
    }
  }
  return usable;
}

function problemOfPlace(block: Block, pools: Ranges<PoolRange>): string | undefined {
  const cidr = cidrOf(block);
  const pool = pools.overlapping(cidr)?.pool;
  if (!pool || !containsRange(cidrOf(pool), cidr)) {
    return `"${block.cidr}" lies outside of every accepted pool`;
  }
  return cidr.prefixLength === pool.blockSize
    ? undefined
    : `"${block.cidr}" is not of the block size of pool "${pool.name}", prefix length ${pool.blockSize} is allowed`;
}

function problemOfNode({ node }: Block, nodes: ReadonlyMap<string, Node>): string | undefined {
  return nodes.has(node) ? undefined : `its node "${node}" is not among the accepted nodes`;
}

/** Without the external nodes in a pool: they would be let in with the addresses of pods. */
export function usableSettings(wanted: ClusterSettings, pools: Ranges<PoolRange>, refuse: Refuse): ClusterSettings {
  const externalNodeCidrs = wanted.externalNodeCidrs.filter((cidr) => {
    const pool = pools.overlapping(parseCidr(cidr))?.pool;
    if (pool) {
      const problem = `"${cidr}" of the external nodes overlaps pool "${pool.name}" ("${pool.cidr}")`;
      refuse("settings", settingsName, problem, `"${cidr}"`);
    }
    return pool === undefined;
  });
  return externalNodeCidrs.length === wanted.externalNodeCidrs.length ? wanted : { ...wanted, externalNodeCidrs };
}
