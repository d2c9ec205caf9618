/** One watch of an API server double: a response that goes on, one event a line. */
import type { ServerResponse } from "node:http";
import { apiVersionOf, type Resource } from "./resources.ts";
import { expired, type Status } from "./status.ts";
import type { ObjectStore, StoreEvent } from "./store.ts";
import { typed } from "./verbs.ts";

export class Watcher {
  readonly #store: ObjectStore;
  readonly #resource: Resource;
  readonly #response: ServerResponse;
  readonly #allowsBookmarks: boolean;
  readonly #unsubscribe: () => void;
  readonly #timeout: NodeJS.Timeout | undefined;
  #isPaused = false;
  #held: StoreEvent[] = [];

  /**
   * Without a resourceVersion, or with 0, it begins with what there is; with another one it goes on after that, and says
   * that it cannot where the events since then are forgotten.
   */
  constructor(store: ObjectStore, resource: Resource, query: URLSearchParams, response: ServerResponse) {
    this.#store = store;
    this.#resource = resource;
    this.#response = response;
    this.#allowsBookmarks = query.get("allowWatchBookmarks") === "true";
    this.#unsubscribe = store.subscribe((event) => this.#onEvent(event));
    const timeoutSeconds = Number(query.get("timeoutSeconds") ?? 0);
    this.#timeout = timeoutSeconds > 0 ? setTimeout(() => this.expire(), timeoutSeconds * 1000) : undefined;
    response.on("close", () => this.#end());
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    this.#replay(query.get("resourceVersion") ?? "");
  }

  /** Tells how far the watch has come, where the client wants to know. */
  bookmark(): void {
    if (this.#allowsBookmarks && !this.#isPaused) {
      const { resource, version } = { resource: this.#resource, version: String(this.#store.version) };
      const metadata = { resourceVersion: version, creationTimestamp: null };
      this.#send("BOOKMARK", { kind: resource.kind, apiVersion: apiVersionOf(resource), metadata });
    }
  }

  /** Breaks the connection, as a load balancer does. */
  drop(): void {
    this.#response.destroy();
  }

  /** Leaves the connection open and tells nothing of what happens, as a network that is cut does; held back, not lost. */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    for (const event of this.#held.splice(0)) {
      this.#onEvent(event);
    }
  }

  /** The server ends watches after their time, with a last bookmark. */
  expire(): void {
    this.bookmark();
    this.#response.end();
  }

  #replay(resourceVersion: string): void {
    const { plural } = this.#resource;
    if (resourceVersion === "" || resourceVersion === "0") {
      for (const object of this.#store.list(plural)) {
        this.#send("ADDED", typed(this.#resource, object));
      }
      return;
    }
    const version = Number(resourceVersion);
    if (version < this.#store.compacted) {
      const message = `too old resource version: ${version} (${this.#store.compacted})`;
      this.#send("ERROR", expired(message).status);
      this.#response.end();
      return;
    }
    for (const event of this.#store.eventsAfter(plural, version)) {
      this.#onEvent(event);
    }
  }

  #onEvent(event: StoreEvent): void {
    if (event.plural !== this.#resource.plural) {
      return;
    }
    if (this.#isPaused) {
      this.#held.push(event);
    } else {
      this.#send(event.type, typed(this.#resource, event.object));
    }
  }

  #send(type: string, object: object | Status): void {
    this.#response.write(`${JSON.stringify({ type, object })}\n`);
  }

  #end(): void {
    clearTimeout(this.#timeout);
    this.#unsubscribe();
  }
}
