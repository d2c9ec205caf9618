/**
 * Turns what was read from a datastore into a cluster that can be acted on.
 *
 * Bad documents never interrupt running pods: what is wrong or contradicts something else is refused by name, the last
 * accepted version of that object stays in force, and everything else keeps working.
 */
import { isDeepStrictEqual } from "node:util";
import { type Granted, grantAddresses } from "./addresses.ts";
import { type Cluster, type Condition, type Document, type Documents, emptyCluster } from "./cluster.ts";
import { poolsOverExternalNodes, strandingPools, usableBlocks, usableSettings } from "./contradictions.ts";
import { type Block, type ClusterSettings, type Kind, type Node, type Pool, settingsName } from "./documents.ts";
import { grantOtherAddresses } from "./other-addresses.ts";
import { sameOr } from "./parsed.ts";
import { rangesOf } from "./pool-ranges.ts";
import { conditionsOfRemoved, poolsWithBlocksLeft } from "./removed-pools.ts";

/** What the documents ask for, each object by itself. */
export interface Wanted {
  readonly nodes: ReadonlyMap<string, Node>;
  readonly pools: ReadonlyMap<string, Pool>;
  readonly blocks: ReadonlyMap<string, Block>;
  /** Those of the blocks whose documents are valid now. */
  readonly validBlocks: readonly Block[];
  readonly settings: ClusterSettings;
}

/** Why a document, or only a `part` of it, is not obeyed. */
export type Refusal = [kind: Kind, name: string, problem: string, part?: string];

export type Refuse = (...refusal: Refusal) => void;

/**
 * The same documents give the same cluster in whatever order they were read. What is in force in `previous` wins over
 * newcomers; documents that do not contradict each other are accepted whatever was in force before.
 */
export function assess(documents: Documents, previous: Cluster = emptyCluster): Cluster {
  for (let before = previous; ; ) {
    const { cluster, isFinal } = assessOnce(documents, before);
    // A document may have been refused for the sake of one that had to give way itself: it gets another try.
    if (isFinal || isDeepStrictEqual(cluster, before)) {
      return cluster;
    }
    before = cluster;
  }
}

function assessOnce(documents: Documents, previous: Cluster): { cluster: Cluster; isFinal: boolean } {
  const refusals: Refusal[] = [];
  const refuse: Refuse = (...refusal) => refusals.push(refusal);
  const wanted: Wanted = {
    nodes: readable("node", documents.nodes, previous.nodes, refuse),
    pools: readable("pool", documents.pools, previous.pools, refuse),
    blocks: readable("block", documents.blocks, previous.blocks, refuse),
    validBlocks: [...documents.blocks.values()].flatMap((document) => ("value" in document ? [document.value] : [])),
    settings: readableSettings(documents.settings, previous.settings, refuse),
  };
  const { nodes, pools } = grantHarmlessly(wanted, previous, refuse);
  const poolRanges = rangesOf(pools);
  const isFinal = refusals.length === 0;
  const accepted = {
    nodes: grantOtherAddresses(nodes, poolRanges, previous, refuse),
    pools,
    blocks: usableBlocks(wanted.blocks, nodes, poolRanges, refuse),
    settings: usableSettings(wanted.settings, poolRanges, refuse),
  };
  const conditions = [...conditionsOf(refusals, documents, accepted), ...conditionsOfRemoved(pools, wanted)];
  return { cluster: { ...accepted, conditions: inOrder(conditions) }, isFinal };
}

/** Grants addresses, but no change and no removal of a pool that would leave blocks without one. */
function grantHarmlessly(wanted: Wanted, previous: Cluster, refuse: Refuse): Granted {
  let refusedPools = poolsOverExternalNodes(wanted, previous);
  let removedPools = new Map<string, Pool>();
  for (;;) {
    const pools = new Map([...wanted.pools, ...removedPools]);
    for (const name of refusedPools.keys()) {
      setOrDelete(pools, name, previous.pools.get(name));
    }
    const granted = grantAddresses({ ...wanted, pools }, previous);
    const stranding = strandingPools(granted.pools, previous, wanted.validBlocks);
    const leftBehind = poolsWithBlocksLeft(granted.pools, wanted, previous);
    if (stranding.size === 0 && leftBehind.size === 0) {
      refusedPools.forEach((problem, name) => {
        refuse("pool", name, problem);
      });
      granted.refusals.forEach((refusal) => {
        refuse(...refusal);
      });
      return granted;
    }
    refusedPools = new Map([...refusedPools, ...stranding]);
    removedPools = new Map([...removedPools, ...leftBehind]);
  }
}

/** The valid documents; for an invalid one what was in force before, so that a half-written file changes nothing. */
function readable<T>(
  kind: Kind,
  documents: ReadonlyMap<string, Document<T>>,
  previous: ReadonlyMap<string, T>,
  refuse: Refuse,
): Map<string, T> {
  const values = new Map<string, T>();
  for (const [name, document] of documents) {
    const before = previous.get(name);
    if ("problem" in document) {
      refuse(kind, name, document.problem);
    }
    const value = "problem" in document ? before : sameOr(before, document.value);
    setOrDelete(values, name, value);
  }
  return values;
}

function readableSettings(
  document: Document<ClusterSettings> | undefined,
  previous: ClusterSettings,
  refuse: Refuse,
): ClusterSettings {
  const documents = new Map(document && [[settingsName, document]]);
  const values = readable("settings", documents, new Map([[settingsName, previous]]), refuse);
  return values.get(settingsName) ?? emptyCluster.settings;
}

function conditionsOf(
  refusals: readonly Refusal[],
  documents: Documents,
  accepted: Omit<Cluster, "conditions">,
): Condition[] {
  const read = { node: documents.nodes, pool: documents.pools, block: documents.blocks };
  const inForce = { node: accepted.nodes, pool: accepted.pools, block: accepted.blocks };
  return refusals.map(([kind, name, problem, part]): Condition => {
    const document = kind === "settings" ? documents.settings : read[kind].get(name);
    const stays = part === undefined && (kind === "settings" || inForce[kind].has(name));
    const outcome = stays ? "its last accepted version stays in force" : `${part ?? "it"} is set aside`;
    return { object: `${kind}/${name}`, message: `Cannot use "${document?.source}": ${problem}; ${outcome}` };
  });
}

/** By object, each once. */
function inOrder(conditions: readonly Condition[]): Condition[] {
  const byText = new Map(conditions.map((condition) => [`${condition.object} ${condition.message}`, condition]));
  return [...byText].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, condition]) => condition);
}

function setOrDelete<T>(values: Map<string, T>, name: string, value: T | undefined): void {
  if (value === undefined) {
    values.delete(name);
  } else {
    values.set(name, value);
  }
}
