/** What a caller may ask for: several interfaces, an address, a MAC; and what the guard makes of it. */
import { afterEach, beforeEach, describe, expect, jest, test } from "@jest/globals";
import { run } from "../../../src/exec.ts";
import { nothing, TestNode } from "./node.ts";

const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=nginx";
jest.setTimeout(60_000);

let node: TestNode;
let netns: string;

beforeEach(async () => {
  node = await TestNode.create();
  await node.writeState();
  netns = await node.createPod();
});

afterEach(() => node.remove());

async function ping(from: string, ...options: string[]): Promise<string> {
  const { stdout } = await run({ file: "nsenter", args: [`--net=${from}`, "ping", "-c1", "-W5", ...options] });
  return stdout;
}

describe("several interfaces of one pod", () => {
  beforeEach(async () => {
    await node.call("ADD", { containerId: "c1", netns, args });
  });

  test("have links, addresses and routes of their own, and the first stays the way out", async () => {
    const { exitCode, json } = await node.call("ADD", { containerId: "c1", netns, args, interfaceName: "net1" });
    expect(exitCode).toBe(0);
    // printf default.nginx/net1 | sha1sum
    expect(json.interfaces).toMatchObject([{ name: "cali2768043e51d" }, { name: "net1", sandbox: netns }]);
    expect(json.ips).toEqual([{ address: "10.100.15.130/32", interface: 1 }]);
    expect(json.routes).toEqual([{ dst: "0.0.0.0/0", gw: "169.254.1.1", priority: 100 }]);
    expect(await node.podIp(netns, "route", "show", "table", "main")).toMatchObject([
      { dst: "default", dev: "eth0" },
      { dst: "default", dev: "net1", metric: 100 },
      { dst: "169.254.1.1", dev: "eth0" },
      { dst: "169.254.1.1", dev: "net1", metric: 100 },
    ]);
    expect(await node.hostLinks()).toHaveLength(2);
    expect(
      await node.call("CHECK", { containerId: "c1", netns, args, interfaceName: "net1", config: { prevResult: json } }),
    ).toMatchObject({ exitCode: 0 });
  });

  test("reach other pods by each, and answer from the address that was asked, by whichever link", async () => {
    await node.call("ADD", { containerId: "c1", netns, args, interfaceName: "net1" });
    const other = await node.createPod();
    await node.call("ADD", { containerId: "c2", netns: other });
    expect(await ping(netns, "-I", "eth0", "10.100.15.131")).toContain("1 received");
    expect(await ping(netns, "-I", "net1", "10.100.15.131")).toContain("1 received");
    expect(await ping(netns, "-I", "10.100.15.130", "10.100.15.131")).toContain("1 received");
    expect(await ping(other, "10.100.15.130")).toContain("1 received");
  });

  test.each([1, 2])(
    "reach other pods also on a node whose links check sources unless told otherwise: %s",
    async (how) => {
      const setting = `net.ipv4.conf.default.rp_filter=${how}`;
      await run({ file: "nsenter", args: [`--net=/run/netns/${node.namespace}`, "sysctl", "-w", setting] });
      await node.call("DEL", { containerId: "c1", netns, args });
      await node.call("ADD", { containerId: "c1", netns, args });
      await node.call("ADD", { containerId: "c1", netns, args, interfaceName: "net1" });
      const other = await node.createPod();
      const [, second] = await node.podIp(netns, "-4", "address", "show", "scope", "global");
      const { json } = await node.call("ADD", { containerId: "c2", netns: other });
      const address = second.addr_info[0].local;
      expect(await ping(netns, "-I", address, json.ips[0].address.split("/")[0])).toContain("1 received");
      expect(await ping(other, address)).toContain("1 received");
    },
  );

  test("go one by one", async () => {
    await node.call("ADD", { containerId: "c1", netns, args, interfaceName: "net1" });
    await node.call("DEL", { containerId: "c1", netns, args });
    expect(await node.podIp(netns, "link")).toMatchObject([{ ifname: "lo" }, { ifname: "net1" }]);
    expect(await node.leases()).toEqual(["10.100.15.130"]);
    const other = await node.createPod();
    await node.call("ADD", { containerId: "c2", netns: other });
    expect(await ping(netns, "10.100.15.131")).toContain("1 received");
    await node.call("DEL", { containerId: "c1", netns, args, interfaceName: "net1" });
    await node.call("DEL", { containerId: "c2", netns: other });
    expect(await node.remains()).toEqual(nothing);
  });
});

test.each([
  ["runtimeConfig.ips", { runtimeConfig: { ips: ["10.100.15.140"] } }, args],
  ["runtimeConfig.ips with a prefix length", { runtimeConfig: { ips: ["10.100.15.140/24"] } }, args],
  ["args.cni.ips", { args: { cni: { ips: ["10.100.15.140"] } } }, args],
  ["CNI_ARGS", {}, `${args};IP=10.100.15.140`],
  ["all of them", { runtimeConfig: { ips: ["10.100.15.140"] } }, `${args};IP=10.100.15.140/32`],
])("ADD gives the address that %s asks for", async (_, config, callArgs) => {
  const { json } = await node.call("ADD", { containerId: "c1", netns, args: callArgs, config });
  expect(json.ips).toEqual([{ address: "10.100.15.140/32", interface: 1 }]);
  expect(await node.leases()).toEqual(["10.100.15.140"]);
});

test.each([
  [
    { runtimeConfig: { ips: ["10.100.16.1"] } },
    7,
    "it is not in the blocks that this node gives from, allowed are the others in 10.100.15.128/26",
  ],
  [{ runtimeConfig: { ips: ["10.100.15.128"] } }, 7, "it is the address of the tunnel"],
  [{ runtimeConfig: { ips: ["2001:db8::1"] } }, 7, "the network has no IPv6"],
  [{ runtimeConfig: { ipRanges: [[{ subnet: "2001:db8::/64" }]] } }, 7, "the network has no IPv6"],
  [{ ipam: { type: "cni-ipip", assign_ipv6: "true" } }, 7, "the network has no IPv6"],
  [{ runtimeConfig: { ips: ["10.100.15.140", "10.100.15.141"] } }, 7, "allowed is one address an interface"],
  [{ runtimeConfig: { ips: "10.100.15.140" } }, 7, 'field "runtimeConfig.ips" is "10.100.15.140"'],
  [{ runtimeConfig: { mac: 7 } }, 7, 'field "runtimeConfig.mac" is 7'],
  [{ runtimeConfig: { mac: "01:00:5e:00:00:01" } }, 7, 'allowed is a unicast MAC such as "02:42:ac:11:00:02"'],
])("ADD refuses %j and leaves nothing", async (config, code, problem) => {
  const { exitCode, json } = await node.call("ADD", { containerId: "c1", netns, args, config });
  expect(exitCode).toBe(1);
  expect(json).toMatchObject({ code, msg: expect.stringContaining(problem) });
  expect(await node.remains()).toEqual(nothing);
});

describe("pools asked for by name", () => {
  const annotated = (pools: string) => ({
    runtimeConfig: { "io.kubernetes.cri.pod-annotations": { "cni-ipip.io/pools": pools } },
  });

  beforeEach(() =>
    node.writeState({
      pools: [
        { name: "default", disabled: false, blocks: ["10.100.15.128/26"] },
        { name: "far", disabled: false, blocks: [] },
        { name: "old", disabled: true, blocks: ["10.8.0.0/30"] },
        { name: "small", disabled: false, blocks: ["10.9.0.0/31"] },
      ],
    }),
  );

  test("give the address, the first of them that has one, and the pod's annotation goes before the configuration", async () => {
    const ipam = { type: "cni-ipip", ipv4_pools: ["default"] };
    const addressOf = async (containerId: string, config: object) => {
      const { json } = await node.call("ADD", { containerId, netns: await node.createPod(), config });
      return json.ips[0].address;
    };
    expect(await addressOf("c1", { ...annotated("small,default"), ipam })).toBe("10.9.0.0/32");
    expect(await addressOf("c2", { ipam: { type: "cni-ipip", ipv4_pools: ["small"] } })).toBe("10.9.0.1/32");
    expect(await addressOf("c3", annotated("small,default"))).toBe("10.100.15.129/32");
    expect((await node.call("ADD", { containerId: "c4", netns, config: annotated("small") })).json).toMatchObject({
      code: 100,
      msg: expect.stringContaining("no address is free, leases 2 of 2, blocks 1 (10.9.0.0/31)"),
    });
  });

  test.each([
    ["fast", 'there is no pool of that name, allowed are "default", "small"'],
    ["old", 'it is disabled, allowed are "default", "small"'],
    ["default,far", 'node "node1" has no block of it, allowed are "default", "small"'],
  ])("are refused as %j, and nothing is left", async (pools, problem) => {
    expect((await node.call("ADD", { containerId: "c1", netns, config: annotated(pools) })).json).toMatchObject({
      code: 7,
      msg: `Cannot reserve an address from the pool "${pools.split(",").at(-1)}": ${problem}`,
    });
    expect(await node.remains()).toEqual(nothing);
  });
});

test("ADD names who has the address that is asked for", async () => {
  const other = await node.createPod();
  const config = { runtimeConfig: { ips: ["10.100.15.140"] } };
  await node.call("ADD", { containerId: "c2", netns: other, config });
  expect((await node.call("ADD", { containerId: "c1", netns, args, config })).json).toMatchObject({
    code: 101,
    msg: 'Cannot reserve 10.100.15.140 for "c1": "eth0" of the container "c2" has it, allowed is an address that is free',
  });
  expect(await node.leases()).toEqual(["10.100.15.140"]);
});

test.each([
  ["runtimeConfig.mac", { runtimeConfig: { mac: "02:42:AC:11:00:02" } }, args],
  ["CNI_ARGS", {}, `${args};MAC=02:42:ac:11:00:02`],
])("ADD gives the MAC that %s asks for, and the pod is reached by it", async (_, config, callArgs) => {
  const { json } = await node.call("ADD", { containerId: "c1", netns, args: callArgs, config });
  expect(json.interfaces[1].mac).toBe("02:42:ac:11:00:02");
  expect(await node.podIp(netns, "link", "show", "eth0")).toMatchObject([{ address: "02:42:ac:11:00:02" }]);
  const other = await node.createPod();
  await node.call("ADD", { containerId: "c2", netns: other });
  expect(await ping(other, "10.100.15.129")).toContain("1 received");
});

test("ADD leaves other plugins' configuration and capabilities alone", async () => {
  const config = {
    ipMasq: true,
    bandwidth: { ingressRate: 1 },
    runtimeConfig: {
      portMappings: [{ hostPort: 80, containerPort: 80, protocol: "tcp" }],
      bandwidth: { egressRate: 1 },
    },
    args: { cni: { labels: [{ key: "a", value: "b" }] }, other: 7 },
  };
  expect((await node.call("ADD", { containerId: "c1", netns, args, config })).exitCode).toBe(0);
});

describe("the workload guard", () => {
  test("is there before the link is up, knows what is allowed, and forgets the address before it can be given again", async () => {
    const guardConfig = { allowIpip: true, allowIpv6: true, allowedSources: ["192.0.2.0/24"] };
    const { json } = await node.call("ADD", { containerId: "c1", netns, args, config: { guard: guardConfig } });
    const [{ ifindex }] = await node.ip("link", "show", json.interfaces[0].name);
    using guard = node.openGuard();
    expect(node.enter(() => guard.isAttached(ifindex))).toBe(true);
    expect(guard.policyOf(ifindex)).toMatchObject({
      addresses: ["10.100.15.129"],
      allowedSources: ["192.0.2.0/24"],
      flags: { "allow-ipip": true, "allow-ipv6": true, silent: false },
    });
    await node.call("DEL", { containerId: "c1", netns, args });
    expect(guard.linkIndexes()).toEqual([]);
  });

  test.each([
    [{ allowIpip: "yes" }, 'field "guard.allowIpip" is "yes"'],
    [{ allowedSources: ["192.0.2.1"] }, 'field "guard.allowedSources.0" is "192.0.2.1"'],
    [{ allowedSources: ["2001:db8::/32"] }, 'field "guard.allowedSources.0" is "2001:db8::/32"'],
    [{ allowedSources: Array.from({ length: 17 }, (_, i) => `10.0.${i}.0/24`) }, 'field "guard.allowedSources" is'],
  ])("refuses the option %j by name", async (guard, problem) => {
    const { json } = await node.call("ADD", { containerId: "c1", netns, args, config: { guard } });
    expect(json).toMatchObject({ code: 7, msg: expect.stringContaining(problem) });
  });

  test("drops what a pod sends from another's address, and lets allowed sources through", async () => {
    const other = await node.createPod();
    await node.call("ADD", { containerId: "c1", netns, args, config: { guard: { allowedSources: ["192.0.2.1/32"] } } });
    const { json } = await node.call("ADD", { containerId: "c2", netns: other });
    const take = async (pod: string) => {
      await node.podIp(pod, "address", "add", "192.0.2.1/32", "dev", "lo");
      await node.podIp(pod, "link", "set", "lo", "up");
    };
    await node.ip("route", "add", "192.0.2.1/32", "dev", "calic440f455693");
    await take(netns);
    expect(await ping(netns, "-I", "192.0.2.1", "10.100.15.130")).toContain("1 received");
    await take(other);
    await expect(ping(other, "-W1", "-I", "192.0.2.1", "169.254.1.1")).rejects.toThrow();
    const [{ ifindex }] = await node.ip("link", "show", json.interfaces[0].name);
    using guard = node.openGuard();
    expect(guard.drops(ifindex)).toMatchObject({ "spoofed-source": { packets: 1n }, ipip: { packets: 0n } });
  });

  test("lets a pod reach itself through a service's address", async () => {
    await node.call("ADD", { containerId: "c1", netns, args });
    // What kube-proxy does: the service's address is the pod's, and whoever is its own client comes as the node.
    const rules = `table ip service {
      chain in { type nat hook prerouting priority dstnat; ip daddr 10.96.0.10 dnat to 10.100.15.129; }
      chain out { type nat hook postrouting priority srcnat; ip saddr 10.100.15.129 ip daddr 10.100.15.129 masquerade; }
    }`;
    await node.ip("link", "add", "uplink", "type", "bridge");
    await node.ip("link", "set", "uplink", "up");
    await node.ip("address", "add", "198.51.100.1/24", "dev", "uplink");
    const file = "nsenter";
    await run({ file, args: [`--net=/run/netns/${node.namespace}`, "nft", "-f", "-"], input: rules });
    expect(await ping(netns, "10.96.0.10")).toContain("1 received");
  });
});
