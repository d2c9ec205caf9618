/** Runs one piece of work whenever it is asked for: never twice at once, and once for however many asked meanwhile. */

/** Events drive the work; this catches what no event told. */
const resyncIntervalMs = 60_000;
const retryDelayMs = 1_000;

export class WorkLoop {
  /** @returns whether all of it succeeded; otherwise it is done again shortly */
  readonly #work: () => Promise<boolean>;
  #resync: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #isAskedFor = false;
  #isStopped = false;

  constructor(work: () => Promise<boolean>) {
    this.#work = work;
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

  async #run(): Promise<void> {
    this.#isAskedFor = false;
    clearTimeout(this.#retry);
    const succeeded = await this.#work();
    if (!succeeded && !this.#isStopped) {
      this.#retry = setTimeout(() => this.schedule(), retryDelayMs);
    }
  }

  /** Waits for work that is under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#resync);
    await this.#running;
    clearTimeout(this.#retry);
  }
}
