/** Pools whose document is gone while blocks of theirs are left: running pods have addresses of these. */
import type { Wanted } from "./assess.ts";
import type { Cluster, Condition } from "./cluster.ts";
import type { Block, Pool } from "./documents.ts";
import { sameOr } from "./parsed.ts";
import { fits } from "./pool-ranges.ts";

/**
 * Pools that were in force and that nobody asks for any more, but that have to stay for blocks which fit none of `pools`.
 * Nothing new is given from them.
 */
export function poolsWithBlocksLeft(
  pools: ReadonlyMap<string, Pool>,
  wanted: Wanted,
  previous: Cluster,
): Map<string, Pool> {
  const removed = [...previous.pools].filter(([name]) => !wanted.pools.has(name) && !pools.has(name));
  const needed = removed.filter(([, pool]) =>
    blocksOf(pool, wanted.blocks).some((block) => ![...pools.values()].some((other) => fits(block, other))),
  );
  return new Map(needed.map(([name, pool]) => [name, sameOr(pool, { ...pool, disabled: true })]));
}

/** For each of the pools that has no document: what keeps it, and how it goes. */
export function conditionsOfRemoved(pools: ReadonlyMap<string, Pool>, wanted: Wanted): Condition[] {
  const removed = [...pools.values()].filter(({ name }) => !wanted.pools.has(name));
  return removed.map((pool) => {
    const blocks = blocksOf(pool, wanted.blocks);
    const [first] = blocks.toSorted((one, other) => (one.cidr < other.cidr ? -1 : 1));
    const left = blocks.length === 1 ? "1 block of it is" : `${blocks.length} blocks of it are`;
    return {
      object: `pool/${pool.name}`,
      message: `Cannot remove pool "${pool.name}" ("${pool.cidr}") yet: ${left} left, "${first?.cidr}" of node "${first?.node}" among them; nothing new is given from it, and it goes with its last block when the pods that have its addresses are gone`,
    };
  });
}

function blocksOf(pool: Pool, blocks: ReadonlyMap<string, Block>): Block[] {
  return [...blocks.values()].filter((block) => fits(block, pool));
}
