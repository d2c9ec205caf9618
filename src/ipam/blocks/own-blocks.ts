/** The blocks that the datastore says are this node's, and what they are good for. */
import { isDeepStrictEqual } from "node:util";
import type { Block, Node, Pool, PoolUse } from "../../datastore/documents.ts";
import { cidrOf } from "../../datastore/parsed.ts";
import { fits } from "../../datastore/pool-ranges.ts";
import { everything } from "../../datastore/selector.ts";

/** What is in force in the datastore. */
export interface ClusterBlocks {
  readonly nodes: ReadonlyMap<string, Node>;
  readonly pools: ReadonlyMap<string, Pool>;
  readonly blocks: ReadonlyMap<string, Block>;
}

export interface OwnBlock {
  readonly block: Block;
  readonly pool: Pool;
}

/** In the order they were claimed. */
export function ownBlocks(nodeName: string, { pools, blocks }: ClusterBlocks): OwnBlock[] {
  return [...blocks.values()]
    .filter(({ node }) => node === nodeName)
    .sort(inClaimOrder)
    .flatMap((block) => {
      const pool = [...pools.values()].find((each) => fits(block, each));
      return pool ? [{ block, pool }] : [];
    });
}

/** Whether new addresses of the pool are given for this. */
export function isFor(use: PoolUse, { disabled, allowedUses }: Pool): boolean {
  return !disabled && allowedUses.includes(use);
}

/** Its blocks are of one address, which pods take along to another node: they are claimed for a pod, never ahead. */
export function isMovable({ blockSize, allowedUses }: Pool): boolean {
  return blockSize === 32 && allowedUses.includes("Workload");
}

/** Whether a pod can be given an address of the block. */
export function servesPods({ pool }: OwnBlock): boolean {
  return isFor("Workload", pool) && !isMovable(pool);
}

/** Whether any pod can, in whatever Kubernetes namespace, without asking for the pool. */
export function servesAllPods({ block, pool }: OwnBlock): boolean {
  return servesPods({ block, pool }) && isDeepStrictEqual(pool.namespaceSelector, everything);
}

/** What the next block of these gets. */
export function nextClaimOrder(blocks: readonly Block[]): number {
  return Math.max(-1, ...blocks.map(({ claimOrder = 0 }) => claimOrder)) + 1;
}

function inClaimOrder(one: Block, other: Block): number {
  const byOrder = (one.claimOrder ?? 0) - (other.claimOrder ?? 0);
  return byOrder === 0 ? cidrOf(one).first - cidrOf(other).first : byOrder;
}
