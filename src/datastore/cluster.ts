/** The cluster as it is in force, and as it was read. */
import { isDeepStrictEqual } from "node:util";
import type { Block, ClusterSettings, Node, Pool } from "./documents.ts";

/** What was read for one object; `source` says where, the path of a file for example. */
export type Document<T> = { readonly source: string } & ({ readonly value: T } | { readonly problem: string });

/** By name, for all objects that exist in the datastore. Without settings the cluster has the default ones. */
export interface Documents {
  readonly nodes: ReadonlyMap<string, Document<Node>>;
  readonly pools: ReadonlyMap<string, Document<Pool>>;
  readonly blocks: ReadonlyMap<string, Document<Block>>;
  readonly settings?: Document<ClusterSettings>;
}

/** Something an operator has to know about and to repair. */
export interface Condition {
  /** "node/node3", "settings/cluster", "datastore" */
  readonly object: string;
  readonly message: string;
}

/** The objects that are in force: no two of them contradict each other. */
export interface Cluster {
  readonly nodes: ReadonlyMap<string, Node>;
  readonly pools: ReadonlyMap<string, Pool>;
  /** Each lies in one of the pools, has its block size, and belongs to one of the nodes. */
  readonly blocks: ReadonlyMap<string, Block>;
  readonly settings: ClusterSettings;
  /** In the order of their objects. */
  readonly conditions: readonly Condition[];
}

export const emptyCluster: Cluster = {
  nodes: new Map(),
  pools: new Map(),
  blocks: new Map(),
  settings: { kind: "ClusterSettings", externalNodeCidrs: [] },
  conditions: [],
};

/** One object that changed; without a value it is gone. */
export type Update =
  | { readonly kind: "node"; readonly name: string; readonly value: Node | undefined }
  | { readonly kind: "pool"; readonly name: string; readonly value: Pool | undefined }
  | { readonly kind: "block"; readonly name: string; readonly value: Block | undefined }
  | { readonly kind: "settings"; readonly value: ClusterSettings };

/** What leads from one cluster to the next; from `undefined` it is everything, settings included. */
export function diff(previous: Cluster | undefined, next: Cluster): Update[] {
  const before = previous ?? emptyCluster;
  const updates: Update[] = [
    ...changes(before.nodes, next.nodes, (name, value): Update => ({ kind: "node", name, value })),
    ...changes(before.pools, next.pools, (name, value): Update => ({ kind: "pool", name, value })),
    ...changes(before.blocks, next.blocks, (name, value): Update => ({ kind: "block", name, value })),
  ];
  if (!previous || !isDeepStrictEqual(previous.settings, next.settings)) {
    updates.push({ kind: "settings", value: next.settings });
  }
  return updates;
}

function changes<T>(
  before: ReadonlyMap<string, T>,
  after: ReadonlyMap<string, T>,
  update: (name: string, value: T | undefined) => Update,
): Update[] {
  const set = [...after].filter(([name, value]) => !isDeepStrictEqual(before.get(name), value));
  const gone = [...before.keys()].filter((name) => !after.has(name));
  return [...set.map(([name, value]) => update(name, value)), ...gone.map((name) => update(name, undefined))];
}
