/** Claims the node's next block when it needs one. */
import type { BlockClaims } from "../../datastore/block-claims.ts";
import { type Block, blockName, type Node, type PoolUse } from "../../datastore/documents.ts";
import { fits } from "../../datastore/pool-ranges.ts";
import { candidates, poolsFor } from "./candidates.ts";
import type { Holdings } from "./held-blocks.ts";
import { type ClusterBlocks, isFor, isMovable, nextClaimOrder, ownBlocks } from "./own-blocks.ts";
import { isLow, type Supply } from "./supply.ts";

interface ClaimingOptions {
  readonly instance: string;
  readonly claims: BlockClaims;
  readonly maxBlocks: number;
  readonly onClaimed: (block: Block) => void;
}

export class Claiming {
  readonly #instance: string;
  readonly #claims: BlockClaims;
  readonly #maxBlocks: number;
  readonly #onClaimed: (block: Block) => void;
  /** Claimed, and not yet seen in the cluster. */
  readonly #awaited = new Map<string, Block>();

  constructor({ instance, claims, maxBlocks, onClaimed }: ClaimingOptions) {
    this.#instance = instance;
    this.#claims = claims;
    this.#maxBlocks = maxBlocks;
    this.#onClaimed = onClaimed;
  }

  /**
   * One block at most: the next one is claimed when the cluster shows this one and it is not enough. A lost race for one
   * leads to the next.
   *
   * @throws an error that says why when a block is needed and cannot be had
   */
  async claimWhatIsNeeded(
    node: Node,
    cluster: ClusterBlocks,
    { holdings, supplies }: { readonly holdings: Holdings; readonly supplies: readonly Supply[] },
  ): Promise<void> {
    await this.#settle(node, cluster);
    if (this.#awaited.size > 0) {
      return;
    }
    if (isLow(supplies)) {
      await this.#claim(node, "Workload", cluster);
    } else if (needsTunnelBlock(holdings, supplies) && poolsFor(node, "Tunnel", cluster.pools).length > 0) {
      await this.#claim(node, "Tunnel", cluster);
    }
  }

  /** Nothing more is claimed until the cluster shows this block, which was claimed for this node just now. */
  waitFor(block: Block): void {
    this.#awaited.set(block.cidr, block);
  }

  /** A claim that the cluster does not show may have gone, or its pool has. */
  async #settle(node: Node, { pools, blocks }: ClusterBlocks): Promise<void> {
    for (const [cidr, claimed] of this.#awaited) {
      if (blocks.has(blockName(cidr))) {
        this.#awaited.delete(cidr);
        continue;
      }
      const hasPool = [...pools.values()].some((pool) => fits(claimed, pool));
      if (!hasPool || (await this.#claims.read(cidr))?.node !== node.name) {
        await this.#claims.giveBack(claimed);
        this.#awaited.delete(cidr);
      }
    }
  }

  async #claim(node: Node, use: PoolUse, cluster: ClusterBlocks): Promise<void> {
    const own = ownBlocks(node.name, cluster);
    if (own.filter(({ pool }) => !isMovable(pool)).length >= this.#maxBlocks) {
      throw new Error(
        `Cannot claim another block: node "${node.name}" has ${own.length}, "ipam.maxBlocksPerNode" allows ${this.#maxBlocks}`,
      );
    }
    const claimOrder = nextClaimOrder(own.map(({ block }) => block));
    for (const { cidr } of candidates(node, use, cluster)) {
      const block = { cidr, node: node.name, claimOrder, instance: this.#instance };
      if (await this.#claims.claim(block)) {
        this.waitFor(block);
        this.#onClaimed(block);
        return;
      }
    }
    throw noneLeft(node, use, cluster);
  }
}

/** The tunnel has no address, or one that it can give up as soon as it has another. */
function needsTunnelBlock({ blocks, tunnelLease }: Holdings, supplies: readonly Supply[]): boolean {
  const hasHome = blocks.some(({ pool }) => isFor("Tunnel", pool));
  const leases = supplies.find(({ block }) => block.cidr === tunnelLease?.block)?.leases;
  return !hasHome && (tunnelLease === undefined || leases === 1);
}

function noneLeft(node: Node, use: PoolUse, { pools }: ClusterBlocks): Error {
  const names = poolsFor(node, use, pools).map(({ name }) => `"${name}"`);
  const purpose = use === "Workload" ? "pods" : "the tunnel";
  const reason =
    names.length === 0
      ? `no enabled pool with blocks of more than one address is for ${purpose} on node "${node.name}"`
      : `every block of the pools ${names.join(", ")} is taken or reserved`;
  return new Error(`Cannot claim a block for ${purpose}: ${reason}, add a pool`);
}
