/**
 * Hands what was read from a datastore to its follower: only what is in force, only what changed, batch by batch. What
 * is in force is kept in a file, so that it still is after a restart.
 */
import { isDeepStrictEqual } from "node:util";
import { assess } from "./assess.ts";
import { type Cluster, type Condition, type Documents, diff, emptyCluster } from "./cluster.ts";
import type { DatastoreHandler } from "./datastore.ts";
import { readLastCluster, writeLastCluster } from "./last-cluster.ts";

/** Milliseconds in which changes are gathered before what is in force is written down. */
const keepMs = 1000;

export class Delivery {
  readonly #lastClusterPath: string;
  #handler: DatastoreHandler | undefined;
  #cluster: Cluster | undefined;
  /** What was in force before this start. */
  #lastCluster = emptyCluster;
  /** What the reader of the datastore said last. */
  #readerConditions: readonly Condition[] = [];
  #conditions: readonly Condition[] = [];
  #keeping: NodeJS.Timeout | undefined;
  #problemOfKeeping: string | undefined;

  constructor(lastClusterPath: string) {
    this.#lastClusterPath = lastClusterPath;
  }

  /** Whether a whole cluster was delivered. */
  get isInSync(): boolean {
    return this.#cluster !== undefined;
  }

  /** Whether somebody still listens. */
  get isOpen(): boolean {
    return this.#handler !== undefined;
  }

  async open(handler: DatastoreHandler): Promise<void> {
    this.#handler = handler;
    this.#lastCluster = await readLastCluster(this.#lastClusterPath);
  }

  /** No callback comes after this. */
  silence(): void {
    this.#handler = undefined;
  }

  /** Writes down what is not yet. */
  async close(): Promise<void> {
    this.silence();
    if (this.#keeping) {
      clearTimeout(this.#keeping);
      await this.#keep();
    }
  }

  /**
   * @param documents all that there are; undefined when nothing new was read
   * @param conditions of the reading itself
   */
  deliver(documents: Documents | undefined, conditions: readonly Condition[]): void {
    const handler = this.#handler;
    if (!handler) {
      return;
    }
    const previous = this.#cluster;
    if (documents) {
      this.#cluster = assess(documents, previous ?? this.#lastCluster);
    }
    const updates = this.#cluster && this.#cluster !== previous ? diff(previous, this.#cluster) : [];
    if (updates.length > 0) {
      this.#keeping ??= setTimeout(() => this.#keep(), keepMs);
    }
    this.#readerConditions = conditions;
    const all = [...this.#ownConditions(), ...conditions, ...(this.#cluster?.conditions ?? [])];
    const hasNewConditions = !isDeepStrictEqual(all, this.#conditions);
    this.#conditions = all;
    for (const update of updates) {
      handler.onUpdate(update);
    }
    if (hasNewConditions) {
      handler.onConditions(all);
    }
    if (!previous && this.#cluster) {
      handler.onInSync();
    }
    if (updates.length > 0 || hasNewConditions) {
      handler.onBatchEnd();
    }
  }

  async #keep(): Promise<void> {
    this.#keeping = undefined;
    try {
      await writeLastCluster(this.#lastClusterPath, this.#cluster ?? emptyCluster);
      this.#problemOfKeeping = undefined;
    } catch (error) {
      const remedy = "after a restart a wrong document would have no last accepted version";
      this.#problemOfKeeping = `Cannot write "${this.#lastClusterPath}": ${(error as Error).message}; ${remedy}`;
    }
    this.deliver(undefined, this.#readerConditions);
  }

  #ownConditions(): Condition[] {
    return this.#problemOfKeeping === undefined ? [] : [{ object: "datastore", message: this.#problemOfKeeping }];
  }
}
