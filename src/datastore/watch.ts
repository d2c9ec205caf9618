/** Watches directories that may go and come back, which a plain inotify watch does not survive. */
import { type FSWatcher, watch } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname, relative, sep } from "node:path";

/** `name` is that of the entry which changed in the directory, null where the kernel did not tell. */
export type WatchListener = (directory: string, name: string | null) => void;

export class Watch {
  readonly #root: string;
  readonly #directories: readonly string[];
  readonly #listener: WatchListener;
  readonly #watchers = new Map<string, FSWatcher>();
  /** Which directory each path led to when it was looked at last; none where a watch failed. */
  readonly #identities = new Map<string, string>();
  readonly #problems = new Map<string, string>();

  /** `root` is an absolute path, the other directories lie in it. None of them has to exist. */
  constructor(root: string, subdirectories: readonly string[], listener: WatchListener) {
    this.#root = root;
    this.#directories = [root, ...subdirectories];
    this.#listener = listener;
  }

  /** One sentence for each directory that exists and cannot be watched. */
  get problems(): string[] {
    return [...this.#problems.values()].sort();
  }

  /**
   * Follows the paths to where they lead now. Returns the directories whose events were not seen up to now: they
   * appeared, went, or were replaced.
   */
  async rearm(): Promise<Set<string>> {
    const moved = new Set<string>();
    for (const directory of this.#directories) {
      const identity = await identityOf(directory);
      if (this.#identities.get(directory) !== identity) {
        this.#disarm(directory);
        this.#arm(directory, identity, () => true);
        moved.add(directory);
      }
    }
    await this.#watchAbove();
    return moved;
  }

  close(): void {
    for (const directory of [...this.#watchers.keys()]) {
      this.#disarm(directory);
    }
  }

  /** What lies above tells when the root is made, also where its parent does not exist yet. */
  async #watchAbove(): Promise<void> {
    let above = dirname(this.#root);
    let identity = await identityOf(above);
    while (identity === absent && above !== dirname(above)) {
      above = dirname(above);
      identity = await identityOf(above);
    }
    for (const directory of [...this.#identities.keys()].filter((known) => !this.#directories.includes(known))) {
      if (directory !== above || this.#identities.get(directory) !== identity) {
        this.#disarm(directory);
      }
    }
    if (!this.#identities.has(above)) {
      const [next] = relative(above, this.#root).split(sep);
      this.#arm(above, identity, (name) => name === next);
    }
  }

  #arm(directory: string, identity: string, isWanted: (name: string) => boolean): void {
    if (identity !== absent) {
      try {
        const watcher = watch(directory, (_type, name) => {
          if (name === null || isWanted(name)) {
            this.#listener(directory, name);
          }
        });
        watcher.on("error", () => this.#disarm(directory));
        this.#watchers.set(directory, watcher);
      } catch (error) {
        this.#problems.set(directory, `Cannot watch "${directory}": ${(error as Error).message}`);
        return;
      }
    }
    this.#identities.set(directory, identity);
  }

  #disarm(directory: string): void {
    this.#watchers.get(directory)?.close();
    this.#watchers.delete(directory);
    this.#identities.delete(directory);
    this.#problems.delete(directory);
  }
}

const absent = "absent";

async function identityOf(directory: string): Promise<string> {
  try {
    // With the time of birth, since a directory that is made anew often gets the number of the removed one.
    const { dev, ino, birthtimeNs } = await stat(directory, { bigint: true });
    return `${dev}:${ino}:${birthtimeNs}`;
  } catch {
    return absent;
  }
}
