/** GC and STATUS, the verbs about a whole network. */

import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import type { WorkloadEndpoint } from "../../../src/workload/endpoint.ts";
import { EndpointStore } from "../../../src/workload/endpoint-store.ts";
import { nothing, TestNode } from "./node.ts";

jest.setTimeout(60_000);

let node: TestNode;

beforeEach(async () => {
  node = await TestNode.create();
  await node.writeState();
});

afterEach(() => node.remove());

async function addPods(...containerIds: string[]): Promise<string[]> {
  const paths: string[] = [];
  for (const containerId of containerIds) {
    const netns = await node.createPod();
    expect(await node.call("ADD", { containerId, netns })).toMatchObject({ exitCode: 0 });
    paths.push(netns);
  }
  return paths;
}

const valid = (...containerIds: string[]) => containerIds.map((containerID) => ({ containerID, ifname: "eth0" }));
const done = { exitCode: 0, json: undefined, stderr: "" };

test.each(["cni.dev/valid-attachments", "cni.dev/attachments"])(
  "GC keeps what %s names and removes the rest",
  async (key) => {
    const [, keptPod = ""] = await addPods("gone", "kept");
    expect(await node.call("GC", { config: { [key]: valid("kept", "never-seen") } })).toEqual(done);
    expect(await node.remains()).toEqual({
      hostLinks: [expect.stringMatching(/^cali/)],
      routes: ["10.100.15.130"],
      leases: ["10.100.15.130"],
      strayFiles: [],
      endpoints: 1,
      guarded: [expect.any(Number)],
    });
    expect(await node.podIp(keptPod, "link", "show", "eth0")).toHaveLength(1);
  },
);

test("GC goes by container and interface", async () => {
  const [netns = ""] = await addPods("c1");
  await node.call("ADD", { containerId: "c1", netns, interfaceName: "net1" });
  await node.call("GC", { config: { "cni.dev/valid-attachments": [{ containerID: "c1", ifname: "net1" }] } });
  expect(await node.podIp(netns, "link")).toMatchObject([{ ifname: "lo" }, { ifname: "net1" }]);
  expect(await node.leases()).toEqual(["10.100.15.130"]);
});

test("GC without a list removes everything, also what went with its namespace, and is content with nothing", async () => {
  const [first = ""] = await addPods("c1", "c2");
  await node.removeNamespace(first);
  expect(await node.call("GC", {})).toEqual(done);
  expect(await node.remains()).toEqual(nothing);
  expect(await node.call("GC", {})).toEqual(done);
});

test("GC removes what was added before the clock was set back", async () => {
  await addPods("c1");
  const store = new EndpointStore(node.runDir);
  const [endpoint] = await store.list();
  await store.save({ ...(endpoint as WorkloadEndpoint), time: "2126-01-01T00:00:00.000Z" });
  expect(await node.call("GC", {})).toEqual(done);
  expect(await node.remains()).toEqual(nothing);
});

test("GC removes what began in an earlier boot, whatever clock that had", async () => {
  await addPods("c1");
  const store = new EndpointStore(node.runDir);
  const [endpoint] = await store.list();
  const began = { boot: "0a8b6a0e-0f5b-4a5c-9a41-0e3f8d3a3c11", microseconds: Number.MAX_SAFE_INTEGER };
  await store.save({ ...(endpoint as WorkloadEndpoint), began });
  expect(await node.call("GC", {})).toEqual(done);
  expect(await node.remains()).toEqual(nothing);
});

test("GC finds a link by its alias alone, and drops the endpoint that nobody can read", async () => {
  await addPods("c1");
  await node.damageEndpoints();
  await node.forgetLeases();
  expect(await node.call("GC", { config: { name: "others" } })).toEqual(done);
  expect(await node.hostLinks()).toHaveLength(1);
  expect(await node.call("GC", {})).toEqual(done);
  expect(await node.remains()).toEqual(nothing);
  expect(await readdir(join(node.runDir, "endpoints"))).toEqual([]);
});

test("GC leaves other networks alone", async () => {
  const netns = await node.createPod();
  await node.call("ADD", { containerId: "c1", netns, config: { name: "others" } });
  expect(await node.call("GC", {})).toEqual(done);
  expect(await node.leases()).toEqual(["10.100.15.129"]);
  expect(await node.call("GC", { config: { name: "others" } })).toEqual(done);
  expect(await node.remains()).toEqual(nothing);
});

test("GC releases the leases that a reboot left", async () => {
  const [netns = ""] = await addPods("c1");
  await node.removeNamespace(netns);
  await rm(join(node.runDir, "endpoints"), { recursive: true });
  expect(await node.call("GC", {})).toEqual(done);
  expect(await node.remains()).toEqual(nothing);
});

test("GC refuses a list of something else by name", async () => {
  await addPods("c1");
  const config = { "cni.dev/valid-attachments": [{ containerID: 7, ifname: "eth0" }] };
  expect((await node.call("GC", { config })).json).toMatchObject({
    code: 7,
    msg: 'Cannot use the network configuration: field "cni.dev/valid-attachments.0.containerID" is 7, allowed is a list of {containerID, ifname}',
  });
  expect(await node.leases()).toEqual(["10.100.15.129"]);
});

test("STATUS says that sync has not told anything yet", async () => {
  await rm(join(node.runDir, "node.json"));
  expect((await node.call("STATUS", {})).json).toEqual({
    cniVersion: "1.1.0",
    code: 50,
    msg: `Cannot add to the network yet: "${node.runDir}/node.json" does not exist, sync is not ready for pods, as its log tells, or has another runDir`,
  });
});

test("STATUS says that the guard is not loaded, and ADD refuses", async () => {
  await rm(join(node.runDir, "bpf/guard"), { recursive: true });
  const problem = `the workload guard is not in "${node.runDir}/bpf/guard/v1", sync has not loaded it on this node`;
  expect((await node.call("STATUS", {})).json).toMatchObject({
    code: 50,
    msg: `Cannot add to the network yet: ${problem}`,
  });
  const netns = await node.createPod();
  expect((await node.call("ADD", { containerId: "c1", netns })).json).toMatchObject({
    code: 11,
    msg: `Cannot add to the network yet: ${problem}`,
  });
  await node.loadGuard();
  expect(await node.remains()).toEqual(nothing);
});

test("STATUS says that no address is free", async () => {
  await node.writeState({ blocks: ["10.100.15.128/31"] });
  await addPods("c1");
  expect((await node.call("STATUS", {})).json).toMatchObject({
    code: 50,
    msg: "Cannot add to the network: no address is free: all in 10.100.15.128/31 are leased",
  });
  await node.writeState({ blocks: [] });
  expect((await node.call("STATUS", {})).json).toMatchObject({
    code: 50,
    msg: "Cannot add to the network: no address is free: the node has no block of a pool that pods get addresses from unasked",
  });
});

test("STATUS says that pods reach only this node while there is no tunnel", async () => {
  expect((await node.call("STATUS", {})).json).toEqual({
    cniVersion: "1.1.0",
    code: 51,
    msg: "Cannot connect pods to other nodes: the tunnel is not up with its address 10.100.15.128, sync brings it up",
  });
});
