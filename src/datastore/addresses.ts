/** Which nodes and pools get the addresses they ask for: no two nodes share one, and none lies in a pool. */
import type { AddressRange } from "../cidr.ts";
import type { Refusal, Wanted } from "./assess.ts";
import { type Claim, settle } from "./claims.ts";
import type { Cluster } from "./cluster.ts";
import type { Block, Node, Pool } from "./documents.ts";
import { cidrOf, endPointOf } from "./parsed.ts";

interface NodeClaim extends Claim {
  readonly node: Node;
}

interface PoolClaim extends Claim {
  readonly pool: Pool;
}

type Claimant = NodeClaim | PoolClaim;

export interface Granted {
  readonly nodes: Map<string, Node>;
  readonly pools: Map<string, Pool>;
  readonly refusals: readonly Refusal[];
}

/** What was granted in `previous` is kept: by an object whose new address or range is refused, too. */
export function grantAddresses(wanted: Wanted, previous: Cluster): Granted {
  const claims = claimsOf(wanted);
  const { granted, refused } = settle(claims, standingClaims(wanted, previous));
  const holders = [...granted.values()];
  return {
    nodes: new Map(holders.flatMap((claim) => ("node" in claim ? [[claim.node.name, claim.node]] : []))),
    pools: new Map(holders.flatMap((claim) => ("pool" in claim ? [[claim.pool.name, claim.pool]] : []))),
    refusals: claims.flatMap((claim) => {
      const other = refused.get(claim.object);
      return other ? [collision(claim, other)] : [];
    }),
  };
}

/**
 * In the order in which newcomers are served. After a restart nobody remembers who came first, but blocks do tell who is
 * in use: those go first, so that a mistake among the documents interrupts as little then as it did before.
 */
function claimsOf({ nodes, pools, validBlocks }: Wanted): Claimant[] {
  const nodeClaims = inNameOrder(nodes).map(nodeClaim);
  const poolClaims = inNameOrder(pools).map(poolClaim);
  const usedNodes = new Set(validBlocks.map(({ node }) => node));
  const isUsedPool = poolUsage(validBlocks);
  return [
    ...poolClaims.filter(({ pool }) => isUsedPool(pool)),
    ...nodeClaims.filter(({ node }) => usedNodes.has(node.name)),
    ...poolClaims.filter(({ pool }) => !isUsedPool(pool)),
    ...nodeClaims.filter(({ node }) => !usedNodes.has(node.name)),
  ];
}

function standingClaims({ nodes, pools }: Wanted, previous: Cluster): Map<string, Claimant> {
  const standing = [
    ...[...previous.nodes.values()].filter(({ name }) => nodes.has(name)).map(nodeClaim),
    ...[...previous.pools.values()].filter(({ name }) => pools.has(name)).map(poolClaim),
  ];
  return new Map(standing.map((claim) => [claim.object, claim]));
}

function nodeClaim(node: Node): NodeClaim {
  const { address } = endPointOf(node);
  return { object: `node/${node.name}`, first: address, last: address, node };
}

function poolClaim(pool: Pool): PoolClaim {
  const { first, last } = cidrOf(pool);
  return { object: `pool/${pool.name}`, first, last, pool };
}

function inNameOrder<T>(objects: ReadonlyMap<string, T>): T[] {
  return [...objects.keys()].sort().map((name) => objects.get(name) as T);
}

/** Tells of a pool whether one of the blocks is its own. */
function poolUsage(blocks: readonly Block[]): (pool: Pool) => boolean {
  const firstsBySize = Map.groupBy(
    blocks.map(cidrOf).sort((one, other) => one.first - other.first),
    ({ prefixLength }) => prefixLength,
  );
  return (pool) => {
    const { first, last } = cidrOf(pool);
    const firsts = firstsBySize.get(pool.blockSize) ?? [];
    const found = firsts[lowerBound(firsts, first)];
    return found !== undefined && found.first <= last;
  };
}

/** Index of the first range that begins at this address or behind it. */
function lowerBound(ranges: readonly AddressRange[], address: number): number {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ranges[middle] as AddressRange).first < address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

function collision(claim: Claimant, other: Claimant): Refusal {
  if ("node" in claim) {
    const address = `address "${claim.node.address}"`;
    const problem =
      "node" in other
        ? `${address} belongs to node "${other.node.name}" already, each node needs its own`
        : `${address} lies in pool "${other.pool.name}" ("${other.pool.cidr}"), addresses outside of every pool are allowed`;
    return ["node", claim.node.name, problem];
  }
  const problem =
    "node" in other
      ? `"${claim.pool.cidr}" holds the address "${other.node.address}" of node "${other.node.name}", ranges without node addresses are allowed`
      : `"${claim.pool.cidr}" overlaps pool "${other.pool.name}" ("${other.pool.cidr}"), ranges of its own are allowed`;
  return ["pool", claim.pool.name, problem];
}
