/** Runs one piece of work whenever it is asked for: never twice at once, and once for however many asked meanwhile. */

/** Events drive the work; this catches what no event told. */
const resyncIntervalMs = 60_000;

/** Milliseconds until work that failed this many times in a row is done again. */
export type RetryDelay = (failures: number) => number;

const everySecond: RetryDelay = () => 1000;

/** For work that others are asked for: from two seconds up to a minute, and never all nodes at once. */
export const backOff: RetryDelay = (failures) =>
  Math.min(resyncIntervalMs, 1000 * 2 ** failures) * (0.5 + Math.random() / 2);

export class WorkLoop {
  /** @returns whether all of it succeeded; otherwise it is done again */
  readonly #work: () => Promise<boolean>;
  readonly #retryDelay: RetryDelay;
  #resync: NodeJS.Timeout | undefined;
  #later: { readonly timer: NodeJS.Timeout; readonly at: number } | undefined;
  #running: Promise<void> = Promise.resolve();
  #failures = 0;
  #isAskedFor = false;
  #isStopped = false;

  constructor(work: () => Promise<boolean>, retryDelay = everySecond) {
    this.#work = work;
    this.#retryDelay = retryDelay;
  }

  schedule(): void {
    if (this.#isAskedFor || this.#isStopped) {
      return;
    }
    // Not before: who has not asked yet may not know yet what is right.
    this.#resync ??= setInterval(() => this.schedule(), resyncIntervalMs);
    this.#isAskedFor = true;
    this.#running = this.#running.then(() => this.#run());
  }

  /** At the latest in so many milliseconds; Infinity asks for nothing. */
  scheduleIn(delayMs: number): void {
    const at = performance.now() + delayMs;
    // What the resync catches needs no timer, and setTimeout takes no more than 24 days.
    if (this.#isStopped || delayMs >= resyncIntervalMs || (this.#later && this.#later.at <= at)) {
      return;
    }
    clearTimeout(this.#later?.timer);
    const timer = setTimeout(() => {
      this.#later = undefined;
      this.schedule();
    }, delayMs);
    this.#later = { timer, at };
  }

  async #run(): Promise<void> {
    this.#isAskedFor = false;
    const succeeded = await this.#work();
    this.#failures = succeeded ? 0 : this.#failures + 1;
    if (!succeeded) {
      this.scheduleIn(this.#retryDelay(this.#failures));
    }
  }

  /** Waits for work that is under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#resync);
    await this.#running;
    clearTimeout(this.#later?.timer);
  }
}
