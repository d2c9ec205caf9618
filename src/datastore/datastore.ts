/** Where the cluster is described. Kinds differ in where they read, not in what they say. */
import type { BlockClaims } from "./block-claims.ts";
import type { Condition, Update } from "./cluster.ts";

/** Called synchronously, one batch at a time: updates, conditions, `onInSync` the first time, then `onBatchEnd`. */
export interface DatastoreHandler {
  /** Only what is in force: documents that are wrong or contradict others do not come here, but as conditions. */
  onUpdate(update: Update): void;
  /** All conditions there are, whenever they changed. They may come before the datastore is in sync, and tell why not. */
  onConditions(conditions: readonly Condition[]): void;
  /** Once: the updates so far are the whole cluster, so that what they do not name may be removed. */
  onInSync(): void;
  /** The batch is complete: time to act on it. Batches before the first snapshot have conditions only. */
  onBatchEnd(): void;
}

export interface Datastore {
  /** What nodes write; everything else is written by operators. */
  readonly claims: BlockClaims;
  /** Resolves when the first attempt to read was made, also when there is nothing yet: a condition says so then. */
  start(handler: DatastoreHandler): Promise<void>;
  /** Resolves when no callback will come any more. */
  stop(): Promise<void>;
}
