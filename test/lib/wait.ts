/** Waits for conditions, never for time to pass. */
import { setTimeout as delay } from "node:timers/promises";

export interface WaitOptions {
  /** Completes "Cannot see …". */
  readonly what: string;
  readonly timeoutMs: number;
}

/**
 * Asks again and again until the answer is neither undefined nor false, and gives it with the milliseconds that passed.
 * Throws when the time is over, with the last error of the question as its cause.
 */
export async function waitFor<T>(
  ask: () => Promise<T | undefined | false> | T | undefined | false,
  { what, timeoutMs }: WaitOptions,
): Promise<{ value: T; elapsedMs: number }> {
  const start = performance.now();
  let lastError: unknown;
  for (;;) {
    try {
      const value = await ask();
      if (value !== undefined && value !== false) {
        return { value, elapsedMs: performance.now() - start };
      }
      lastError = undefined;
    } catch (error) {
      lastError = error;
    }
    if (performance.now() - start > timeoutMs) {
      throw new Error(`Cannot see ${what}: not so after ${timeoutMs} ms, the limit`, { cause: lastError });
    }
    await delay(10);
  }
}
