/** How `cni-ipip sync` starts, refuses to start, and ends: the built program in a namespace of its own. */
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { assetPath } from "../../../src/assets.ts";
import { type Process, run } from "../../../src/exec.ts";
import { NetworkNamespace } from "../../../src/linux/namespace.ts";
import { Netlink } from "../../../src/netlink/netlink.ts";
import { attachedPrograms } from "../../lib/guard-state.ts";
import { LabDatastore } from "../../lib/lab-datastore.ts";
import { Namespace } from "../../lib/namespace.ts";
import { waitFor } from "../../lib/wait.ts";

jest.setTimeout(60_000);

let namespace: Namespace;
let directory: string;
let datastore: LabDatastore;
let log = "";
let processes: Process[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sync-start-"));
  datastore = new LabDatastore(join(directory, "cluster"));
  await mkdir(datastore.path);
  [namespace] = await Namespace.create(`sync-start-${process.pid}`);
  log = "";
});

afterEach(async () => {
  for (const { kill, ended } of processes) {
    kill("SIGKILL");
    await ended.catch(() => undefined);
  }
  processes = [];
  await Namespace.remove([namespace]);
  await run({ file: "umount", args: [join(directory, "run/bpf")], okExitCodes: [1, 32] });
  await rm(directory, { recursive: true });
});

async function writeConfig(changes: object = {}): Promise<string> {
  const path = join(directory, "sync.json");
  const config = {
    nodeName: "node1",
    datastore: { kind: "file", path: datastore.path },
    runDir: join(directory, "run"),
    stateDir: join(directory, "state"),
    ...changes,
  };
  await writeFile(path, JSON.stringify(config));
  return path;
}

function startSync(config: string): Process {
  const started = namespace.start({
    file: assetPath("cni-ipip"),
    args: ["sync", "--config", config],
    onOutput: (text) => {
      log += text;
    },
  });
  processes.push(started);
  return started;
}

function logged(text: string): Promise<unknown> {
  return waitFor(() => log.includes(text), { what: `"${text}" in the log: ${log}`, timeoutMs: 20_000 });
}

test("a configuration that is missing or wrong is refused in one sentence", async () => {
  const refuse = (config: string) =>
    namespace.run({ file: assetPath("cni-ipip"), args: ["sync", "-c", config], okExitCodes: [1] });
  const missing = join(directory, "none.json");
  expect(await refuse(missing)).toMatchObject({
    exitCode: 1,
    stdout: "",
    stderr: expect.stringContaining(`Cannot use the configuration "${missing}": there is no such file`),
  });
  const wrong = await writeConfig({ guard: { attach: "ebpf" } });
  const { exitCode, stderr } = await refuse(wrong);
  expect(exitCode).toBe(1);
  expect(stderr.split("\n")).toEqual([expect.stringContaining('field "guard.attach"')]);
});

test("a second sync for one run directory is refused, and the first goes on", async () => {
  const config = await writeConfig();
  startSync(config);
  await logged("cluster.json");
  await expect(startSync(config).ended).rejects.toThrow(
    `Cannot start: another "cni-ipip sync" serves the run directory "${join(directory, "run")}"`,
  );
  await datastore.writeSettings({ externalNodeCidrs: [] });
  await logged("datastore is in sync");
});

test("before the first snapshot nothing is changed, and the log says what is missing", async () => {
  startSync(await writeConfig());
  await logged("cluster.json");
  const { stdout } = await namespace.run({ file: "sysctl", args: ["-n", "net.ipv4.ip_forward"] });
  expect(stdout).toBe("0");
  expect(await namespace.ipJson("-4", "route", "show", "table", "all", "protocol", "80")).toEqual([]);
  expect(existsSync(join(directory, "run/node.json"))).toBe(false);
});

test("a node without a document is told so, and a later document is obeyed", async () => {
  await datastore.writeSettings({ externalNodeCidrs: [] });
  startSync(await writeConfig());
  await logged('Cannot serve this node: the datastore has no document of node \\"node1\\", add it');
  await datastore.writeNode({ name: "node1", address: "172.31.112.2/20" });
  await logged("Cannot claim a block for pods: no enabled pool");
  await logged('Cannot find the node\'s own address \\"172.31.112.2\\" on any link');
});

test("a link that appears is guarded within 100 ms", async () => {
  await datastore.writeSettings({ externalNodeCidrs: [] });
  startSync(await writeConfig());
  await logged("datastore is in sync");
  const inside = await NetworkNamespace.open(namespace.path);
  const netlink = inside.enter(() => Netlink.open());
  const node = { runDir: join(directory, "run") };
  const elapsed: number[] = [];
  for (const name of ["first", "second", "third"]) {
    const peer = { name: `${name}-peer`, mtu: 1500, namespaceFd: inside.fd };
    const before = Object.keys(attachedPrograms(node)).length;
    await netlink.createVeth({ name, mac: "02:00:00:00:00:01", mtu: 1500, peer });
    const guarded = () => Object.keys(attachedPrograms(node)).length === before + 2;
    elapsed.push((await waitFor(guarded, { what: `"${name}" and its peer guarded`, timeoutMs: 10_000 })).elapsedMs);
  }
  netlink.close();
  await inside.close();
  // Of three, since another program may take the processor once.
  expect(Math.min(...elapsed)).toBeLessThan(100);
});

test.each(["SIGTERM", "SIGINT"] as const)("%s ends it with status 0 and leaves the guard in place", async (signal) => {
  await datastore.writeSettings({ externalNodeCidrs: ["192.0.2.0/24"] });
  await namespace.ip("link", "add", "eth0", "type", "veth", "peer", "name", "other");
  const sync = startSync(await writeConfig());
  const node = { runDir: join(directory, "run") };
  const guards = async () => Object.keys(attachedPrograms(node)).length === 2;
  await logged("datastore is in sync");
  await waitFor(guards, { what: "both links guarded", timeoutMs: 10_000 });
  const before = attachedPrograms(node);
  const isLogged = () => /"link":"eth0","tc":"(tcx|clsact)","msg":"link is guarded"/.test(log);
  await waitFor(isLogged, { what: `the link in the log: ${log}`, timeoutMs: 10_000 });
  sync.kill(signal);
  expect(await sync.ended).toMatchObject({ exitCode: 0 });
  expect(attachedPrograms(node)).toEqual(before);
});
