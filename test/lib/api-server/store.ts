/** The objects of an API server double, with the history that its watches replay. */
import { randomUUID } from "node:crypto";

export interface Metadata {
  readonly name: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface ApiObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: Metadata;
  readonly spec?: unknown;
  readonly status?: unknown;
}

export interface StoreEvent {
  readonly version: number;
  /** "nodes", "ippools" */
  readonly plural: string;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  /** With the version of the event; a deleted one in its last state. */
  readonly object: ApiObject;
}

/** One counter numbers the changes of all objects, as in etcd. */
export class ObjectStore {
  readonly #objects = new Map<string, Map<string, ApiObject>>();
  #history: StoreEvent[] = [];
  /** Far from 0 and 1, which mean something else to a watch. */
  #version = 1000;
  #compacted = 1000;
  readonly #listeners = new Set<(event: StoreEvent) => void>();

  get version(): number {
    return this.#version;
  }

  /** The newest version whose events are forgotten. */
  get compacted(): number {
    return this.#compacted;
  }

  /** In the order of their names. */
  list(plural: string): ApiObject[] {
    const objects = this.#objects.get(plural) ?? new Map<string, ApiObject>();
    return [...objects.keys()].sort().map((name) => objects.get(name) as ApiObject);
  }

  read(plural: string, name: string): ApiObject | undefined {
    return this.#objects.get(plural)?.get(name);
  }

  /** Under the name in its metadata, whether there is one already or not; uid and time of creation outlive a change. */
  write(plural: string, object: ApiObject): ApiObject {
    const { name } = object.metadata;
    const before = this.read(plural, name);
    const isSameSpec = before !== undefined && JSON.stringify(before.spec) === JSON.stringify(object.spec);
    this.#version += 1;
    const written: ApiObject = {
      ...object,
      metadata: {
        ...object.metadata,
        uid: before?.metadata.uid ?? randomUUID(),
        creationTimestamp: before?.metadata.creationTimestamp ?? new Date().toISOString().replace(/\.\d+/, ""),
        generation: (before?.metadata.generation ?? 0) + (isSameSpec ? 0 : 1),
        resourceVersion: String(this.#version),
      },
    };
    this.#objects.set(plural, (this.#objects.get(plural) ?? new Map()).set(name, written));
    this.#record(plural, before ? "MODIFIED" : "ADDED", written);
    return written;
  }

  /** @returns whether there was such an object */
  remove(plural: string, name: string): boolean {
    const before = this.read(plural, name);
    if (!before) {
      return false;
    }
    this.#version += 1;
    this.#objects.get(plural)?.delete(name);
    const metadata = { ...before.metadata, resourceVersion: String(this.#version) };
    this.#record(plural, "DELETED", { ...before, metadata });
    return true;
  }

  /** What changed after this version, which must not be compacted. */
  eventsAfter(plural: string, version: number): StoreEvent[] {
    return this.#history.filter((event) => event.plural === plural && event.version > version);
  }

  /** Forgets all events, as etcd does with those of more than five minutes ago. */
  compact(): void {
    this.#compacted = this.#version;
    this.#history = [];
  }

  /** @returns what ends the subscription */
  subscribe(listener: (event: StoreEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #record(plural: string, type: StoreEvent["type"], object: ApiObject): void {
    const event: StoreEvent = { version: this.#version, plural, type, object };
    this.#history.push(event);
    for (const listener of this.#listeners) {
      listener(event);
    }
  }
}
