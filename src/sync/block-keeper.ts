/** Sees to it that this node has the blocks it needs and no others: what of that has to be written to the datastore. */
import type { Logger } from "pino";
import type { BlockClaims } from "../datastore/block-claims.ts";
import type { Block } from "../datastore/documents.ts";
import { Adoption } from "../ipam/blocks/adoption.ts";
import { Claiming } from "../ipam/blocks/claiming.ts";
import { GivingBack } from "../ipam/blocks/giving-back.ts";
import type { HeldBlocks, Holdings } from "../ipam/blocks/held-blocks.ts";
import { claimLostBlocks } from "../ipam/blocks/lost-blocks.ts";
import { type Doubts, Orphans } from "../ipam/blocks/orphans.ts";
import type { ClusterBlocks } from "../ipam/blocks/own-blocks.ts";
import { type Supply, supplyOf } from "../ipam/blocks/supply.ts";
import type { LeaseStore } from "../ipam/lease-store.ts";
import type { Conditions } from "./conditions.ts";
import type { SyncConfig } from "./config.ts";

export interface BlockKeeperOptions {
  readonly config: Pick<SyncConfig, "nodeName" | "ipam">;
  readonly instance: string;
  readonly held: HeldBlocks;
  readonly store: LeaseStore;
  readonly claims: BlockClaims;
  /** Called with what is held now, as often as that is looked at. */
  readonly onHeld: (holdings: Holdings) => void;
  readonly conditions: Pick<Conditions, "attempt">;
  readonly log: Pick<Logger, "info" | "debug">;
}

/** `nextMs`: until there is something to do without an event, in ms; Infinity when there is nothing. */
export interface Kept {
  succeeded: boolean;
  nextMs: number;
}

export class BlockKeeper {
  readonly #options: BlockKeeperOptions;
  readonly #adoption: Adoption;
  readonly #claiming: Claiming;
  readonly #givingBack: GivingBack;
  readonly #orphans: Orphans;

  constructor(options: BlockKeeperOptions) {
    const { config, instance, held, claims } = options;
    const { nodeName, ipam } = config;
    this.#options = options;
    this.#adoption = new Adoption({ nodeName, instance, claims, held });
    this.#claiming = new Claiming({
      instance,
      claims,
      maxBlocks: ipam.maxBlocksPerNode,
      onClaimed: this.#tell("block claimed"),
    });
    this.#givingBack = new GivingBack({
      claims,
      held,
      quietMs: ipam.releaseAfterSeconds * 1000,
      onGivenBack: this.#tell("block given back"),
    });
    this.#orphans = new Orphans({
      nodeName,
      claims,
      graceMs: ipam.deletedNodeGraceSeconds * 1000,
      onFreed: this.#tell("block of a deleted node is free"),
    });
  }

  /**
   * One look at everything. Each part that fails is a condition of its own and keeps no other from its work. A node that
   * the datastore does not know keeps what it has.
   *
   * @param doubts undefined while the datastore holds on to what it read before: nobody is believed to be deleted then
   * @param nowMs of a clock that is never set
   */
  async keep(cluster: ClusterBlocks, doubts: Doubts | undefined, nowMs: number): Promise<Kept> {
    const node = cluster.nodes.get(this.#options.config.nodeName);
    const round = { succeeded: true, nextMs: Number.POSITIVE_INFINITY };
    if (node) {
      await this.#attempt(round, "instance", () => this.#adoption.takeOver(cluster));
      const own = await this.#attempt(round, "held", () => this.#look(cluster));
      if (own) {
        await this.#sign(cluster);
        await this.#attempt(round, "lost", () => this.#claimLost(cluster));
        await this.#attempt(round, "claim", () => this.#claiming.claimWhatIsNeeded(node, cluster, own));
        await this.#attemptInTime(round, "give-back", () => this.#givingBack.giveBackWhatIsQuiet(own.supplies, nowMs));
      }
    }
    if (node && doubts) {
      await this.#attemptInTime(round, "deleted-nodes", () => this.#orphans.free(cluster.nodes, doubts, nowMs));
    }
    return round;
  }

  async #look(cluster: ClusterBlocks): Promise<{ holdings: Holdings; supplies: Supply[] } | undefined> {
    const { held, store, onHeld } = this.#options;
    const holdings = await held.hold(cluster);
    if (holdings) {
      onHeld(holdings);
    }
    return holdings && { holdings, supplies: await supplyOf(store, holdings.blocks) };
  }

  /** Where the datastore cannot be written, blocks that an operator wrote are used as they are. */
  async #sign(cluster: ClusterBlocks): Promise<void> {
    try {
      await this.#adoption.sign(cluster);
    } catch (error) {
      this.#options.log.debug({ err: error }, "blocks stay unsigned");
    }
  }

  async #claimLost(cluster: ClusterBlocks): Promise<void> {
    const { config, instance, claims, held, store } = this.#options;
    const tell = this.#tell("block claimed again, since its addresses are in use");
    const onClaimed = (block: Block) => {
      this.#claiming.waitFor(block);
      tell(block);
    };
    await claimLostBlocks(cluster, { nodeName: config.nodeName, instance, claims, held, store, onClaimed });
  }

  async #attempt<Result>(round: Kept, part: string, work: () => Promise<Result>): Promise<Result | undefined> {
    const results: Result[] = [];
    const isDone = await this.#options.conditions.attempt(`blocks/${part}`, async () => {
      results.push(await work());
    });
    round.succeeded &&= isDone;
    return results[0];
  }

  /** @param work answers after how many ms it wants to be done again */
  async #attemptInTime(round: Kept, part: string, work: () => Promise<number>): Promise<void> {
    const waitMs = await this.#attempt(round, part, work);
    round.nextMs = Math.min(round.nextMs, waitMs ?? Number.POSITIVE_INFINITY);
  }

  #tell(what: string): (block: Block) => void {
    return (block) => this.#options.log.info({ block }, what);
  }
}
