/** What the datastore has told so far. */
import type { Update } from "../datastore/cluster.ts";
import type { Block, ClusterSettings, Node, Pool } from "../datastore/documents.ts";
import { allHostNets, type HostNets } from "../ipset/members.ts";

export class ClusterView {
  readonly nodes = new Map<string, Node>();
  /** A pool that was removed is among them, disabled, as long as it has blocks. */
  readonly pools = new Map<string, Pool>();
  readonly blocks = new Map<string, Block>();
  #settings: ClusterSettings = { kind: "ClusterSettings", externalNodeCidrs: [] };

  onUpdate(update: Update): void {
    switch (update.kind) {
      case "node":
        setOrDelete(this.nodes, update.name, update.value);
        break;
      case "block":
        setOrDelete(this.blocks, update.name, update.value);
        break;
      case "pool":
        setOrDelete(this.pools, update.name, update.value);
        break;
      case "settings":
        this.#settings = update.value;
        break;
    }
  }

  /** Everybody who may send this node tunnel packets. */
  hostNets(ownNode: string): HostNets {
    const nodes = [...this.nodes.values()].map(({ name, address, otherAddresses = [] }) => ({
      name,
      address,
      otherAddresses,
    }));
    return allHostNets({ nodes, ownNode, externalNodeCidrs: this.#settings.externalNodeCidrs });
  }
}

function setOrDelete<T>(objects: Map<string, T>, name: string, value: T | undefined): void {
  if (value === undefined) {
    objects.delete(name);
  } else {
    objects.set(name, value);
  }
}
