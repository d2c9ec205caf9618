/** What to do when a later step fails: last in, first out. */

interface UndoStep {
  /** What it does, to follow "Cannot": `remove the link "cali0"`. */
  readonly action: string;
  readonly run: () => Promise<void>;
}

export class UndoStack {
  readonly #steps: UndoStep[] = [];
  readonly #log: (sentence: string) => void;

  constructor(log: (sentence: string) => void) {
    this.#log = log;
  }

  push(action: string, run: () => Promise<void>): void {
    this.#steps.push({ action, run });
  }

  /** Runs every step. Failures are only logged: the error that made it necessary is the one to report. */
  async run(): Promise<void> {
    for (const { action, run } of this.#steps.reverse()) {
      try {
        await run();
      } catch (error) {
        this.#log(`Cannot ${action} while undoing: ${error instanceof Error ? error.message : error}`);
      }
    }
  }
}
