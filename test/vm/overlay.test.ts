/** The main job end to end: two nodes, three pods, a real tunl0, and a stranger. */
import { afterAll, beforeAll, expect, jest, test } from "@jest/globals";
import { guardPinDirectory } from "../../src/guard/pins.ts";
import { WorkloadGuard } from "../../src/guard/workload-guard.ts";
import { attachedPrograms, verdictPackets } from "../lib/guard-state.ts";
import { Lab, NODE1, NODE2, STRANGER } from "../lib/lab.ts";
import type { LabNode } from "../lib/lab-node.ts";
import type { Namespace } from "../lib/namespace.ts";
import { sendForged, tunnelPackets } from "../lib/traffic.ts";
import { waitFor } from "../lib/wait.ts";

// An emulated machine starts a program in a tenth of a second and Node.js in three.
jest.setTimeout(90_000);

let lab: Lab;
const pods = new Map<string, { pod: Namespace; address: string }>();

beforeAll(async () => {
  lab = await Lab.build({ node1: "tc", node2: "xdp-native" });
  lab.node1.startSync();
  lab.node2.startSync();
  await isReady(lab.node1);
  await isReady(lab.node2);
  for (const [node, name] of [
    [lab.node1, "pod1"],
    [lab.node2, "pod2"],
    [lab.node2, "pod3"],
  ] as const) {
    const pod = await lab.createPod(name);
    const { exitCode, stdout } = await node.cni("ADD", { pod, podName: name });
    const answer = JSON.parse(stdout);
    if (exitCode !== 0) {
      throw new Error(`Cannot add "${name}": ${stdout}`);
    }
    pods.set(name, { pod, address: answer.ips[0].address.replace("/32", "") });
  }
}, 180_000);

afterAll(() => lab?.remove(), 60_000);

function isReady(node: LabNode): Promise<unknown> {
  return waitFor(() => node.log.includes("ready for pods"), {
    what: `${node.name} ready: ${node.log}`,
    timeoutMs: 90_000,
  });
}

function podOf(name: string): { pod: Namespace; address: string } {
  const found = pods.get(name);
  if (!found) {
    throw new Error(`Cannot find pod "${name}": it was not added`);
  }
  return found;
}

/** Everything that must not change while sync is replaced. */
async function stateOf(node: LabNode): Promise<string> {
  const { namespace } = node;
  const [links, addresses, routes, programs] = [
    (await namespace.ipJson("link")).map(({ ifname, flags, mtu, xdp, linkinfo }) => ({
      ifname,
      flags,
      mtu,
      xdp,
      linkinfo,
    })),
    (await namespace.ipJson("-4", "address")).map(({ ifname, addr_info }) => ({ ifname, addr_info })),
    await namespace.ipJson("-4", "route", "show", "table", "all"),
    attachedPrograms(node),
  ];
  return JSON.stringify({ links, addresses, routes, programs }, undefined, 2);
}

test("tunl0 is up with the tunnel MTU, exactly the first address of the block, and a loose rp_filter", async () => {
  for (const [node, address] of [
    [lab.node1, "10.100.15.128"],
    [lab.node2, "10.100.9.192"],
  ] as const) {
    const [link] = await node.namespace.ipJson("address", "show", "tunl0");
    expect(link).toMatchObject({ mtu: 1480, linkinfo: { info_kind: "ipip" } });
    expect(link.flags).toContain("UP");
    expect(link.addr_info.filter(({ family }: { family: string }) => family === "inet")).toMatchObject([
      { local: address, prefixlen: 32, scope: "global" },
    ]);
    const filter = await node.namespace.run({ file: "sysctl", args: ["-n", "net.ipv4.conf.tunl0.rp_filter"] });
    expect(filter.stdout).toBe("2");
    const forward = await node.namespace.run({ file: "sysctl", args: ["-n", "net.ipv4.ip_forward"] });
    expect(forward.stdout).toBe("1");
  }
});

test("blocks of the other node go through the tunnel, the own block is a blackhole, pods have their link", async () => {
  const routes = await lab.node2.namespace.ipJson("-4", "route", "show", "protocol", "80");
  expect(routes).toMatchObject([
    { type: "blackhole", dst: NODE2.block },
    { dst: podOf("pod2").address, dev: expect.stringMatching(/^cali[0-9a-f]{11}$/), scope: "link" },
    { dst: podOf("pod3").address, dev: expect.stringMatching(/^cali[0-9a-f]{11}$/), scope: "link" },
    {
      dst: NODE1.block,
      gateway: lab.node1.host,
      dev: "tunl0",
      flags: ["onlink"],
      metrics: [{ mtu: 1480 }],
    },
  ]);
});

test("pods on two nodes reach each other through the tunnel", async () => {
  const before = await tunnelPackets(lab.node1);
  await podOf("pod2").pod.ping(podOf("pod1").address);
  const after = await tunnelPackets(lab.node1);
  expect(after.received - before.received).toBe(1);
  expect(after.sent - before.sent).toBe(1);
});

test("pods on one node reach each other without the tunnel", async () => {
  const before = await tunnelPackets(lab.node2);
  await podOf("pod2").pod.ping(podOf("pod3").address);
  expect(await tunnelPackets(lab.node2)).toEqual(before);
});

test("a node reaches a pod of another node, with its tunnel address as source", async () => {
  const before = await tunnelPackets(lab.node1);
  await lab.node2.namespace.ping(podOf("pod1").address);
  expect((await tunnelPackets(lab.node1)).received - before.received).toBe(1);
});

test("a packet as large as the pod's MTU passes unfragmented", async () => {
  const args = ["-n", "-c", "1", "-W", "5", "-M", "do", "-s", "1452", podOf("pod1").address];
  await podOf("pod2").pod.run({ file: "ping", args });
});

/** A stranger's echo request for a pod, wrapped as the other node would, with the stranger's own address outside. */
function strangerSends(node: LabNode, pod: "pod1" | "pod2"): Promise<void> {
  const other = pod === "pod1" ? "pod2" : "pod1";
  return sendForged({
    forger: lab.stranger,
    forgerAddress: STRANGER.address.replace("/20", ""),
    node,
    innerSource: podOf(other).address,
    innerDestination: podOf(pod).address,
  });
}

test("a stranger's tunnel packet is refused and counted, by tc and by XDP", async () => {
  for (const [node, pod] of [
    [lab.node1, "pod1"],
    [lab.node2, "pod2"],
  ] as const) {
    const tunnel = await tunnelPackets(node);
    const refused = verdictPackets(node, "not-member");
    await strangerSends(node, pod);
    expect(verdictPackets(node, "not-member") - refused).toBe(1);
    expect(await tunnelPackets(node)).toEqual(tunnel);
  }
});

test("a pod's own tunnel packet is refused and counted for it", async () => {
  const { pod, address } = podOf("pod1");
  const [link] = await lab.node1.namespace.ipJson("route", "get", address);
  const [{ ifindex }] = await lab.node1.namespace.ipJson("link", "show", link.dev);
  using guard = WorkloadGuard.openPinned(guardPinDirectory(lab.node1.runDir));
  const tunnel = await tunnelPackets(lab.node1);
  await sendForged({
    forger: pod,
    forgerAddress: address,
    node: lab.node1,
    innerSource: podOf("pod3").address,
    innerDestination: podOf("pod2").address,
  });
  expect(guard?.drops(ifindex)).toMatchObject({ ipip: { packets: 1n } });
  expect(await tunnelPackets(lab.node1)).toEqual(tunnel);
});

test("STATUS has nothing to say of a node whose tunnel is up, nor CHECK of a pod", async () => {
  expect(await lab.node1.cniStatus()).toMatchObject({ exitCode: 0, stdout: "" });
  const pod = await lab.createPod("pod4");
  const { stdout } = await lab.node1.cni("ADD", { pod, podName: "pod4" });
  const call = { pod, podName: "pod4", config: { prevResult: JSON.parse(stdout) } };
  expect(await lab.node1.cni("CHECK", call)).toMatchObject({ exitCode: 0, stdout: "" });
  await lab.node1.cni("DEL", call);
});

test("an external node is let in while its CIDR is in the settings, without a restart", async () => {
  await lab.datastore.writeSettings({ externalNodeCidrs: ["172.31.120.0/24"] });
  const tunnel = await tunnelPackets(lab.node1);
  await waitFor(
    async () => {
      await strangerSends(lab.node1, "pod1");
      return (await tunnelPackets(lab.node1)).received > tunnel.received;
    },
    { what: "the external node's packet accepted", timeoutMs: 20_000 },
  );
  await lab.datastore.writeSettings({ externalNodeCidrs: [] });
  await waitFor(
    async () => {
      const before = verdictPackets(lab.node1, "not-member");
      await strangerSends(lab.node1, "pod1");
      return verdictPackets(lab.node1, "not-member") > before;
    },
    { what: "the external node's packet refused again", timeoutMs: 20_000 },
  );
});

test("sync killed with SIGKILL leaves data path and check working, and its restart changes nothing", async () => {
  const before = await stateOf(lab.node1);
  await lab.node1.stop("SIGKILL");
  await podOf("pod2").pod.ping(podOf("pod1").address);
  const refused = verdictPackets(lab.node1, "not-member");
  await strangerSends(lab.node1, "pod1");
  expect(verdictPackets(lab.node1, "not-member") - refused).toBe(1);
  expect(await stateOf(lab.node1)).toBe(before);

  const watch = lab.node1.namespace.start({ file: "ip", args: ["monitor", "link", "address", "route"], onOutput });
  let changes = "";
  function onOutput(text: string): void {
    changes += text;
  }
  const logLength = lab.node1.log.length;
  lab.node1.startSync();
  const hasServed = () => lab.node1.log.slice(logLength).includes("datastore is in sync");
  await waitFor(hasServed, { what: "the restarted sync in step", timeoutMs: 60_000 });
  // A change made by the new sync comes after its first comparison: its end is seen by the answer to a repair.
  await lab.node1.namespace.ip("route", "delete", NODE2.block);
  const isBack = async () => (await lab.node1.namespace.ipJson("route", "show", NODE2.block)).length === 1;
  await waitFor(isBack, { what: "the removed route back", timeoutMs: 20_000 });
  watch.kill("SIGTERM");
  await watch.ended.catch(() => undefined);
  const lines = changes.split("\n").filter((line) => line !== "");
  expect(lines).toEqual([expect.stringContaining(NODE2.block), expect.stringContaining(NODE2.block)]);
  expect(await stateOf(lab.node1)).toBe(before);
});

test("a node that is readdressed is followed by routes and set", async () => {
  const route = async () => (await lab.node1.namespace.ipJson("route", "show", NODE2.block))[0]?.gateway;
  await lab.node2.namespace.ip("address", "add", "172.31.127.200/20", "dev", "eth0");
  await lab.datastore.writeNode({ name: "node2", address: "172.31.127.200/20" });
  await waitFor(async () => (await route()) === "172.31.127.200", { what: "the new gateway", timeoutMs: 20_000 });
  await lab.datastore.writeNode({ name: "node2", address: NODE2.address });
  await waitFor(async () => (await route()) === lab.node2.host, { what: "the old gateway back", timeoutMs: 20_000 });
  await lab.node2.namespace.ip("address", "delete", "172.31.127.200/20", "dev", "eth0");
  await podOf("pod2").pod.ping(podOf("pod1").address);
});

test("a node that is removed loses its routes, and its packets are refused", async () => {
  await lab.datastore.removeNode("node2");
  const routes = () => lab.node1.namespace.ipJson("route", "show", NODE2.block);
  await waitFor(async () => (await routes()).length === 0, {
    what: "the route to the removed node gone",
    timeoutMs: 20_000,
  });
  const refused = verdictPackets(lab.node1, "not-member");
  const args = ["-n", "-c", "1", "-W", "1", podOf("pod1").address];
  const { exitCode } = await podOf("pod2").pod.run({ file: "ping", args, okExitCodes: [1] });
  expect(exitCode).toBe(1);
  expect(verdictPackets(lab.node1, "not-member") - refused).toBe(1);

  await lab.datastore.writeNode({ name: "node2", address: NODE2.address });
  await waitFor(async () => (await routes()).length === 1, { what: "the route to the node back", timeoutMs: 20_000 });
  await podOf("pod2").pod.ping(podOf("pod1").address);
});

test("DEL leaves nothing of the pod, and again is content", async () => {
  const { pod, address } = podOf("pod3");
  for (const _ of ["first", "second"]) {
    const { exitCode, stdout } = await lab.node2.cni("DEL", { pod, podName: "pod3" });
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: "" });
  }
  expect(await lab.node2.namespace.ipJson("route", "show", address)).toEqual([]);
  expect(await pod.ipJson("link", "show", "type", "veth")).toEqual([]);
});
