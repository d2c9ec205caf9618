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
    logLevel: "info",
  });
});

test.each([
  ["no JSON", "{", "Cannot use the configuration"],
  ["nothing", "", "Cannot use the configuration"],
  ["a list", "[]", "expected object"],
  ["no datastore", JSON.stringify({ nodeName: "node1" }), 'field "datastore"'],
  ["an unknown kind", { ...minimal, datastore: { kind: "etcd", path: "/x" } }, 'field "datastore.kind"'],
  ["a relative path", { ...minimal, runDir: "run" }, 'field "runDir": must be an absolute path, it is "run"'],
  ["an unknown field", { ...minimal, guards: {} }, '"guards"'],
  ["an unknown way to attach", { ...minimal, guard: { attach: "bpf" } }, 'field "guard.attach"'],
  ["a wrong type", { ...minimal, nodeName: 7 }, 'field "nodeName"'],
])("readConfig() refuses %s in a sentence that names file and field", async (_, content, problem) => {
  await writeFile(path, typeof content === "string" ? content : JSON.stringify(content));
  const reading = readConfig(path);
  await expect(reading).rejects.toThrow(problem);
  await expect(reading).rejects.toThrow(path);
});

test("readConfig() names a file that is not there", async () => {
  await expect(readConfig(path)).rejects.toThrow(`Cannot read the configuration "${path}": ENOENT`);
});
