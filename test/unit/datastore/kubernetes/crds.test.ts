import { describe, expect, test } from "@jest/globals";
import { dumpYaml, loadYaml } from "@kubernetes/client-node";
import { type Kind, parseDocument } from "../../../../src/datastore/documents.ts";
import { crds, crdTexts, schemaOf } from "../../../lib/api-server/crds.ts";
import { problems, rulesOf, schemasIn, unknownFields, withDefaults } from "../../../lib/api-server/schema.ts";
import { type Row, rows } from "./resources.ts";

/** How a resource of this kind and name reads as a document, without any of the datastore's own code. */
const kinds: Record<string, { kind: Kind; document: (name: string, spec: object) => object }> = {
  IPPool: { kind: "pool", document: (name, spec) => ({ name, ...spec }) },
  IPBlock: { kind: "block", document: (_name, spec) => spec },
  ClusterSettings: { kind: "settings", document: (_name, spec) => ({ kind: "ClusterSettings", ...spec }) },
};

describe("the schemas of deploy/crds and the documents of a datastore", () => {
  const named = rows.map((row) => [`${row.kind} ${row.name} ${JSON.stringify(row.spec)}`, row] as const);

  test.each(named.filter(([, { refused }]) => refused === undefined))(
    "both accept %s, with the same defaults",
    (_, row) => {
      const stored = asStored(row);
      expect(schemaRefusals(row)).toEqual([]);
      expect(documentOf(row.kind, row.name, stored)).toEqual(documentOf(row.kind, row.name, row.spec));
      expect(documentOf(row.kind, row.name, stored)).toEqual(kinds[row.kind]?.document(row.name ?? "", stored));
    },
  );

  test.each(named.filter(([, { refused }]) => refused === "schema"))("both refuse %s", (_, row) => {
    expect(schemaRefusals(row)).not.toEqual([]);
    expect(() => documentOf(row.kind, row.name, row.spec)).toThrow(SyntaxError);
  });

  // The API server evaluates CEL. Here it is seen that the schema alone would let the resource pass, that a document
  // may not say this, and that there is a rule for it.
  test.each(named.filter(([, { refused }]) => refused?.startsWith("rule: ")))("a rule has to refuse %s", (_, row) => {
    expect(schemaRefusals(row)).toEqual([]);
    expect(rulesOf(schemaOf(row.kind)).map(({ message }) => `rule: ${message}`)).toContain(row.refused);
    expect(() => documentOf(row.kind, row.name, row.spec)).toThrow(SyntaxError);
  });
});

describe("deploy/crds", () => {
  test("declares cluster-scoped resources with status, printer columns and short names", () => {
    expect([...crds.keys()].sort()).toEqual(["ClusterSettings", "IPBlock", "IPPool"]);
    const all = [...crds.values()];
    expect(all.map(({ group, scope }) => [group, scope])).toEqual(all.map(() => ["cni-ipip.io", "Cluster"]));
    expect(all.flatMap(({ names }) => names.shortNames ?? []).sort()).toEqual(["cset", "ipb", "ipp"]);
    for (const { versions } of all) {
      expect(versions).toMatchObject([{ name: "v1", served: true, storage: true, subresources: { status: {} } }]);
      expect(versions[0]?.additionalPrinterColumns?.at(-1)).toMatchObject({ name: "Age" });
    }
  });

  test("shows columns that the schemas have", () => {
    for (const [kind, { versions }] of crds) {
      const fields = Object.keys(schemaOf(kind).properties?.spec?.properties ?? {}).map((field) => `.spec.${field}`);
      const shown = (versions[0]?.additionalPrinterColumns ?? []).map(({ jsonPath }) => jsonPath);
      expect([...fields, ".metadata.creationTimestamp"]).toEqual(expect.arrayContaining(shown));
    }
  });

  // The library reads a declaration as the API server does: what Kubernetes has no field for is dropped.
  test.each([...crdTexts])("%s has no field that Kubernetes does not know", (_, text) => {
    const keysIn = (yaml: string) =>
      (yaml.match(/^[ -]*[\w-]+:(?= |$)/gm) ?? []).map((key) => key.replaceAll(/[ :-]+(?=\w)|:/g, ""));
    expect(keysIn(dumpYaml(loadYaml(text))).sort()).toEqual(keysIn(text).sort());
  });

  test("says nothing in a schema that the checks above would not see", () => {
    const used = [...crds.keys()].flatMap((kind) =>
      schemasIn(schemaOf(kind)).flatMap(({ schema }) => Object.keys(schema)),
    );
    expect([...new Set(used)].sort()).toEqual(keywords);
  });

  test("has no rule without a case above, but that CIDRs and block sizes stay as they are", () => {
    const rules = [...crds.keys()].flatMap((kind) =>
      rulesOf(schemaOf(kind)).map(({ path, rule, message }) => ({ at: `${kind}${path}`, rule, message })),
    );
    const covered = new Set(rows.map(({ refused }) => refused));
    const transitions = rules.filter(({ rule }) => rule === "self == oldSelf").map(({ at }) => at);
    expect(transitions).toEqual(["IPBlock.spec.cidr", "IPPool.spec.cidr", "IPPool.spec.blockSize"]);
    const others = rules.filter(({ rule }) => rule !== "self == oldSelf");
    expect(others.filter(({ message }) => !covered.has(`rule: ${message}`))).toEqual([]);
  });

  test("has status conditions as other resources of Kubernetes have them", () => {
    for (const kind of crds.keys()) {
      const status = schemaOf(kind).properties?.status;
      expect(status && problems(status, { conditions: [condition] })).toEqual([]);
      expect(status && problems(status, { conditions: [{ ...condition, status: "Yes" }] })).not.toEqual([]);
      expect(status && problems(status, { conditions: [{ type: "Ready" }] })).not.toEqual([]);
    }
  });
});

const keywords = [
  ...[
    "additionalProperties",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
  ],
  ...["maximum", "minItems", "minLength", "minimum", "pattern", "properties", "required", "type"],
  ...["x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-validations"],
];

const condition = {
  type: "Ready",
  status: "True",
  lastTransitionTime: "2026-01-01T00:00:00Z",
  reason: "Accepted",
  message: "",
};

/** As JSON carries it: without what is undefined. */
function asSent({ spec }: Row): object {
  return JSON.parse(JSON.stringify(spec));
}

function asStored(row: Row): object {
  const stored = withDefaults(schemaOf(row.kind), { metadata: { name: row.name }, spec: asSent(row) });
  return (stored as { spec: object }).spec;
}

function schemaRefusals(row: Row): string[] {
  const schema = schemaOf(row.kind).properties?.spec;
  return schema ? [...unknownFields(schema, asSent(row)), ...problems(schema, asStored(row))] : ["no spec"];
}

function documentOf(kind: string, name = "", spec: object): unknown {
  const known = kinds[kind];
  return known && parseDocument(known.kind, name, known.document(name, spec));
}
