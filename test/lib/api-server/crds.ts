/** The custom resources of the product, as their files in deploy/crds declare them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { loadYaml, type V1CustomResourceDefinition } from "@kubernetes/client-node";
import type { Schema } from "./schema.ts";

const directory = new URL("../../../deploy/crds", import.meta.url).pathname;

/** By file name. */
export const crdTexts: ReadonlyMap<string, string> = new Map(
  readdirSync(directory).map((file) => [file, readFileSync(join(directory, file), "utf8")]),
);

/** The declarations by kind. */
export const crds: ReadonlyMap<string, V1CustomResourceDefinition["spec"]> = new Map(
  [...crdTexts.values()].map((text) => {
    const { spec } = loadYaml<V1CustomResourceDefinition>(text);
    return [spec.names.kind, spec];
  }),
);

/** @throws when there is no such kind */
export function schemaOf(kind: string): Schema {
  const schema = crds.get(kind)?.versions[0]?.schema?.openAPIV3Schema;
  if (!schema) {
    throw new Error(`Cannot find custom resource "${kind}", there are ${[...crds.keys()].join(", ")}`);
  }
  return asDeclared(schema) as Schema;
}

/** The library gives fields names that JavaScript can write: `_default`, `x_kubernetes_validations`. */
function asDeclared(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(asDeclared);
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  const fields = Object.entries(value).map(([name, field]) => [declaredName(name), asDeclared(field)]);
  return Object.fromEntries(fields);
}

function declaredName(name: string): string {
  return name.startsWith("x_kubernetes_") ? name.replaceAll("_", "-") : name.replace(/^_/, "");
}
