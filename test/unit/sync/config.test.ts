import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { readConfig } from "../../../src/sync/config.ts";

let directory: string;
let path: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sync-config-"));
  path = join(directory, "sync.json");
});

afterEach(() => rm(directory, { recursive: true }));

const minimal = { nodeName: "node1", datastore: { kind: "file", path: "/etc/cni-ipip/cluster" } };

test("readConfig() fills in what was left out", async () => {
  await writeFile(path, JSON.stringify(minimal));
  expect(await readConfig(path)).toEqual({
    ...minimal,
    runDir: "/run/cni-ipip",
    stateDir: "/var/lib/cni-ipip",
    guard: { attach: "tc" },
    ipam: { maxBlocksPerNode: 20, releaseAfterSeconds: 3600, deletedNodeGraceSeconds: 300 },
    logLevel: "info",
  });
});

test.each([
  ["no JSON", "{", "it is not JSON, "],
  ["nothing", "", "it is empty"],
  ["a list", "[]", "[] is not an object"],
  ["no kind of datastore", { ...minimal, datastore: { path: "/x" } }, 'field "datastore.kind": it is missing'],
  [
    "a path for Kubernetes",
    { ...minimal, datastore: { kind: "kubernetes", path: "/x" } },
    'field "datastore": unknown field "path", allowed are "kind", "kubeconfig"',
  ],
  ["no datastore", { nodeName: "node1" }, 'field "datastore": it is missing'],
  [
    "an unknown kind",
    { ...minimal, datastore: { kind: "etcd", path: "/x" } },
    'field "datastore.kind": "etcd" is not supported, allowed are "file", "kubernetes"',
  ],
  ["a relative path", { ...minimal, runDir: "run" }, 'field "runDir": "run" is not an absolute path'],
  [
    "an unknown field",
    { ...minimal, guards: {} },
    'unknown field "guards", allowed are "nodeName", "datastore", "runDir", "stateDir", "guard", "ipam", "logLevel"',
  ],
  [
    "an unknown field inside another",
    { ...minimal, datastore: { kind: "file", pth: "/x" } },
    'field "datastore": unknown field "pth", allowed are "kind", "path"',
  ],
  [
    "an unknown field inside one that may be left out",
    { ...minimal, guard: { attached: "tc" } },
    'field "guard": unknown field "attached", allowed are "attach"',
  ],
  [
    "an unknown way to attach",
    { ...minimal, guard: { attach: "bpf" } },
    'field "guard.attach": "bpf" is not supported, allowed are "tc", "xdp-native", "xdp-generic"',
  ],
  ["a node name that no document can have", { ...minimal, nodeName: "" }, 'field "nodeName": "" is not a name'],
  ["no block at all", { ...minimal, ipam: { maxBlocksPerNode: 0 } }, 'field "ipam.maxBlocksPerNode": 0 is too small, '],
  [
    "a time without its unit",
    { ...minimal, ipam: { releaseAfter: 60 } },
    'field "ipam": unknown field "releaseAfter", allowed are "maxBlocksPerNode", "releaseAfterSeconds", "deletedNodeGraceSeconds"',
  ],
  [
    "half a second",
    { ...minimal, ipam: { releaseAfterSeconds: 0.5 } },
    'field "ipam.releaseAfterSeconds": 0.5 is not ',
  ],
  ["a wrong type", { ...minimal, nodeName: 7 }, 'field "nodeName": 7 is not a text'],
])("readConfig() refuses %s in a sentence that names file, field and value", async (_, content, problem) => {
  await writeFile(path, typeof content === "string" ? content : JSON.stringify(content));
  await expect(readConfig(path)).rejects.toThrow(`Cannot use the configuration "${path}": ${problem}`);
});

test("readConfig() names a file that is not there", async () => {
  await expect(readConfig(path)).rejects.toThrow(
    `Cannot use the configuration "${path}": there is no such file, --config names another one`,
  );
});
