/** Documents as objects of an API server double, for the contract of datastores. */
import { join } from "node:path";
import { blockName, type Kind } from "../../../src/datastore/documents.ts";
import { KubernetesDatastore } from "../../../src/datastore/kubernetes/kubernetes-datastore.ts";
import { addressAnnotation, otherAddressesAnnotation } from "../../../src/datastore/kubernetes/node-object.ts";
import type { DatastoreWorld } from "../datastore-contract.ts";
import { type SecuredServer, startSecured } from "./secured.ts";
import type { ApiServer } from "./server.ts";

const kinds: Record<Kind, string> = { node: "Node", pool: "IPPool", block: "IPBlock", settings: "ClusterSettings" };

/** As an operator's document has it, right or wrong. */
interface NodeDocument {
  readonly address?: string;
  readonly otherAddresses?: readonly string[];
}

export class ClusterWorld implements DatastoreWorld {
  readonly #secured: SecuredServer;
  #opened = 0;

  private constructor(secured: SecuredServer) {
    this.#secured = secured;
  }

  static async make(): Promise<ClusterWorld> {
    return new ClusterWorld(await startSecured());
  }

  get server(): ApiServer {
    return this.#secured.server;
  }

  /** One that remembers nothing, unless a path is given, and that is quick to try again. */
  open(lastClusterPath?: string): KubernetesDatastore {
    this.#opened += 1;
    return new KubernetesDatastore({
      credentials: this.#secured.credentials,
      lastClusterPath: lastClusterPath ?? this.beside(`last-${this.#opened}.json`),
      backoff: { firstMs: 20, longestMs: 100 },
    });
  }

  /** Somewhere beside the server. */
  beside(name: string): string {
    return join(this.#secured.directory, name);
  }

  async put(kind: Kind, name: string, data: unknown): Promise<void> {
    const { name: _name, kind: _kind, ...spec } = data as Record<string, unknown>;
    this.server.put(kinds[kind], name, kind === "node" ? nodeObject(spec) : { spec });
  }

  async remove(kind: Kind, name: string): Promise<void> {
    this.server.remove(kinds[kind], name);
  }

  close(): Promise<void> {
    return this.#secured.close();
  }

  /** So many nodes, each with a block, in a pool that is made with them. */
  async populate(count: number): Promise<void> {
    await this.put("pool", "main", { cidr: "10.100.0.0/16" });
    for (const index of Array.from({ length: count }, (_, each) => each)) {
      const cidr = `10.100.${index}.0/26`;
      await this.put("node", `node${index}`, { address: `172.31.112.${index + 1}/20` });
      await this.put("block", blockName(cidr), { cidr, node: `node${index}` });
    }
  }
}

function nodeObject({ address, otherAddresses }: NodeDocument) {
  return {
    metadata: {
      annotations: {
        ...(address !== undefined && { [addressAnnotation]: address }),
        ...(otherAddresses !== undefined && { [otherAddressesAnnotation]: otherAddresses.join(",") }),
      },
    },
  };
}
