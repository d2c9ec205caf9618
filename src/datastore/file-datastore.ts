/**
 * The file kind of datastore: a directory with `cluster.json`, `nodes/*.json`, `pools/*.json` and `blocks/*.json`.
 *
 * Changes are seen by inotify; a look at all files in every poll interval catches what inotify does not tell, as on a
 * network file system. A directory without `cluster.json` is not believed to be a datastore: nothing is read from it,
 * and what was read before stays in force.
 */
import { join, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Condition, Document } from "./cluster.ts";
import type { Datastore, DatastoreHandler } from "./datastore.ts";
import { Delivery } from "./delivery.ts";
import { DocumentDirectory } from "./document-directory.ts";
import { readDocumentFile } from "./document-file.ts";
import { type ClusterSettings, settingsName } from "./documents.ts";
import { FileBlockClaims } from "./file-block-claims.ts";
import { Watch } from "./watch.ts";

export interface FileDatastoreOptions {
  readonly path: string;
  /** A file of our own that keeps what is in force over a restart. */
  readonly lastClusterPath: string;
  /** Milliseconds between two looks at all files. */
  readonly pollIntervalMs?: number;
  /** Milliseconds until a file that a listing lacks is looked for again. */
  readonly confirmationMs?: number;
}

/** Milliseconds in which events are gathered: one change often touches several files. */
const gatherMs = 20;

export class FileDatastore implements Datastore {
  readonly claims: FileBlockClaims;
  readonly #path: string;
  readonly #marker: string;
  readonly #pollIntervalMs: number;
  readonly #confirmationMs: number;
  readonly #nodes: DocumentDirectory<"node">;
  readonly #pools: DocumentDirectory<"pool">;
  readonly #blocks: DocumentDirectory<"block">;
  readonly #watch: Watch;

  readonly #delivery: Delivery;
  /** The newest content of the marker; undefined while it is not there. */
  #settings: Document<ClusterSettings> | undefined;

  /** By directory: the names of files that events told of since the last scan. */
  #touched = new Map<string, Set<string>>();
  #needsListing = true;
  #scans: Promise<void> = Promise.resolve();
  #gathering: NodeJS.Timeout | undefined;
  #confirming: NodeJS.Timeout | undefined;
  #polling: NodeJS.Timeout | undefined;

  constructor({ path, lastClusterPath, pollIntervalMs = 60_000, confirmationMs = 1000 }: FileDatastoreOptions) {
    this.#path = resolve(path);
    this.claims = new FileBlockClaims(this.#path);
    this.#delivery = new Delivery(lastClusterPath);
    this.#marker = join(this.#path, "cluster.json");
    this.#pollIntervalMs = pollIntervalMs;
    this.#confirmationMs = confirmationMs;
    this.#nodes = new DocumentDirectory(join(this.#path, "nodes"), "node", confirmationMs);
    this.#pools = new DocumentDirectory(join(this.#path, "pools"), "pool", confirmationMs);
    this.#blocks = new DocumentDirectory(join(this.#path, "blocks"), "block", confirmationMs);
    const paths = this.#directories.map((directory) => directory.path);
    this.#watch = new Watch(this.#path, paths, (directory, name) => this.#onEvent(directory, name));
  }

  async start(handler: DatastoreHandler): Promise<void> {
    await this.#delivery.open(handler);
    this.#polling = setInterval(() => this.#listSoon(), this.#pollIntervalMs).unref();
    this.#scans = this.#scan();
    await this.#scans;
  }

  async stop(): Promise<void> {
    this.#delivery.silence();
    await this.#scans;
    clearInterval(this.#polling);
    clearTimeout(this.#confirming);
    clearTimeout(this.#gathering);
    this.#watch.close();
    await this.#delivery.close();
  }

  get #directories() {
    return [this.#nodes, this.#pools, this.#blocks];
  }

  #onEvent(directory: string, name: string | null): void {
    if (name === null) {
      this.#needsListing = true;
    } else {
      this.#touched.set(directory, (this.#touched.get(directory) ?? new Set()).add(name));
    }
    this.#scanSoon();
  }

  #listSoon(): void {
    this.#needsListing = true;
    this.#scanSoon();
  }

  #scanSoon(): void {
    // Not put off by further events: under steady writing no change would be seen otherwise.
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      this.#scans = this.#scans.then(() => this.#scan());
    }, gatherMs);
  }

  async #scan(): Promise<void> {
    if (!this.#delivery.isOpen) {
      return;
    }
    const touched = this.#touched;
    this.#touched = new Map();
    const moved = await this.#watch.rearm();
    const before = this.#settings;
    this.#settings = readDocumentFile(this.#marker, "settings", settingsName)?.document;
    if (!this.#settings) {
      this.#needsListing = true;
      return this.#deliver(false);
    }
    const needsListing = this.#needsListing;
    this.#needsListing = false;
    let isChanged = !isDeepStrictEqual(before, this.#settings);
    for (const directory of this.#directories) {
      if (needsListing || moved.has(directory.path)) {
        isChanged = (await directory.list()) || isChanged;
      } else {
        for (const name of touched.get(directory.path) ?? []) {
          isChanged = directory.refresh(name) || isChanged;
        }
      }
    }
    if (this.#directories.some(({ isUncertain }) => isUncertain)) {
      clearTimeout(this.#confirming);
      this.#confirming = setTimeout(() => this.#listSoon(), this.#confirmationMs).unref();
    }
    this.#deliver(isChanged);
  }

  #deliver(isChanged: boolean): void {
    const settings = this.#settings;
    const isNews = settings && (this.#delivery.isInSync ? isChanged : this.#isComplete(settings));
    this.#delivery.deliver(isNews ? this.#documents(settings) : undefined, this.#conditions());
  }

  /** A first snapshot without a part of the cluster would remove what is right. */
  #isComplete(settings: Document<ClusterSettings>): boolean {
    return "value" in settings && this.#directories.every(({ isListed }) => isListed);
  }

  #documents(settings: Document<ClusterSettings>) {
    return {
      nodes: this.#nodes.documents,
      pools: this.#pools.documents,
      blocks: this.#blocks.documents,
      settings,
    };
  }

  #conditions(): Condition[] {
    const seconds = this.#pollIntervalMs / 1000;
    const blind = this.#watch.problems.map((problem) => `${problem}; changes in it are seen every ${seconds} s only`);
    const problems = [this.#problemOfMarker(), ...blind];
    return [
      ...problems.flatMap((message) => (message === undefined ? [] : [{ object: "datastore", message }])),
      ...this.#directories.flatMap(({ condition }) => condition ?? []),
    ];
  }

  #problemOfMarker(): string | undefined {
    if (!this.#settings) {
      return this.#delivery.isInSync
        ? `Cannot find "${this.#marker}": the datastore is gone, what was read before stays in force until it is back`
        : `Cannot find "${this.#marker}": no datastore is there yet, make the file with the content {"kind": "ClusterSettings"}`;
    }
    return this.#delivery.isInSync || "value" in this.#settings
      ? undefined
      : `Cannot use "${this.#marker}": ${this.#settings.problem}; nothing is read until it is repaired`;
  }
}
