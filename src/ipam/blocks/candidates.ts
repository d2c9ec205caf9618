/** Which blocks a node tries to claim, and in which order. */
import { createHash } from "node:crypto";
import { type AddressRange, containsRange, formatAddress, parseCidr } from "../../cidr.ts";
import { blockName, type Node, type Pool, type PoolUse } from "../../datastore/documents.ts";
import { cidrOf } from "../../datastore/parsed.ts";
import { matches } from "../../datastore/selector.ts";
import { type ClusterBlocks, isFor, isMovable } from "./own-blocks.ts";

export interface Candidate {
  readonly cidr: string;
  readonly pool: Pool;
}

/**
 * The blocks of the pools that are enabled, match the node's labels and have the use, pools in the order of their names;
 * without those that somebody is known to have and those that are wholly reserved. Within a pool each node begins
 * somewhere else, so that nodes that start together seldom want the same. One at a time: a pool can have millions.
 */
export function* candidates(
  node: Node,
  use: PoolUse,
  { pools, blocks }: Pick<ClusterBlocks, "pools" | "blocks">,
): Generator<Candidate> {
  for (const pool of poolsFor(node, use, pools)) {
    for (const cidr of blocksOf(pool, node.name)) {
      if (!blocks.has(blockName(cidr))) {
        yield { cidr, pool };
      }
    }
  }
}

/** The pools that the node may claim blocks of for this use ahead of time, in the order of their names. */
export function poolsFor(node: Node, use: PoolUse, pools: ReadonlyMap<string, Pool>): Pool[] {
  return [...pools.values()]
    .filter((pool) => isFor(use, pool) && !isMovable(pool) && matches(pool.nodeSelector, node.labels ?? {}))
    .sort((one, other) => (one.name < other.name ? -1 : 1));
}

function* blocksOf(pool: Pool, nodeName: string): Generator<string> {
  const { first, prefixLength } = cidrOf(pool);
  const size = 2 ** (32 - pool.blockSize);
  const count = 2 ** (pool.blockSize - prefixLength);
  const reserved = pool.reservedCidrs.map(parseCidr);
  const start = spread(`${nodeName}/${pool.name}`) % count;
  for (let step = 0; step < count; step++) {
    const block = rangeAt(first + ((start + step) % count) * size, size);
    if (!reserved.some((range) => containsRange(range, block))) {
      yield `${formatAddress(block.first)}/${pool.blockSize}`;
    }
  }
}

function rangeAt(first: number, size: number): AddressRange {
  return { first, last: first + size - 1 };
}

/** The same number for the same text on every node, and any of 2^32. */
function spread(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE(0);
}
