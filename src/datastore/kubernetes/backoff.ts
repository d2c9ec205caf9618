/** How long to wait before another attempt: with full jitter, so that the nodes of a cluster do not come all at once. */
import { setTimeout as delay } from "node:timers/promises";

export interface BackoffLimits {
  /** Milliseconds that the first wait takes at most; each further one may take twice as many. */
  readonly firstMs: number;
  readonly longestMs: number;
}

export class Backoff {
  readonly #limits: BackoffLimits;
  #attempts = 0;

  constructor(limits: BackoffLimits) {
    this.#limits = limits;
  }

  /** How many attempts in a row have failed. */
  get attempts(): number {
    return this.#attempts;
  }

  reset(): void {
    this.#attempts = 0;
  }

  /**
   * After an attempt that failed: waits for a random part of the time that this one is worth, on top of `leastMs`.
   * Resolves at once when the signal aborts.
   */
  async wait(leastMs: number, signal: AbortSignal): Promise<void> {
    const { firstMs, longestMs } = this.#limits;
    const limit = Math.min(longestMs, firstMs * 2 ** this.#attempts);
    this.#attempts += 1;
    await delay(leastMs + Math.random() * limit, undefined, { signal }).catch(() => undefined);
  }
}
