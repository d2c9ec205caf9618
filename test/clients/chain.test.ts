/** Plugins of others behind ours, before it and beside it. All are Debian's containernetworking-plugins. */
import { expect, jest, test } from "@jest/globals";
import { run } from "../../src/exec.ts";
import { nothing } from "../kernel/cni/node.ts";
import { Chain, type ChainPlugin } from "./chain.ts";
import { ClientNode, get, inside, nodeAddress, page, ping, podAddresses } from "./client-node.ts";

jest.setTimeout(60_000); // each call of a plugin is a process, and two cores may be busy

const portmap: ChainPlugin = { type: "portmap", capabilities: { portMappings: true } };
const bandwidth: ChainPlugin = { type: "bandwidth", capabilities: { bandwidth: true } };
const tuning: ChainPlugin = { type: "tuning", sysctl: { "net.core.somaxconn": "500" }, mtu: 1400 };
const firewall: ChainPlugin = { type: "firewall", backend: "iptables" };
const runtimeConfig = {
  portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
  bandwidth: { ingressRate: 8_000_000, ingressBurst: 1_000_000 }, // bits a second, bits
};
const address = podAddresses[0];

async function rulesOf(world: ClientNode): Promise<string> {
  return (await world.run({ file: "iptables-save", args: [] })).stdout;
}

/** Names of the links that are neither pods' nor lo. */
async function otherLinks(world: ClientNode): Promise<string[]> {
  const links: { readonly ifname: string }[] = await world.node.ip("link");
  return links.map(({ ifname }) => ifname).filter((name) => name !== "lo" && !name.startsWith("cali"));
}

test.each([
  { cniVersion: "0.4.0", ip: { version: "4", address: `${address}/32`, interface: 1 } },
  { cniVersion: "1.0.0", ip: { address: `${address}/32`, interface: 1 } },
])("plugins behind ours take its result of version $cniVersion, confirm it, and leave nothing", async (row) => {
  const { cniVersion, ip } = row;
  await using world = await ClientNode.create();
  const netns = await world.node.createPod();
  // Without portmap, which in version 1.1.1 refuses CHECK of any pod that has no IPv6 address.
  const chain = new Chain(world, { cniVersion, plugins: [world.ourPlugin, bandwidth, tuning, firewall] });
  const call = { containerId: "c1", netns, runtimeConfig };
  expect(await chain.add(call)).toMatchObject({
    cniVersion,
    interfaces: [{ name: expect.stringMatching(/^cali/) }, { name: "eth0", sandbox: netns }],
    ips: [ip],
    routes: [{ dst: "0.0.0.0/0", gw: "169.254.1.1" }],
  });
  await chain.check(call);
  await ping(netns, "192.0.2.2");
  await chain.del(call);
  await chain.del(call);
  expect(await world.node.remains()).toEqual(nothing);
  expect(await rulesOf(world)).not.toContain(address);
  expect(await otherLinks(world)).toEqual(["uplink"]);
});

test("plugins behind ours take its result of version 0.3.1, which has no CHECK", async () => {
  await using world = await ClientNode.create();
  const netns = await world.node.createPod();
  const chain = new Chain(world, { cniVersion: "0.3.1", plugins: [world.ourPlugin, portmap, bandwidth, tuning] });
  const call = { containerId: "c1", netns, runtimeConfig };
  expect(await chain.add(call)).toMatchObject({ ips: [{ version: "4", address: `${address}/32`, interface: 1 }] });
  await ping(netns, "192.0.2.2");
  await chain.del(call);
  expect(await world.node.remains()).toEqual(nothing);
});

test("portmap behind ours: a port of the node leads to the pod, until DEL", async () => {
  await using world = await ClientNode.create();
  const netns = await world.node.createPod();
  const chain = new Chain(world, { plugins: [world.ourPlugin, portmap] });
  const call = { containerId: "c1", netns, runtimeConfig };
  await chain.add(call);
  using _server = world.serve(netns);
  expect(await get(world.outside, `http://${nodeAddress}:8080/`)).toBe(page);
  expect(await get(world.namespace, "http://127.0.0.1:8080/")).toBe(page);
  expect(await get(netns, `http://${nodeAddress}:8080/`)).toBe(page);
  await chain.del(call);
  expect(await rulesOf(world)).not.toContain(address);
});

test("bandwidth behind ours: the host link is limited", async () => {
  await using world = await ClientNode.create();
  const netns = await world.node.createPod();
  const chain = new Chain(world, { plugins: [world.ourPlugin, bandwidth] });
  const { interfaces } = await chain.add({ containerId: "c1", netns, runtimeConfig });
  const { stdout } = await world.run({ file: "tc", args: ["-j", "qdisc", "show", "dev", interfaces[0].name] });
  // tc counts bytes.
  expect(JSON.parse(stdout)).toMatchObject([{ kind: "tbf", options: { rate: 1_000_000 } }]);
});

test("tuning behind ours: the pod has its sysctl and MTU, and CHECK says who misses what", async () => {
  await using world = await ClientNode.create();
  const netns = await world.node.createPod();
  const chain = new Chain(world, { plugins: [world.ourPlugin, tuning] });
  const call = { containerId: "c1", netns };
  await chain.add(call);
  const somaxconn = { file: "sysctl", args: ["-n", "net.core.somaxconn"] };
  expect((await run(inside(netns, somaxconn))).stdout).toBe("500");
  expect(await world.node.podIp(netns, "link", "show", "eth0")).toMatchObject([{ mtu: 1400 }]);
  await chain.check(call);
  await run(inside(netns, { file: "sysctl", args: ["-q", "-w", "net.core.somaxconn=501"] }));
  await expect(chain.check(call)).rejects.toThrow('CHECK of "tuning"');
  await world.node.ip("route", "delete", address);
  await expect(chain.check(call)).rejects.toThrow('CHECK of "cni-ipip"');
});

test("firewall behind ours: a node that forwards nothing else forwards for the pod", async () => {
  await using world = await ClientNode.create();
  const [netns, stranger] = [await world.node.createPod(), await world.node.createPod()];
  await world.run({ file: "iptables", args: ["-P", "FORWARD", "DROP"] });
  const unknown = new Chain(world, { plugins: [world.ourPlugin] });
  await unknown.add({ containerId: "c2", netns: stranger });
  await expect(ping(stranger, "192.0.2.2", 1)).rejects.toThrow("exit status 1");
  const chain = new Chain(world, { plugins: [world.ourPlugin, firewall] });
  await chain.add({ containerId: "c1", netns });
  await ping(netns, "192.0.2.2");
});

test("loopback before ours: its interface and addresses stay in front", async () => {
  await using world = await ClientNode.create();
  const netns = await world.node.createPod();
  const chain = new Chain(world, { plugins: [{ type: "loopback" }, world.ourPlugin, tuning] });
  const call = { containerId: "c1", netns };
  expect(await chain.add(call)).toMatchObject({
    interfaces: [{ name: "lo" }, { name: expect.stringMatching(/^cali/) }, { name: "eth0", sandbox: netns }],
    ips: [
      { address: "127.0.0.1/8", interface: 0 },
      { address: "::1/128", interface: 0 },
      { address: `${address}/32`, interface: 2 },
    ],
  });
  await chain.check(call);
  await chain.del(call);
  expect(await world.node.remains()).toEqual(nothing);
});

test.each([
  { order: "before", interfaceName: "net1", bridgeName: "eth0" },
  { order: "after", interfaceName: "eth0", bridgeName: "net1" },
])("bridge $order ours, in a network of its own: the pod is reached at both, and either goes alone", async (row) => {
  await using world = await ClientNode.create();
  const netns = await world.node.createPod();
  const ranges = [[{ subnet: "198.51.100.0/24" }]];
  const ipam = { type: "host-local", dataDir: `${world.directory}/host-local`, ranges };
  const bridge = new Chain(world, { name: "bridge", plugins: [{ type: "bridge", isGateway: true, ipam }] });
  const ours = new Chain(world, { plugins: [world.ourPlugin, tuning] });
  const calls = [
    { chain: bridge, call: { containerId: "c1", netns, interfaceName: row.bridgeName } },
    { chain: ours, call: { containerId: "c1", netns, interfaceName: row.interfaceName } },
  ].toSorted((one, other) => one.call.interfaceName.localeCompare(other.call.interfaceName));
  for (const { chain, call } of calls) {
    await chain.add(call);
  }
  for (const { chain, call } of calls) {
    await chain.check(call);
  }
  await ping(world.namespace, address);
  await ping(world.namespace, "198.51.100.2");
  await ping(netns, "192.0.2.2");
  const [first, second] = calls;
  await first?.chain.del(first.call);
  await second?.chain.check(second.call);
  await second?.chain.del(second.call);
  expect(await world.node.remains()).toEqual(nothing);
});

test("a pod whose network namespace is gone leaves nothing of any plugin", async () => {
  await using world = await ClientNode.create();
  const netns = await world.node.createPod();
  const chain = new Chain(world, { plugins: [world.ourPlugin, portmap, bandwidth, tuning, firewall] });
  const call = { containerId: "c1", netns, runtimeConfig };
  await chain.add(call);
  await world.node.removeNamespace(netns);
  await chain.del({ ...call, netns: "" });
  expect(await world.node.remains()).toEqual(nothing);
  expect(await rulesOf(world)).not.toContain(address);
});

test("a plugin that fails behind ours leaves the network to DEL, which takes it back without a result", async () => {
  await using world = await ClientNode.create();
  const netns = await world.node.createPod();
  const strange = { type: "tuning", sysctl: { "net.core.no_such_thing": "1" } };
  const chain = new Chain(world, { plugins: [world.ourPlugin, portmap, strange] });
  const call = { containerId: "c1", netns, runtimeConfig };
  await expect(chain.add(call)).rejects.toThrow('ADD of "tuning"');
  await chain.del(call);
  expect(await world.node.remains()).toEqual(nothing);
  expect(await rulesOf(world)).not.toContain(address);
});
