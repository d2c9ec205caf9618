/**
 * The kubernetes kind of datastore: Kubernetes' own nodes, and IPPools, IPBlocks and ClusterSettings beside them.
 *
 * While the API server is away, what was read before stays in force, and a condition says since when.
 */
import type { Condition, Document, Documents } from "../cluster.ts";
import type { Datastore, DatastoreHandler } from "../datastore.ts";
import { Delivery } from "../delivery.ts";
import { type DocumentKinds, type Kind, parseDocument, settingsName } from "../documents.ts";
import { KubernetesApi } from "./api.ts";
import type { BackoffLimits } from "./backoff.ts";
import { KubernetesBlockClaims } from "./block-claims.ts";
import { Collection } from "./collection.ts";
import type { LoadCredentials } from "./credentials.ts";
import { nodeFields } from "./node-object.ts";
import { type ApiObject, paths } from "./resources.ts";

export interface KubernetesDatastoreOptions {
  readonly credentials: LoadCredentials;
  /** A file of our own that keeps what is in force over a restart. */
  readonly lastClusterPath: string;
  /** Between two attempts to reach the API server. */
  readonly backoff?: BackoffLimits;
}

/** Milliseconds in which events are gathered: one change often touches objects of several kinds. */
const gatherMs = 20;

/** An object that is no document says why: it is as if it were not there. */
type Reading<T> = Document<T> | { readonly source: string; readonly absence: string };

export class KubernetesDatastore implements Datastore {
  readonly claims: KubernetesBlockClaims;
  readonly #delivery: Delivery;
  readonly #nodes: Collection<Reading<DocumentKinds["node"]>>;
  readonly #pools: Collection<Reading<DocumentKinds["pool"]>>;
  readonly #blocks: Collection<Reading<DocumentKinds["block"]>>;
  readonly #settings: Collection<Reading<DocumentKinds["settings"]>>;
  #gathering: NodeJS.Timeout | undefined;
  #hasStarted = false;

  constructor({
    credentials,
    lastClusterPath,
    backoff = { firstMs: 1000, longestMs: 30_000 },
  }: KubernetesDatastoreOptions) {
    const api = new KubernetesApi(credentials);
    const onChange = () => this.#deliverSoon();
    const collection = <K extends Kind>(kind: K) =>
      new Collection({ api, path: paths[kind], read: (object) => readingOf(kind, object), onChange, backoff });
    this.claims = new KubernetesBlockClaims(api);
    this.#delivery = new Delivery(lastClusterPath);
    this.#nodes = collection("node");
    this.#pools = collection("pool");
    this.#blocks = collection("block");
    this.#settings = collection("settings");
  }

  async start(handler: DatastoreHandler): Promise<void> {
    await this.#delivery.open(handler);
    await Promise.all(this.#collections.map((collection) => collection.start()));
    this.#hasStarted = true;
    this.#deliver();
  }

  async stop(): Promise<void> {
    this.#delivery.silence();
    await Promise.all(this.#collections.map((collection) => collection.stop()));
    clearTimeout(this.#gathering);
    await this.#delivery.close();
  }

  get #collections() {
    return [this.#nodes, this.#pools, this.#blocks, this.#settings];
  }

  #deliverSoon(): void {
    // Not put off by further events: under steady writing no change would be seen otherwise.
    if (this.#hasStarted) {
      this.#gathering ??= setTimeout(() => this.#deliver(), gatherMs);
    }
  }

  #deliver(): void {
    this.#gathering = undefined;
    // A first snapshot without a part of the cluster would remove what is right.
    const isComplete = this.#collections.every(({ isListed }) => isListed);
    this.#delivery.deliver(isComplete ? this.#documents() : undefined, this.#conditions());
  }

  #documents(): Documents {
    const settings = documentsIn(this.#settings).get(settingsName);
    return {
      nodes: documentsIn(this.#nodes),
      pools: documentsIn(this.#pools),
      blocks: documentsIn(this.#blocks),
      ...(settings && { settings }),
    };
  }

  #conditions(): Condition[] {
    const named = { nodes: this.#nodes, pools: this.#pools, blocks: this.#blocks, settings: this.#settings };
    const problems = Object.entries(named).flatMap(([name, { problems }]) =>
      problems.map((message) => ({ object: `datastore/${name}`, message })),
    );
    const absences = [...this.#nodes.objects].flatMap(([name, reading]) =>
      "absence" in reading
        ? [{ object: `node/${name}`, message: `Cannot use "${reading.source}": ${reading.absence}; it is set aside` }]
        : [],
    );
    return [...problems, ...absences];
  }
}

function documentsIn<T>({ objects }: Collection<Reading<T>>): Map<string, Document<T>> {
  return new Map([...objects].flatMap(([name, reading]) => ("absence" in reading ? [] : [[name, reading]])));
}

function readingOf<K extends Kind>(kind: K, object: ApiObject): Reading<DocumentKinds[K]> {
  const { name } = object.metadata;
  const source = `${paths[kind].split("/").at(-1)}/${name}`;
  try {
    const fields = fieldsOf[kind](object);
    return fields === undefined
      ? { source, absence: "the node has no IPv4 address of the type InternalIP" }
      : { source, value: parseDocument(kind, name, fields) };
  } catch (error) {
    return { source, problem: (error as Error).message };
  }
}

/** What the documents of each kind say, not yet checked. */
const fieldsOf: Record<Kind, (object: ApiObject) => unknown> = {
  node: nodeFields,
  pool: ({ metadata: { name }, spec }) => ({ ...(spec as object), name }),
  block: ({ spec }) => spec,
  settings: ({ spec }) => ({ ...(spec as object), kind: "ClusterSettings" }),
};
