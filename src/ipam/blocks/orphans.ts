/** The blocks of nodes that were deleted: freed by one of the remaining nodes after a while. */
import { createHash } from "node:crypto";
import type { BlockClaims } from "../../datastore/block-claims.ts";
import type { Block, Node } from "../../datastore/documents.ts";

/** What the datastore tells beside what is in force. */
export interface Doubts {
  /** CIDRs of blocks whose documents are set aside: those of deleted nodes are among them. */
  readonly blocks: ReadonlySet<string>;
  /** Names of nodes whose documents are there and wrong: they are not deleted. */
  readonly nodes: ReadonlySet<string>;
}

interface OrphansOptions {
  readonly nodeName: string;
  readonly claims: BlockClaims;
  readonly graceMs: number;
  readonly onFreed: (block: Block) => void;
}

export class Orphans {
  readonly #nodeName: string;
  readonly #claims: BlockClaims;
  readonly #graceMs: number;
  readonly #onFreed: (block: Block) => void;
  /** What was read of blocks that are set aside, by CIDR; undefined when it was gone by then. */
  readonly #read = new Map<string, Block | undefined>();
  /** Of those that are set aside: what could not be read. */
  #unreadable = new Set<string>();
  /** By node: since when it is known to be deleted, in ms. */
  readonly #deletedSince = new Map<string, number>();

  constructor({ nodeName, claims, graceMs, onFreed }: OrphansOptions) {
    this.#nodeName = nodeName;
    this.#claims = claims;
    this.#graceMs = graceMs;
    this.#onFreed = onFreed;
  }

  /**
   * Frees the blocks whose time has come. A node that is there again by then keeps its own.
   *
   * @param nowMs of a clock that is never set
   * @returns milliseconds until the next one's time comes, Infinity when there is none
   */
  async free(nodes: ReadonlyMap<string, Node>, doubts: Doubts, nowMs: number): Promise<number> {
    const orphans = (await this.#setAside(doubts.blocks)).filter(
      ({ node }) => !nodes.has(node) && !doubts.nodes.has(node),
    );
    this.#remember(new Set(orphans.map(({ node }) => node)), nowMs);
    const living = [...nodes.values()].filter(({ outOfService }) => outOfService !== true).map(({ name }) => name);
    let next = Number.POSITIVE_INFINITY;
    for (const orphan of orphans) {
      const since = this.#deletedSince.get(orphan.node) ?? nowMs;
      const left = since + freeingDelayMs(rank(this.#nodeName, orphan.cidr, living), this.#graceMs) - nowMs;
      if (left > 0) {
        next = Math.min(next, left);
      } else {
        await this.#free(orphan, nowMs);
      }
    }
    return next;
  }

  async #free(orphan: Block, nowMs: number): Promise<void> {
    this.#read.delete(orphan.cidr); // whatever comes: what is there afterwards is looked at anew
    // Asked now, since the watch may be late to tell that the node is there again.
    if (await this.#claims.hasNode(orphan.node)) {
      this.#deletedSince.set(orphan.node, nowMs);
    } else if (await this.#claims.giveBack(orphan)) {
      this.#onFreed(orphan);
    }
  }

  /** Each is read once as long as it is set aside. What cannot be read, since it is wrong, keeps no other from being read. */
  async #setAside(cidrs: ReadonlySet<string>): Promise<Block[]> {
    for (const cidr of [...this.#read.keys()].filter((known) => !cidrs.has(known))) {
      this.#read.delete(cidr);
    }
    const isLast = (cidr: string) => Number(this.#unreadable.has(cidr));
    const unread = [...cidrs].filter((cidr) => !this.#read.has(cidr)).sort((a, b) => isLast(a) - isLast(b));
    this.#unreadable = new Set([...this.#unreadable].filter((cidr) => cidrs.has(cidr)));
    for (const cidr of unread) {
      try {
        this.#read.set(cidr, await this.#claims.read(cidr));
      } catch {
        this.#unreadable.add(cidr);
        break; // the datastore may be away, and then each one would be waited for
      }
    }
    return [...this.#read.values()].filter((block) => block !== undefined);
  }

  #remember(deleted: ReadonlySet<string>, nowMs: number): void {
    for (const name of [...this.#deletedSince.keys()].filter((known) => !deleted.has(known))) {
      this.#deletedSince.delete(name);
    }
    for (const name of deleted) {
      this.#deletedSince.set(name, this.#deletedSince.get(name) ?? nowMs);
    }
  }
}

/**
 * The place of a node among those that can free a block: another order for each block, the same seen from every node, and
 * the others keep theirs when one goes (rendezvous hashing, Thaler and Ravishankar 1998).
 */
export function rank(nodeName: string, cidr: string, nodes: readonly string[]): number {
  const own = weight(nodeName, cidr);
  return nodes.filter((other) => other !== nodeName && weight(other, cidr) > own).length;
}

/** The first frees after the grace period; each next one leaves the one before it more time than that had. */
export function freeingDelayMs(place: number, graceMs: number): number {
  return graceMs * (1 + (place * (place + 1)) / 2);
}

function weight(nodeName: string, cidr: string): bigint {
  return createHash("sha256").update(`${nodeName}/${cidr}`).digest().readBigUInt64BE(0);
}
