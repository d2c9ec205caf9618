/** What the conditions of a datastore say about the documents that are not in force. */
import type { Condition } from "../datastore/cluster.ts";
import type { Doubts } from "../ipam/blocks/orphans.ts";

/** @returns undefined while the datastore holds on to what it read before, so that what is missing need not be gone */
export function doubtsOf(conditions: readonly Condition[]): Doubts | undefined {
  const objects = conditions.map(({ object }) => object);
  if (objects.some((object) => object.split("/")[0] === "datastore")) {
    return undefined;
  }
  return {
    blocks: new Set(namesOf("block", objects).map((name) => name.replace(/-(?=\d+$)/, "/"))),
    nodes: new Set(namesOf("node", objects)),
  };
}

function namesOf(kind: string, objects: readonly string[]): string[] {
  return objects.filter((object) => object.startsWith(`${kind}/`)).map((object) => object.slice(kind.length + 1));
}
