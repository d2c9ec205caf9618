import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { run } from "../../../src/exec.ts";
import { nothing, TestNode } from "./node.ts";

const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=nginx";
const hostLink = "calic440f455693"; // of default.nginx
jest.setTimeout(60_000); // each call of the plugin is a process, and two cores may be busy

let node: TestNode;

beforeEach(async () => {
  node = await TestNode.create();
});

afterEach(() => node.remove());

async function expectNothingLeft(): Promise<void> {
  expect(await node.remains()).toEqual(nothing);
}

test("ADD asks to try again later while sync has told nothing", async () => {
  const netns = await node.createPod();
  const { exitCode, json } = await node.call("ADD", { containerId: "c1", netns, args });
  expect(exitCode).toBe(1);
  expect(json).toEqual({
    cniVersion: "1.1.0",
    code: 11,
    msg: `Cannot add to the network yet: "${node.runDir}/node.json" does not exist, sync is not ready for pods, as its log tells, or has another runDir`,
  });
  await expectNothingLeft();
});

test("ADD names the node's state file when it cannot be read", async () => {
  await node.writeState();
  await writeFile(join(node.runDir, "node.json"), '{"version":1}');
  const netns = await node.createPod();
  const { json } = await node.call("ADD", { containerId: "c1", netns, args });
  expect(json).toMatchObject({
    code: 999,
    msg: expect.stringContaining(`"${node.runDir}/node.json": field "nodeName"`),
  });
});

test("ADD gives the address back when the pod has an interface of the name already", async () => {
  await node.writeState();
  const netns = await node.createPod();
  await node.podIp(netns, "link", "add", "eth0", "type", "bridge");
  const { exitCode, json } = await node.call("ADD", { containerId: "c1", netns, args });
  expect(exitCode).toBe(1);
  expect(json).toMatchObject({
    code: 4,
    msg: `Cannot use CNI_IFNAME: "eth0" exists in "${netns}", allowed is a name that is free there`,
  });
  await expectNothingLeft();
  expect(await node.podIp(netns, "link", "show", "eth0")).toMatchObject([{ linkinfo: { info_kind: "bridge" } }]);
});

test("ADD undoes link and lease when the address leads elsewhere, names that link and keeps its route", async () => {
  await node.writeState();
  const netns = await node.createPod();
  await node.ip("link", "add", "other", "type", "bridge");
  await node.ip("link", "set", "other", "up");
  await node.ip("route", "add", "10.100.15.129/32", "dev", "other");
  const { exitCode, json } = await node.call("ADD", { containerId: "c1", netns, args });
  expect(exitCode).toBe(1);
  expect(json).toMatchObject({
    code: 101,
    msg: `Cannot add the route 10.100.15.129/32 to "${hostLink}": it leads to "other" already, allowed is one link an address`,
  });
  await expectNothingLeft();
  expect(await node.podIp(netns, "link")).toMatchObject([{ ifname: "lo" }]);
  expect(await node.ip("route")).toMatchObject([{ dst: "10.100.15.129", dev: "other" }]);
});

test("ADD does not take the address of a living pod whose lease was lost, and the next try gets another", async () => {
  await node.writeState();
  const [alive, netns] = [await node.createPod(), await node.createPod()];
  await node.call("ADD", { containerId: "alive", netns: alive });
  const [aliveLink] = await node.hostLinks();
  await node.forgetLeases();
  const first = await node.call("ADD", { containerId: "c1", netns, args });
  expect(first.json).toMatchObject({
    code: 101,
    msg: expect.stringContaining(`it leads to "${aliveLink}" of the container "alive" already`),
  });
  expect(await node.hostLinks()).toEqual([aliveLink]);
  const second = await node.call("ADD", { containerId: "c1", netns, args });
  expect(second.json.ips).toMatchObject([{ address: "10.100.15.130/32" }]);
});

test("ADD takes an address over whose container is gone, link and all", async () => {
  await node.writeState();
  const [gone, netns] = [await node.createPod(), await node.createPod()];
  await node.call("ADD", { containerId: "gone", netns: gone });
  await node.forgetLeases();
  // Something keeps the namespace alive, but nobody can find the container by it any more: its path is another's now.
  const keeper = node.keepAlive(gone);
  await node.replaceNamespace(gone);
  const { exitCode, json } = await node.call("ADD", { containerId: "c1", netns, args });
  expect({ exitCode, ips: json.ips }).toMatchObject({ exitCode: 0, ips: [{ address: "10.100.15.129/32" }] });
  expect(await node.hostLinks()).toEqual([hostLink]);
  await keeper.stop();
  await node.call("DEL", { containerId: "gone" });
  await node.call("DEL", { containerId: "c1", netns, args });
  await expectNothingLeft();
});

test("ADD undoes everything when its answer cannot be written", async () => {
  await node.writeState();
  const { file, args: argv, env, input } = node.command("ADD", { containerId: "c1", netns: await node.createPod() });
  // JSON.parse() takes it, JSON.stringify() does not.
  const previous = `{"cniVersion":"1.1.0","deep":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
  const deep = input.replace(/\}$/, `,"prevResult":${previous}}`);
  const { exitCode, stdout } = await run({ file, args: argv, env, input: deep, okExitCodes: [1] });
  expect({ exitCode, answer: JSON.parse(stdout) }).toMatchObject({ exitCode: 1, answer: { code: 999 } });
  await expectNothingLeft();
});

test("ADD undoes everything when the pod's side cannot be configured", async () => {
  await node.writeState();
  const netns = await node.createPod();
  // Behind the last metric that a route can have there is none for ours.
  await node.podIp(netns, "link", "add", "bridge0", "type", "bridge");
  await node.podIp(netns, "link", "set", "bridge0", "up");
  await node.podIp(netns, "route", "add", "default", "dev", "bridge0", "metric", "4294967295");
  const { exitCode, json } = await node.call("ADD", { containerId: "c1", netns, args });
  expect(exitCode).toBe(1);
  expect(json).toMatchObject({
    code: 101,
    msg: `Cannot add routes in "${netns}": one there has the metric 4294967295, allowed are lower ones`,
  });
  await expectNothingLeft();
  expect(await node.podIp(netns, "link")).toHaveLength(2);
});

test("ADD says that every address is leased", async () => {
  await node.writeState({ blocks: ["10.100.15.128/31"] });
  const [one, two] = [await node.createPod(), await node.createPod()];
  await node.call("ADD", { containerId: "c1", netns: one });
  const { exitCode, json } = await node.call("ADD", { containerId: "c2", netns: two });
  expect(exitCode).toBe(1);
  expect(json).toMatchObject({
    code: 100,
    msg: `Cannot reserve an address for "c2": no address is free, leases 1 of 1, blocks 1 (10.100.15.128/31)`,
  });
  expect(await node.hostLinks()).toHaveLength(1);
  await node.call("DEL", { containerId: "c1", netns: one });
  expect((await node.call("ADD", { containerId: "c2", netns: two })).exitCode).toBe(0);
});

test("ADD refuses an MTU that does not fit through the tunnel", async () => {
  await node.writeState();
  const netns = await node.createPod();
  const { json } = await node.call("ADD", { containerId: "c1", netns, args, config: { mtu: 1500 } });
  expect(json).toEqual({
    cniVersion: "1.1.0",
    code: 7,
    msg: 'Cannot use the network configuration: field "mtu" is 1500, allowed are at most 1480, the MTU of the tunnel',
  });
  await expectNothingLeft();
});

test("ADD refuses a CNI_NETNS that is no namespace, is not there, or is the host's own", async () => {
  await node.writeState();
  const own = `/run/netns/${node.namespace}`;
  for (const [netns, reason] of [
    ["/etc/hostname", "Invalid argument"],
    ["/run/netns/not-there", "ENOENT"],
    [own, "it is the host's own"],
  ]) {
    const { exitCode, json } = await node.call("ADD", { containerId: "c1", netns: netns ?? "", args });
    expect(exitCode).toBe(1);
    expect(json).toMatchObject({ code: 4, msg: expect.stringContaining(`Cannot use CNI_NETNS: "${netns}" (`) });
    expect(json.msg.toLowerCase()).toContain(reason?.toLowerCase());
  }
  await expectNothingLeft();
});
