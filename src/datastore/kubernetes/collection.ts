/**
 * The objects of one kind: listed once, then watched.
 *
 * A watch that ends is taken up where it was. Where the server has forgotten since when, all is listed anew, and what
 * was known is compared with it: who follows sees what changed, and nothing go and come back. What a new listing lacks
 * is gone, unless it lacks so much that the listing is not believed.
 */
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { isDoubtful } from "../doubt.ts";
import { ApiError, type KubernetesApi } from "./api.ts";
import { Backoff, type BackoffLimits } from "./backoff.ts";
import { type ApiObject, apiObject, understood } from "./resources.ts";

export interface CollectionOptions<T> {
  readonly api: KubernetesApi;
  /** "/api/v1/nodes" */
  readonly path: string;
  /** What is kept of an object. Must not throw. */
  readonly read: (object: ApiObject) => T;
  /** Called when objects or problem changed. */
  readonly onChange: () => void;
  readonly backoff: BackoffLimits;
}

/** As many as etcd reads without others noticing. */
const objectsAPage = 500;

/** Seconds after which the server is asked to end a watch, at random between these: it spreads them over its replicas. */
const watchSeconds = { least: 300, most: 600 };

/** Milliseconds on top of that in which a server that is alive has ended it. */
const overtimeMs = 30_000;

/** Milliseconds that a watch has to last to be taken up again without a pause. */
const settledMs = 10_000;

const page = z.looseObject({
  metadata: z.looseObject({ resourceVersion: z.string(), continue: z.string().optional() }),
  items: z.array(apiObject),
});

const event = z.looseObject({
  type: z.enum(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]),
  object: z.looseObject({}),
});

/** Of a bookmark nothing else is filled in. */
const bookmark = z.looseObject({ metadata: z.looseObject({ resourceVersion: z.string() }) });

const failure = z.looseObject({
  reason: z.string().default("an error"),
  message: z.string().default("no reason given"),
});

export class Collection<T> {
  readonly #options: CollectionOptions<T>;
  readonly #backoff: Backoff;
  readonly #stopping = new AbortController();
  readonly #objects = new Map<string, T>();
  /** Objects that the last listing lacks and that are kept all the same. */
  #missing = new Set<string>();
  /** From where a watch goes on; undefined when all has to be listed first. */
  #version: string | undefined;
  #isListed = false;
  #failingSince: Date | undefined;
  #problem: string | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(options: CollectionOptions<T>) {
    this.#options = options;
    this.#backoff = new Backoff(options.backoff);
  }

  /** By name. */
  get objects(): ReadonlyMap<string, T> {
    return this.#objects;
  }

  /** Whether all of them were seen at least once. */
  get isListed(): boolean {
    return this.#isListed;
  }

  /** One sentence each. */
  get problems(): string[] {
    return [this.#problem, this.#doubt()].flatMap((problem) => problem ?? []);
  }

  /** Resolves when the first listing has succeeded or failed. */
  start(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#running = this.#run(resolve);
    return promise;
  }

  /** Resolves when nothing changes any more. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(onFirstAttempt: () => void): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        if (this.#version === undefined) {
          await this.#list();
        }
        onFirstAttempt();
        await this.#watch();
      } catch (error) {
        if (!signal.aborted) {
          this.#fail(error as Error);
          onFirstAttempt();
          await this.#backoff.wait(error instanceof ApiError ? error.retryAfterMs : 0, signal);
        }
      }
    }
    onFirstAttempt();
  }

  async #list(): Promise<void> {
    const { api, path, read } = this.#options;
    const listed = new Map<string, T>();
    let [version, next] = ["", ""];
    do {
      const query = { limit: String(objectsAPage), ...(next !== "" && { continue: next }) };
      const { metadata, items } = understood(
        page,
        await api.request("GET", path, { query, signal: this.#stopping.signal }),
      );
      for (const item of items) {
        listed.set(item.metadata.name, read(item));
      }
      [version, next] = [metadata.resourceVersion, metadata.continue ?? ""];
    } while (next !== "");
    const isFirst = !this.#isListed;
    const changes = [...listed].map(([name, value]) => this.#set(name, value));
    this.#missing = new Set([...this.#objects.keys()].filter((name) => !listed.has(name)));
    const isSettled = this.#settleMissing();
    this.#version = version;
    this.#isListed = true;
    if (isFirst || isSettled || changes.includes(true) || this.#missing.size > 0) {
      this.#options.onChange();
    }
  }

  async #watch(): Promise<void> {
    const seconds = Math.round(watchSeconds.least + Math.random() * (watchSeconds.most - watchSeconds.least));
    const start = performance.now();
    const query = {
      watch: "true",
      allowWatchBookmarks: "true",
      resourceVersion: this.#version ?? "",
      timeoutSeconds: String(seconds),
    };
    const limit = AbortSignal.timeout(seconds * 1000 + overtimeMs);
    await this.#options.api.follow(this.#options.path, {
      query,
      signal: AbortSignal.any([this.#stopping.signal, limit]),
      onOpen: () => this.#recover(),
      onLine: (line) => this.#onEvent(line),
    });
    if (performance.now() - start < settledMs) {
      throw new Error(`GET "${this.#options.path}": the server ended the watch at once`);
    }
    this.#backoff.reset();
  }

  #onEvent(line: string): void {
    const { type, object } = understood(event, JSON.parse(line));
    if (type === "ERROR") {
      const { reason, message } = understood(failure, object);
      this.#version = undefined;
      throw new Error(`the watch ended with ${reason}, ${message}`);
    }
    this.#backoff.reset();
    if (type === "BOOKMARK") {
      this.#version = understood(bookmark, object).metadata.resourceVersion;
      return;
    }
    const isChanged = this.#apply(type, understood(apiObject, object));
    if (isChanged) {
      this.#options.onChange();
    }
  }

  /** @returns whether anything changed */
  #apply(type: "ADDED" | "MODIFIED" | "DELETED", object: ApiObject): boolean {
    const { name, resourceVersion } = object.metadata;
    this.#version = resourceVersion;
    const wasMissing = this.#missing.delete(name);
    const isChanged = type === "DELETED" ? this.#objects.delete(name) : this.#set(name, this.#options.read(object));
    return this.#settleMissing() || isChanged || wasMissing;
  }

  #set(name: string, value: T): boolean {
    const isChanged = !isDeepStrictEqual(this.#objects.get(name), value);
    if (isChanged) {
      this.#objects.set(name, value);
    }
    return isChanged;
  }

  /** Believes that the missing are gone where they are few. @returns whether anything changed */
  #settleMissing(): boolean {
    if (this.#missing.size === 0 || isDoubtful(this.#missing.size, this.#objects.size)) {
      return false;
    }
    for (const name of this.#missing) {
      this.#objects.delete(name);
    }
    this.#missing.clear();
    return true;
  }

  #fail(error: Error): void {
    const { path } = this.#options;
    if (error instanceof ApiError && isOfVersion(error)) {
      this.#version = undefined;
    }
    this.#failingSince ??= new Date();
    // A watch that breaks and is there again says nothing to an operator.
    if (this.#isListed && this.#backoff.attempts === 0) {
      return;
    }
    const consequence = this.#isListed ? "what was read before stays in force" : "nothing was read yet";
    const since = this.#failingSince.toISOString();
    this.#changeProblem(`Cannot follow "${path}" since ${since}: ${error.message}; ${consequence}`);
  }

  #recover(): void {
    this.#failingSince = undefined;
    this.#changeProblem(undefined);
  }

  #changeProblem(problem: string | undefined): void {
    if (problem !== this.#problem) {
      this.#problem = problem;
      this.#options.onChange();
    }
  }

  #doubt(): string | undefined {
    const [first] = this.#missing;
    return first === undefined
      ? undefined
      : `Cannot believe "${this.#options.path}": ${this.#missing.size} of ${this.#objects.size} objects are missing, "${first}" among them, and were not seen to be deleted; they stay in force until they are back, or until sync is restarted`;
  }
}

/** Whether the server cannot go on from the version: it is forgotten, or of a future that a restored backup does not know. */
function isOfVersion({ status, reason }: ApiError): boolean {
  return status === 410 || status === 400 || (status === 504 && reason === "Timeout");
}
