/** Gives blocks back that nobody needs: closed on disk first, so that no ADD can lease from them meanwhile. */
import { isDeepStrictEqual } from "node:util";
import type { BlockClaims } from "../../datastore/block-claims.ts";
import type { Block } from "../../datastore/documents.ts";
import type { HeldBlocks } from "./held-blocks.ts";
import { dispensable, type Supply } from "./supply.ts";

interface GivingBackOptions {
  readonly claims: BlockClaims;
  readonly held: HeldBlocks;
  /** How long a block has to be empty. */
  readonly quietMs: number;
  readonly onGivenBack: (block: Block) => void;
}

export class GivingBack {
  readonly #claims: BlockClaims;
  readonly #held: HeldBlocks;
  readonly #quietMs: number;
  readonly #onGivenBack: (block: Block) => void;
  /** By CIDR: since when the block was seen to be empty, in ms. */
  readonly #emptySince = new Map<string, number>();

  constructor({ claims, held, quietMs, onGivenBack }: GivingBackOptions) {
    this.#claims = claims;
    this.#held = held;
    this.#quietMs = quietMs;
    this.#onGivenBack = onGivenBack;
  }

  /**
   * @param nowMs of a clock that is never set
   * @returns milliseconds until the next block's time comes, Infinity when there is none
   */
  async giveBackWhatIsQuiet(supplies: readonly Supply[], nowMs: number): Promise<number> {
    await this.#settle();
    this.#remember(supplies, nowMs);
    let left = supplies;
    for (const supply of dispensable(supplies)) {
      const isDue = nowMs - (this.#emptySince.get(supply.block.cidr) ?? nowMs) >= this.#quietMs;
      if (isDue && dispensable(left).includes(supply) && (await this.#giveBack(supply.block))) {
        left = left.filter((other) => other !== supply);
      }
    }
    const waits = dispensable(left).map(
      ({ block }) => this.#quietMs - (nowMs - (this.#emptySince.get(block.cidr) ?? 0)),
    );
    return Math.min(Number.POSITIVE_INFINITY, ...waits.filter((wait) => wait > 0));
  }

  /** What an attempt left undecided whose answer was lost: is it still ours? */
  async #settle(): Promise<void> {
    for (const block of this.#held.leaving()) {
      if (isDeepStrictEqual(await this.#claims.read(block.cidr), block)) {
        this.#held.keep(block);
      } else {
        await this.#held.forget(block);
      }
    }
  }

  async #giveBack(block: Block): Promise<boolean> {
    if (!(await this.#held.close(block))) {
      return false;
    }
    if (!(await this.#claims.giveBack(block))) {
      this.#held.keep(block);
      return false;
    }
    await this.#held.forget(block);
    this.#emptySince.delete(block.cidr);
    this.#onGivenBack(block);
    return true;
  }

  #remember(supplies: readonly Supply[], nowMs: number): void {
    const empty = new Set(supplies.filter(({ leases }) => leases === 0).map(({ block }) => block.cidr));
    for (const cidr of [...this.#emptySince.keys()].filter((known) => !empty.has(known))) {
      this.#emptySince.delete(cidr);
    }
    for (const cidr of empty) {
      this.#emptySince.set(cidr, this.#emptySince.get(cidr) ?? nowMs);
    }
  }
}
