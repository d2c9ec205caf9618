import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { run } from "../../../src/exec.ts";
import type { Attached, WorkloadEndpoint } from "../../../src/workload/endpoint.ts";
import { EndpointStore } from "../../../src/workload/endpoint-store.ts";
import { waitFor } from "../../lib/wait.ts";
import { nothing, TestNode } from "./node.ts";
import { stoppedAdd } from "./stopped.ts";

const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=nginx";
const hostLink = "calic440f455693"; // of default.nginx
jest.setTimeout(60_000); // each call of the plugin is a process, and two cores may be busy

let node: TestNode;

beforeEach(async () => {
  node = await TestNode.create();
  await node.writeState();
});

afterEach(() => node.remove());

const done = { exitCode: 0, json: undefined, stderr: "" };

test("DEL succeeds before any ADD, also when sync never ran", async () => {
  const fresh = await TestNode.create();
  const netns = await fresh.createPod();
  expect(await fresh.call("DEL", { containerId: "c1", netns, args })).toEqual(done);
  await fresh.remove();
});

test("DEL succeeds any number of times", async () => {
  const netns = await node.createPod();
  await node.call("ADD", { containerId: "c1", netns, args });
  for (let time = 0; time < 3; time++) {
    expect(await node.call("DEL", { containerId: "c1", netns, args })).toEqual(done);
  }
});

test("DEL with the namespace gone releases the lease", async () => {
  const netns = await node.createPod();
  await node.call("ADD", { containerId: "c1", netns, args });
  await node.removeNamespace(netns);
  expect(await node.call("DEL", { containerId: "c1", netns, args })).toEqual(done);
  expect(await node.hostLinks()).toEqual([]);
  expect(await node.leases()).toEqual([]);
});

test("DEL with an empty CNI_NETNS and without CNI_ARGS removes the link of a living pod", async () => {
  const netns = await node.createPod();
  await node.call("ADD", { containerId: "c1", netns, args });
  expect(await node.call("DEL", { containerId: "c1" })).toEqual(done);
  expect(await node.hostLinks()).toEqual([]);
  expect(await node.leases()).toEqual([]);
});

test("DEL touches no interface that another plugin made in the pod", async () => {
  const netns = await node.createPod();
  await node.podIp(netns, "link", "add", "eth0", "type", "bridge");
  await node.call("DEL", { containerId: "c1", netns, args });
  expect(await node.podIp(netns, "link", "show", "eth0")).toHaveLength(1);
});

test("DEL takes CNI_ARGS that ADD refuses", async () => {
  const netns = await node.createPod();
  const strange = { containerId: "c1", netns, args: "NONSENSE=1" };
  expect((await node.call("ADD", strange)).json).toMatchObject({ code: 4, msg: expect.stringContaining('"NONSENSE"') });
  expect(await node.call("DEL", strange)).toEqual(done);
});

test("DEL removes the link also when somebody wrote another alias on it, and frees no address before", async () => {
  const netns = await node.createPod();
  await node.call("ADD", { containerId: "c1", netns, args });
  await node.ip("link", "set", hostLink, "alias", "mine");
  expect(await node.call("DEL", { containerId: "c1", netns, args })).toEqual(done);
  expect(await node.remains()).toEqual(nothing);
});

test("DEL leaves the guard on a link that has the number of one that is gone", async () => {
  const [netns, other] = [await node.createPod(), await node.createPod()];
  await node.call("ADD", { containerId: "c1", netns });
  const store = new EndpointStore(node.runDir);
  const [endpoint] = await store.list();
  await node.ip("link", "del", (await node.hostLinks())[0] ?? "");
  const { json } = await node.call("ADD", { containerId: "c2", netns: other });
  const name: string = json.interfaces[0].name;
  const [{ ifindex }] = await node.ip("link", "show", name);
  const attached = { ...endpoint?.attached, hostLink: { name: "calipast", index: ifindex } } as Attached;
  await store.save({ ...(endpoint as WorkloadEndpoint), attached });
  await node.call("DEL", { containerId: "c1", netns });
  using guard = node.openGuard();
  expect(node.enter(() => guard.isAttached(ifindex))).toBe(true);
});

test("what is no endpoint among the endpoints stops neither GC nor DEL", async () => {
  const netns = await node.createPod();
  await node.call("ADD", { containerId: "c1", netns, args });
  await mkdir(join(node.runDir, "endpoints", "0".repeat(32)));
  await run({ file: "mkfifo", args: [join(node.runDir, "endpoints", "f".repeat(32))] });
  expect(await node.call("GC", {})).toEqual(done);
  expect(await node.leases()).toEqual([]);
});

test("DEL takes a configuration that ADD refuses, as far as it does not need it", async () => {
  const netns = await node.createPod();
  await node.call("ADD", { containerId: "c1", netns, args });
  const config = {
    mtu: "big",
    guard: { allowIpip: "yes" },
    log: { level: "loud" },
    runtimeConfig: { mac: 7, ips: "10.0.0.1" },
    args: 7,
    dns: 7,
    prevResult: { cniVersion: "9.9.9", ips: 7 },
  };
  expect(await node.call("DEL", { containerId: "c1", netns, args, config })).toEqual(done);
  expect(await node.leases()).toEqual([]);
});

test("a pod's new sandbox takes over the link name, and the old one's late DEL leaves it alone", async () => {
  const [older, newer] = [await node.createPod(), await node.createPod()];
  await node.call("ADD", { containerId: "old", netns: older, args });
  const { exitCode } = await node.call("ADD", { containerId: "new", netns: newer, args });
  expect(exitCode).toBe(0);
  expect(await node.leases()).toEqual(["10.100.15.129", "10.100.15.130"]);
  expect(await node.podIp(older, "link")).toMatchObject([{ ifname: "lo" }]);

  expect(await node.call("DEL", { containerId: "old", netns: older, args })).toEqual(done);
  expect(await node.ip("link", "show", hostLink)).toMatchObject([{ ifalias: "cni-ipip:pods/new/eth0" }]);
  expect(await node.ip("route")).toMatchObject([{ dst: "10.100.15.130", dev: hostLink }]);
  expect(await node.leases()).toEqual(["10.100.15.130"]);
});

test("the late ADD of a pod's old sandbox leaves the new one alone, and is told of it", async () => {
  const [older, newer] = [await node.createPod(), await node.createPod()];
  const late = await stoppedAdd(node, { containerId: "old", netns: older, args }, "name the host link");
  const { json } = await node.call("ADD", { containerId: "new", netns: newer, args });
  const after = await node.remains();
  late.kill("SIGCONT");
  const { exitCode, stdout } = await late.ended;
  expect({ exitCode, answer: JSON.parse(stdout) }).toMatchObject({
    exitCode: 1,
    answer: {
      code: 101,
      msg: `Cannot create the link "${hostLink}": it is "eth0" of the container "new" in the network "pods", which was added later, allowed is to replace an older sandbox of the pod`,
    },
  });
  expect(await node.call("DEL", { containerId: "old", netns: older, args })).toEqual(done);
  const [own] = after.routes.filter((address) => json.ips[0].address === `${address}/32`);
  expect(await node.remains()).toMatchObject({ hostLinks: [hostLink], routes: [own], leases: [own], endpoints: 1 });
  expect(await node.ip("link", "show", hostLink)).toMatchObject([{ ifalias: "cni-ipip:pods/new/eth0" }]);
});

test("the later of two sandboxes of one pod has the link, whichever step the earlier ADD was stopped at", async () => {
  for (const step of ["begin the endpoint", "guard the host link", "finish the endpoint"]) {
    const [older, newer] = [await node.createPod(), await node.createPod()];
    const late = await stoppedAdd(node, { containerId: "old", netns: older, args }, step);
    expect(await node.call("ADD", { containerId: "new", netns: newer, args })).toMatchObject({ exitCode: 0 });
    late.kill("SIGCONT");
    await late.ended;
    expect(await node.call("DEL", { containerId: "old", netns: older, args })).toEqual(done);
    expect({ step, link: await node.ip("link", "show", hostLink) }).toMatchObject({
      step,
      link: [{ ifalias: "cni-ipip:pods/new/eth0" }],
    });
    expect(await node.podIp(newer, "link", "show", "eth0")).toMatchObject([{ operstate: "UP" }]);
    await node.call("DEL", { containerId: "new", netns: newer, args });
    expect(await node.remains()).toEqual(nothing);
  }
});

test("ADD refuses to remove a link that has its name as another name", async () => {
  const [other, netns] = [await node.createPod(), await node.createPod()];
  const { json } = await node.call("ADD", { containerId: "other", netns: other });
  const otherLink: string = json.interfaces[0].name;
  await node.ip("link", "property", "add", "dev", otherLink, "altname", hostLink);
  const before = await node.remains();
  expect((await node.call("ADD", { containerId: "c1", netns, args })).json).toMatchObject({
    code: 101,
    msg: `Cannot create the link "${hostLink}": "${otherLink}" has it as another name, allowed is a name that is free`,
  });
  expect(await node.remains()).toEqual(before);
});

test("a repeated ADD that asks for another address is refused, and leaves the pod as it is", async () => {
  const netns = await node.createPod();
  const { json } = await node.call("ADD", { containerId: "c1", netns, args });
  const before = await node.remains();
  expect((await node.call("ADD", { containerId: "c1", netns, args: `${args};IP=10.100.15.140` })).json).toMatchObject({
    code: 101,
    msg: `Cannot give 10.100.15.140 to "eth0" of the container "c1": it has 10.100.15.129 already, allowed is one address an interface`,
  });
  expect(await node.remains()).toEqual(before);
  expect((await node.call("ADD", { containerId: "c1", netns, args })).json).toEqual(json);
});

test("a repeated ADD makes a link anew that somebody renamed, with the same address", async () => {
  const netns = await node.createPod();
  const { json } = await node.call("ADD", { containerId: "c1", netns, args });
  await node.ip("link", "set", hostLink, "down");
  await node.ip("link", "set", hostLink, "name", "calimine");
  expect((await node.call("ADD", { containerId: "c1", netns, args })).json).toEqual(json);
  expect(await node.hostLinks()).toEqual([hostLink]);
});

test("DEL makes the guard forget the pod also where its program's pin is gone, and so does the start of sync", async () => {
  const [first, second] = [await node.createPod(), await node.createPod()];
  await node.call("ADD", { containerId: "c1", netns: first, args });
  await node.call("ADD", { containerId: "c2", netns: second });
  await rm(join(node.runDir, "bpf/guard/v1/programs"), { recursive: true });
  const call = { containerId: "c3", netns: await node.createPod() };
  expect((await node.call("ADD", call)).json).toMatchObject({ code: 11 });
  expect(await node.call("DEL", { containerId: "c1", netns: first, args })).toEqual(done);
  const { guarded } = await node.remains();
  expect(guarded).toHaveLength(1);
  await node.removeNamespace(second);
  const isLinkGone = async () => (await node.hostLinks()).length === 0;
  await waitFor(isLinkGone, { what: "the link gone with its namespace", timeoutMs: 10_000 });
  const sync = await node.startSync();
  const isForgotten = async () => (await node.remains()).guarded.length === 0;
  await waitFor(isForgotten, { what: "the guard without the link", timeoutMs: 20_000 }).finally(sync.stop);
});

test("another network neither takes nor removes the link of the same container and interface", async () => {
  const netns = await node.createPod();
  const other = { containerId: "c1", netns, args, config: { name: "other" } };
  await node.call("ADD", { containerId: "c1", netns, args });
  const before = await node.remains();
  expect((await node.call("ADD", other)).json).toMatchObject({
    code: 4,
    msg: `Cannot use CNI_IFNAME: "eth0" exists in "${netns}", allowed is a name that is free there`,
  });
  expect(await node.call("DEL", other)).toEqual(done);
  expect(await node.call("GC", { config: { name: "other" } })).toEqual(done);
  expect(await node.remains()).toEqual(before);
  expect((await node.call("ADD", { ...other, netns: await node.createPod() })).json).toMatchObject({
    code: 101,
    msg: `Cannot create the link "${hostLink}": it is "eth0" of the container "c1" in the network "pods", allowed is one network an interface`,
  });
  expect(await node.remains()).toEqual(before);
});

test.each([
  ["no alias", []],
  ['the alias "somebody else\'s"', ["alias", "somebody else's"]],
])("ADD refuses to remove a link of its name with %s", async (description, alias) => {
  const netns = await node.createPod();
  await node.ip("link", "add", hostLink, "type", "bridge");
  await node.ip("link", "set", hostLink, "up", ...alias);
  const { exitCode, json } = await node.call("ADD", { containerId: "c1", netns, args });
  expect(exitCode).toBe(1);
  expect(json).toMatchObject({
    code: 101,
    msg: `Cannot create the link "${hostLink}": one with ${description} exists, allowed is one that this plugin made`,
  });
  expect(await node.ip("link", "show", hostLink)).toMatchObject([{ linkinfo: { info_kind: "bridge" } }]);
  expect(await node.leases()).toEqual([]);
});
