/**
 * What was in force when the agent ended, kept in a file: a document that is wrong when the agent starts again has its
 * last accepted version all the same, and a newcomer does not take what somebody else had.
 */
import { readFile } from "node:fs/promises";
import { writeAtomically } from "../atomic-file.ts";
import { assess } from "./assess.ts";
import { type Cluster, type Document, emptyCluster } from "./cluster.ts";
import {
  type Block,
  blockName,
  type ClusterSettings,
  type DocumentKinds,
  type Kind,
  type Node,
  type Pool,
  parseDocument,
  settingsName,
} from "./documents.ts";

/** Of a file that may have been damaged: each object is checked as a document is. */
interface Content {
  readonly nodes: readonly Node[];
  readonly pools: readonly Pool[];
  readonly blocks: readonly Block[];
  readonly settings: ClusterSettings;
}

/** @returns the empty cluster when there is no such file, or nothing that can be understood in it */
export async function readLastCluster(path: string): Promise<Cluster> {
  try {
    const { nodes, pools, blocks, settings }: Content = JSON.parse(await readFile(path, "utf8"));
    const documentOf = <K extends Kind>(kind: K, name: string, data: unknown): Document<DocumentKinds[K]> => ({
      source: path,
      value: parseDocument(kind, name, data),
    });
    return assess({
      nodes: byName(
        nodes,
        ({ name }) => name,
        (name, data) => documentOf("node", name, data),
      ),
      pools: byName(
        pools,
        ({ name }) => name,
        (name, data) => documentOf("pool", name, data),
      ),
      blocks: byName(
        blocks,
        ({ cidr }) => blockName(cidr),
        (name, data) => documentOf("block", name, data),
      ),
      settings: documentOf("settings", settingsName, settings),
    });
  } catch {
    return emptyCluster;
  }
}

export async function writeLastCluster(path: string, cluster: Cluster): Promise<void> {
  const { nodes, pools, blocks, settings } = cluster;
  const content: Content = {
    nodes: [...nodes.values()],
    pools: [...pools.values()],
    blocks: [...blocks.values()],
    settings,
  };
  await writeAtomically(path, JSON.stringify(content));
}

function byName<T, Named>(
  objects: readonly Named[],
  nameOf: (object: Named) => string,
  documentOf: (name: string, data: Named) => Document<T>,
): Map<string, Document<T>> {
  return new Map(objects.map((object) => [nameOf(object), documentOf(nameOf(object), object)]));
}
