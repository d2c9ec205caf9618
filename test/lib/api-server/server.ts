/** A double of Kubernetes' API server, honest about versions, conflicts and watches, and faulty on command. */
import { EventEmitter, once } from "node:events";
import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { type Resource, resources, type Target, targetOf } from "./resources.ts";
import { Refusal } from "./status.ts";
import { type ApiObject, type Metadata, ObjectStore } from "./store.ts";
import { Verbs } from "./verbs.ts";
import { Watcher } from "./watcher.ts";

export interface ApiServerOptions {
  readonly tls?: { readonly key: string; readonly cert: string };
  /** The bearer tokens that are let in; without, everybody is. */
  readonly tokens?: Iterable<string>;
}

export interface SeenRequest {
  readonly verb: "get" | "list" | "watch" | "create" | "update" | "delete";
  readonly plural: string;
  readonly name: string | undefined;
  readonly query: Readonly<Record<string, string>>;
}

/** What befalls requests before anything is done about them. */
export interface Fault {
  /** Of every kind unless given. */
  readonly plural?: string;
  readonly verb?: SeenRequest["verb"];
  /** How many requests are spared before. */
  skip?: number;
  /** How often, for good unless given. */
  times?: number;
  /** A status to refuse with, an answer that never comes, or one that comes late. */
  readonly kind:
    | { readonly status: number; readonly retryAfterSeconds?: number }
    | "hang"
    | { readonly delayMs: number };
}

export class ApiServer {
  readonly store = new ObjectStore();
  /** In the order of their arrival, those that a fault befell included. */
  readonly requests: SeenRequest[] = [];
  faults: Fault[] = [];
  /** Those that are let in. */
  readonly tokens: Set<string>;
  readonly #options: ApiServerOptions;
  readonly #verbs = new Verbs(this.store);
  readonly #watchers = new Set<Watcher>();
  readonly #sockets = new Set<Socket>();
  readonly #arrivals = new EventEmitter();
  #server: Server | undefined;
  #port = 0;

  private constructor(options: ApiServerOptions) {
    this.#options = options;
    this.tokens = new Set(options.tokens);
  }

  static async start(options: ApiServerOptions = {}): Promise<ApiServer> {
    const server = new ApiServer(options);
    await server.comeBack();
    return server;
  }

  /** "https://127.0.0.1:6443" */
  get url(): string {
    return `${this.#options.tls ? "https" : "http"}://127.0.0.1:${this.#port}`;
  }

  /** Writes an object as it stands, also one that the API would refuse: an older version may have let it in. */
  put(kind: string, name: string, content: Omit<ApiObject, "metadata"> & { metadata?: Omit<Metadata, "name"> }): void {
    this.store.write(resourceOf(kind).plural, { ...content, metadata: { ...content.metadata, name } });
  }

  remove(kind: string, name: string): void {
    this.store.remove(resourceOf(kind).plural, name);
  }

  /** Resolves when the next request of this verb arrives, before it is answered. */
  async seen(verb: SeenRequest["verb"]): Promise<void> {
    await once(this.#arrivals, verb);
  }

  get watchCount(): number {
    return this.#watchers.size;
  }

  sendBookmarks(): void {
    this.#watchers.forEach((watcher) => {
      watcher.bookmark();
    });
  }

  /** As when their time is over. */
  endWatches(): void {
    this.#watchers.forEach((watcher) => {
      watcher.expire();
    });
  }

  dropWatches(): void {
    this.#watchers.forEach((watcher) => {
      watcher.drop();
    });
  }

  pauseWatches(): void {
    this.#watchers.forEach((watcher) => {
      watcher.pause();
    });
  }

  resumeWatches(): void {
    this.#watchers.forEach((watcher) => {
      watcher.resume();
    });
  }

  /** Ends all connections and refuses new ones. */
  async goAway(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server) {
      const closed = once(server, "close");
      server.close();
      for (const socket of this.#sockets) {
        socket.destroy();
      }
      await closed;
    }
  }

  /** On the port that it had. */
  async comeBack(): Promise<void> {
    const onRequest = (request: IncomingMessage, response: ServerResponse) => void this.#onRequest(request, response);
    const { tls } = this.#options;
    const server = tls ? createHttpsServer(tls, onRequest) : createHttpServer(onRequest);
    server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
    server.listen(this.#port, "127.0.0.1");
    await once(server, "listening");
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.goAway();
  }

  async #onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await this.#answer(request, response);
    } catch (error) {
      const refusal = error instanceof Refusal ? error : new Refusal(500, String(error));
      const { code = 500 } = refusal.status;
      send(response, code, refusal.status);
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "/", this.url);
    const target = targetOf(pathname);
    if (!this.#isLetIn(request)) {
      throw new Refusal(401, "Unauthorized");
    }
    if (!target) {
      // As the real one does for what it has no resource for: not with a Status.
      response.writeHead(404, { "content-type": "text/plain" }).end("404 page not found\n");
      return;
    }
    const verb = verbOf(request.method ?? "", target, searchParams);
    const { plural } = target.resource;
    this.requests.push({ verb, plural, name: target.name, query: Object.fromEntries(searchParams) });
    this.#arrivals.emit(verb);
    const body = await text(request);
    const fault = this.#takeFault(verb, plural);
    if (fault === "hang") {
      return;
    }
    if (fault && "delayMs" in fault) {
      await delay(fault.delayMs);
    } else if (fault) {
      if (fault.retryAfterSeconds !== undefined) {
        response.setHeader("retry-after", fault.retryAfterSeconds);
      }
      throw new Refusal(fault.status, "refused on command");
    }
    if (verb === "watch") {
      this.#watch(target.resource, searchParams, response);
    } else {
      send(response, verb === "create" ? 201 : 200, this.#resultOf(verb, target, searchParams, body));
    }
  }

  #watch(resource: Resource, query: URLSearchParams, response: ServerResponse): void {
    const watcher = new Watcher(this.store, resource, query, response);
    this.#watchers.add(watcher);
    response.on("close", () => this.#watchers.delete(watcher));
  }

  #resultOf(
    verb: Exclude<SeenRequest["verb"], "watch">,
    { resource, name = "", isStatus }: Target,
    query: URLSearchParams,
    body: string,
  ): object {
    switch (verb) {
      case "list":
        return this.#verbs.list(resource, query);
      case "get":
        return this.#verbs.get(resource, name);
      case "create":
        return this.#verbs.create(resource, parse(body), query);
      case "update":
        return this.#verbs.replace(resource, name, parse(body), query, isStatus);
      case "delete":
        return this.#verbs.delete(resource, name, body === "" ? {} : (parse(body) as object));
    }
  }

  #isLetIn({ headers }: IncomingMessage): boolean {
    return this.#options.tokens === undefined || this.tokens.has((headers.authorization ?? "").replace(/^Bearer /, ""));
  }

  #takeFault(verb: SeenRequest["verb"], plural: string): Fault["kind"] | undefined {
    const fault = this.faults.find(
      (each) => (each.plural ?? plural) === plural && (each.verb ?? verb) === verb && each.times !== 0,
    );
    if (fault?.skip) {
      fault.skip -= 1;
      return undefined;
    }
    if (fault?.times !== undefined) {
      fault.times -= 1;
    }
    return fault?.kind;
  }
}

function resourceOf(kind: string): Resource {
  const resource = resources.find((each) => each.kind === kind);
  if (!resource) {
    throw new RangeError(`Cannot find kind "${kind}", there are ${resources.map((each) => each.kind).join(", ")}`);
  }
  return resource;
}

function verbOf(method: string, { name }: Target, query: URLSearchParams): SeenRequest["verb"] {
  const isWatch = query.get("watch") === "true" || query.get("watch") === "1";
  const ofCollection = { GET: isWatch ? "watch" : "list", POST: "create" } as const;
  const ofObject = { GET: "get", PUT: "update", DELETE: "delete" } as const;
  const verb = name === undefined ? ofCollection[method as "GET"] : ofObject[method as "GET"];
  if (verb === undefined) {
    throw new Refusal(405, "the server does not allow this method on the requested resource");
  }
  return verb;
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (error) {
    throw new Refusal(400, `couldn't get version/kind; json parse error: ${(error as Error).message}`);
  }
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
