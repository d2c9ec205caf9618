/** Pools by their addresses: which one a block or an address lies in. */
import { type AddressRange, containsRange } from "../cidr.ts";
import type { Block, Pool } from "./documents.ts";
import { cidrOf } from "./parsed.ts";
import { Ranges } from "./ranges.ts";

export interface PoolRange extends AddressRange {
  readonly pool: Pool;
}

/** @throws RangeError when two of them overlap: those in force do not */
export function rangesOf(pools: ReadonlyMap<string, Pool>): Ranges<PoolRange> {
  const ranges = new Ranges<PoolRange>();
  for (const pool of pools.values()) {
    const { first, last } = cidrOf(pool);
    ranges.add({ first, last, pool });
  }
  return ranges;
}

/** Whether the block can be one of the pool's. */
export function fits(block: Block, pool: Pool): boolean {
  const cidr = cidrOf(block);
  return cidr.prefixLength === pool.blockSize && containsRange(cidrOf(pool), cidr);
}
