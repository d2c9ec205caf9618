/** The blocks that addresses can be leased from on this node: open on its disk, because the datastore says they are ours. */
import { isDeepStrictEqual } from "node:util";
import { containsAddress, parseAddress } from "../../cidr.ts";
import { type Block, blockName } from "../../datastore/documents.ts";
import { cidrOf } from "../../datastore/parsed.ts";
import type { Lease, LeaseStore, LivePod, Recovery } from "../lease-store.ts";
import { type ClusterBlocks, type OwnBlock, ownBlocks, servesAllPods } from "./own-blocks.ts";
import { keepTunnelLease } from "./tunnel-lease.ts";

export interface Holdings {
  /** In the order they were claimed. */
  readonly blocks: readonly OwnBlock[];
  /** CIDRs of those that pods are given addresses from which ask for no pool, pools in the order of their names. */
  readonly forPods: readonly string[];
  /** Of the address of the node's own end of the tunnel. */
  readonly tunnelLease: Lease | undefined;
}

export interface HeldBlocksOptions {
  readonly nodeName: string;
  readonly instance: string;
  /** Blocks that another instance of this node claimed are about to be taken over: nothing is held before that. */
  readonly isReinstalled: boolean;
  readonly store: LeaseStore;
  /** The pods of the node that have addresses, by the kernel: the disk may have lost their leases. */
  readonly livePods: () => Promise<readonly LivePod[]>;
  readonly onRecovery: (recovery: Recovery) => void;
}

/** Looks at this node's disk and its pods alone: what is held must not depend on whether the datastore can be written. */
export class HeldBlocks {
  readonly #nodeName: string;
  readonly #instance: string;
  readonly #store: LeaseStore;
  readonly #livePods: () => Promise<readonly LivePod[]>;
  readonly #onRecovery: (recovery: Recovery) => void;
  /** Closed, and given back or about to be, by CIDR: not to be opened again as long as the cluster has them like this. */
  readonly #leaving = new Map<string, Block>();
  #isReinstalled: boolean;
  #isRecovered = false;
  /** What opens and what closes must not meet: a block would be open that is being given back. */
  #last: Promise<unknown> = Promise.resolve();

  constructor({ nodeName, instance, isReinstalled, store, livePods, onRecovery }: HeldBlocksOptions) {
    this.#nodeName = nodeName;
    this.#instance = instance;
    this.#isReinstalled = isReinstalled;
    this.#store = store;
    this.#livePods = livePods;
    this.#onRecovery = onRecovery;
  }

  /**
   * Opens what is ours in the cluster, and leases the tunnel's address.
   *
   * @returns undefined while blocks of ours are still to be taken over
   */
  hold(cluster: ClusterBlocks): Promise<Holdings | undefined> {
    return this.#alone(async () => {
      if (this.#isReinstalled && this.ofAnotherInstance(cluster).length > 0) {
        return undefined;
      }
      const held = this.#wanted(cluster);
      await this.#open(held);
      if (!this.#isRecovered) {
        const named = ownBlocks(this.#nodeName, cluster).map(({ block }) => block.cidr);
        this.#onRecovery(await this.#store.recover(named));
        this.#isRecovered = true;
      }
      const forPods = held
        .filter(servesAllPods)
        .sort((one, other) => (one.pool.name < other.pool.name ? -1 : Number(one.pool.name > other.pool.name)))
        .map(({ block }) => block.cidr);
      return { blocks: held, forPods, tunnelLease: await keepTunnelLease(this.#store, held, new Date()) };
    });
  }

  /** Those under our name that another instance claimed, so that they are not held. */
  ofAnotherInstance(cluster: ClusterBlocks): Block[] {
    return ownBlocks(this.#nodeName, cluster)
      .map(({ block }) => block)
      .filter((block) => !this.#isOurs(block));
  }

  /** Those of ours that nobody signed with an instance, in the order they were claimed. */
  unsigned(cluster: ClusterBlocks): Block[] {
    return ownBlocks(this.#nodeName, cluster)
      .map(({ block }) => block)
      .filter(({ instance }) => instance === undefined);
  }

  /** Every block that another instance of this node had is ours: from now on that is another machine's. */
  takenOver(): void {
    this.#isReinstalled = false;
  }

  get isReinstalled(): boolean {
    return this.#isReinstalled;
  }

  /** @returns false when the block has a lease, or is on its way out already */
  close(block: Block): Promise<boolean> {
    return this.#alone(async () => {
      if (this.#leaving.has(block.cidr) || !(await this.#store.closeBlock(block.cidr))) {
        return false;
      }
      this.#leaving.set(block.cidr, block);
      return true;
    });
  }

  /** The closed block is somebody else's or nobody's now. */
  forget({ cidr }: Block): Promise<void> {
    return this.#alone(() => this.#store.forgetBlock(cidr));
  }

  /** The closed block stays ours after all. */
  keep({ cidr }: Block): void {
    this.#leaving.delete(cidr);
  }

  /** Closed blocks that the cluster still has as ours. */
  leaving(): Block[] {
    return [...this.#leaving.values()];
  }

  /** Before the recovery, which finds what live pods have in its place then. */
  async #open(held: readonly OwnBlock[]): Promise<void> {
    const open = new Set(await this.#store.blocks());
    const isKnown = this.#isRecovered && held.every(({ block }) => open.has(block.cidr));
    const pods = isKnown ? [] : await this.#livePods();
    for (const { block } of held) {
      const live = pods.filter(({ address }) => containsAddress(cidrOf(block), parseAddress(address)));
      await this.#store.openBlock(block.cidr, live);
    }
  }

  #wanted(cluster: ClusterBlocks): OwnBlock[] {
    for (const [cidr, block] of this.#leaving) {
      if (!isDeepStrictEqual(cluster.blocks.get(blockName(cidr)), block)) {
        this.#leaving.delete(cidr);
      }
    }
    return ownBlocks(this.#nodeName, cluster).filter(
      ({ block }) => this.#isOurs(block) && !this.#leaving.has(block.cidr),
    );
  }

  /** A block that was written by hand has no instance. */
  #isOurs({ instance }: Block): boolean {
    return instance === undefined || instance === this.#instance;
  }

  #alone<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }
}
