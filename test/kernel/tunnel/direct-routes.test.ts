/**
 * Two nodes on one bridge with a pod each. In the place of tunl0, which needs a module, they have a link of their own:
 * to routes and to rp_filter it is what tunl0 is, another way to the same node.
 */
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { type IpipMode, type Node, parseDocument } from "../../../src/datastore/documents.ts";
import { NetworkNamespace } from "../../../src/linux/namespace.ts";
import { ensureSysctl, readSysctl } from "../../../src/linux/sysctl.ts";
import { type Monitor, monitor, type NetlinkEvent } from "../../../src/netlink/monitor.ts";
import { Netlink } from "../../../src/netlink/netlink.ts";
import { ownProtocol, type Route } from "../../../src/netlink/route.ts";
import { uplinkOf } from "../../../src/sync/own-node.ts";
import { syncRoutes } from "../../../src/tunnel/route-table.ts";
import { wantedRoutes } from "../../../src/tunnel/routes.ts";
import { allowAsymmetricPaths } from "../../../src/tunnel/uplink.ts";
import { Namespace } from "../../lib/namespace.ts";

const nodes = new Map<string, Node>(
  ["172.31.112.2/20", "172.31.127.252/20"].map((address, index) => {
    const name = `node${index + 1}`;
    return [name, { name, address }];
  }),
);
const blocks = [
  { cidr: "10.100.15.128/26", node: "node1" },
  { cidr: "10.100.9.192/26", node: "node2" },
];
const pods = ["10.100.15.150", "10.100.9.206"] as const;

/** Of the links in the place of tunl0, which knows no ARP: two ends with one MAC do not need it either. */
const tunnelMac = "02:00:00:00:00:01";

/** A node of the test, and sync's part in it as far as routes go. */
interface Machine {
  readonly name: string;
  readonly namespace: Namespace;
  readonly pod: Namespace;
  readonly network: NetworkNamespace;
  readonly netlink: Netlink;
}

let wire: Namespace;
let one: Machine;
let two: Machine;

beforeEach(async () => {
  const names = ["wire", "node1", "node2", "pod1", "pod2"].map((name) => `direct-${process.pid}-${name}`);
  const [bridge, node1, node2, pod1, pod2] = (await Namespace.create(...names)) as [
    Namespace,
    Namespace,
    Namespace,
    Namespace,
    Namespace,
  ];
  wire = bridge;
  await wire.ipBatch("link add wire type bridge", "link set wire up");
  await node1.ipBatch(
    `link add tunnel address ${tunnelMac} type veth peer name tunnel address ${tunnelMac} netns ${node2.name}`,
  );
  one = await machine("node1", node1, pod1, pods[0]);
  two = await machine("node2", node2, pod2, pods[1]);
}, 30_000);

afterEach(async () => {
  for (const { netlink, network } of [one, two]) {
    netlink.close();
    await network.close();
  }
  await Namespace.remove([wire, one.namespace, two.namespace, one.pod, two.pod]);
});

async function machine(name: string, namespace: Namespace, pod: Namespace, podAddress: string): Promise<Machine> {
  const tunnelAddress = blocks.find(({ node }) => node === name)?.cidr.replace(/\/.*/, "");
  await plug(name, namespace, "eth0");
  await namespace.ipBatch(
    `address add ${nodes.get(name)?.address} dev eth0`,
    "link set eth0 up",
    // Without an address a link is strict, although its rp_filter is loose.
    `address add ${tunnelAddress}/32 dev tunnel`,
    "link set tunnel up arp off",
    `link add cali1 address ee:ee:ee:ee:ee:ee type veth peer name eth0 netns ${pod.name}`,
    "link set cali1 up",
    `route add ${podAddress} dev cali1 scope link proto ${ownProtocol}`,
  );
  await pod.ipBatch(
    "link set eth0 up",
    `address add ${podAddress}/32 dev eth0`,
    "route add 169.254.1.1 dev eth0 scope link",
    "route add default via 169.254.1.1 dev eth0",
    "neighbour add 169.254.1.1 lladdr ee:ee:ee:ee:ee:ee dev eth0 nud permanent",
  );
  const network = await NetworkNamespace.open(namespace.path);
  network.enter(() => {
    ensureSysctl("ipv4/ip_forward", 1);
    ensureSysctl("ipv4/conf/all/rp_filter", 0);
    ensureSysctl("ipv4/conf/eth0/rp_filter", 0);
    ensureSysctl("ipv4/conf/tunnel/rp_filter", 2);
  });
  return { name, namespace, pod, network, netlink: network.enter(() => Netlink.open()) };
}

/** Gives the machine a link whose other end is in the bridge. */
async function plug(name: string, namespace: Namespace, link: string): Promise<void> {
  await wire.ipBatch(
    `link add ${name}${link} type veth peer name ${link} netns ${namespace.name}`,
    `link set ${name}${link} master wire up`,
  );
}

async function follow({ name, netlink }: Machine, ipipMode: IpipMode): Promise<void> {
  const node = nodes.get(name) as Node;
  const links = await netlink.links();
  const wanted = wantedRoutes({
    ownNode: node,
    nodes,
    pools: new Map([["main", parseDocument("pool", "main", { name: "main", cidr: "10.100.0.0/16", ipipMode })]]),
    blocks,
    tunnel: { index: links.find((link) => link.name === "tunnel")?.index ?? 0, mtu: 1480 },
    uplink: uplinkOf({ node }, links, await netlink.addresses()),
  });
  await syncRoutes(netlink, wanted);
}

async function routesTo({ namespace }: Machine, destination: string): Promise<object[]> {
  return (await namespace.ipJson("route", "show", destination)).map(({ gateway, dev, protocol, flags, metrics }) => ({
    gateway,
    dev,
    protocol: Number(protocol),
    flags,
    metrics,
  }));
}

const direct = { gateway: "172.31.127.252", dev: "eth0", protocol: ownProtocol, flags: [], metrics: undefined };
const tunnelled = { ...direct, dev: "tunnel", flags: ["onlink"], metrics: [{ mtu: 1480 }] };

test("pools of mode Never are reached directly, and the routes to pods stay", async () => {
  await follow(one, "Never");
  await follow(two, "Never");
  expect(await routesTo(one, "10.100.9.192/26")).toEqual([direct]);
  expect(await routesTo(one, pods[0])).toMatchObject([{ dev: "cali1", protocol: ownProtocol }]);
  await one.pod.ping(pods[1]);
  await two.pod.ping(pods[0]);
});

test("a mode that changes to and fro under traffic loses no packet, and leaves no destination without route", async () => {
  const seen: NetlinkEvent[] = [];
  const watches: Monitor[] = [one, two].map(({ network }) => network.enter(() => monitor((event) => seen.push(event))));
  await follow(one, "Always");
  await follow(two, "Always");
  expect(await routesTo(one, "10.100.9.192/26")).toEqual([tunnelled]);
  let output = "";
  let isOver = false;
  const ping = one.pod.start({
    file: "ping",
    args: ["-n", "-q", "-i", "0.001", "-c", "3000", "-W", "2", pods[1]],
    timeoutMs: 60_000,
    onOutput: (text) => {
      output += text;
    },
  });
  const over = ping.ended.finally(() => {
    isOver = true;
  });
  let changes = 0;
  for (; !isOver; changes++) {
    const mode = (["CrossSubnet", "Always", "Never", "Always"] as const)[changes % 4] as IpipMode;
    await follow(one, mode);
    await follow(two, mode);
  }
  await over;
  for (const watch of watches) {
    watch.close();
  }
  expect(output).toMatch(/3000 packets transmitted, 3000 received, 0% packet loss/);
  expect(changes).toBeGreaterThan(10);
  const told = seen.filter((event) => event.kind === "route" && event.route.destination === "10.100.9.192/26");
  expect(told.length).toBeGreaterThan(10);
  expect(told.filter((event) => event.kind === "route" && event.removed)).toEqual([]);
}, 60_000);

test("a direct route follows the node's address to another link", async () => {
  await follow(one, "CrossSubnet");
  await follow(two, "CrossSubnet");
  await plug("node1", one.namespace, "eth1");
  await one.namespace.ipBatch(
    "address del 172.31.112.2/20 dev eth0",
    "address add 172.31.112.2/20 dev eth1",
    "link set eth1 up",
  );
  one.network.enter(() => ensureSysctl("ipv4/conf/eth1/rp_filter", 0));
  await follow(one, "CrossSubnet");
  expect(await routesTo(one, "10.100.9.192/26")).toEqual([{ ...direct, dev: "eth1" }]);
  await one.pod.ping(pods[1]);
});

test("a mode that needs no route of ours any more takes it away, and nobody else's", async () => {
  await follow(one, "Always");
  await one.namespace.ipBatch("route add 10.100.20.0/26 via 172.31.127.252 proto static");
  const far = new Map([["node2", { name: "node2", address: "192.0.2.7/24" }]]);
  const routes = wantedRoutes({
    ownNode: nodes.get("node1") as Node,
    nodes: far,
    pools: new Map([
      ["main", parseDocument("pool", "main", { name: "main", cidr: "10.100.0.0/16", ipipMode: "Never" })],
    ]),
    blocks,
    tunnel: { index: 1, mtu: 1480 },
    uplink: { index: 1 },
  });
  await syncRoutes(one.netlink, routes);
  expect(await routesTo(one, "10.100.9.192/26")).toEqual([]);
  expect(await routesTo(one, "10.100.20.0/26")).toHaveLength(1);
  expect(await routesTo(one, pods[0])).toHaveLength(1);
});

test("a route that the kernel refuses is named, and keeps no other from its place", async () => {
  const eth0 = await one.netlink.linkByName("eth0");
  const route = (destination: string, gateway: string): Route => ({
    destination,
    gateway,
    linkIndex: eth0?.index ?? 0,
    type: "unicast",
    scope: "universe",
    protocol: ownProtocol,
    table: 254,
    metric: 0,
    onlink: false,
  });
  const wanted = [
    route("10.100.1.0/26", "192.0.2.7"),
    route("10.100.2.0/26", "172.31.127.252"),
    route("10.100.3.0/26", "192.0.2.8"),
  ];
  await follow(one, "Never");
  await expect(syncRoutes(one.netlink, new Map(wanted.map((each) => [each.destination, each])))).rejects.toThrow(
    "Cannot set the route 10.100.1.0/26 via 192.0.2.7: network is unreachable, and 1 more",
  );
  expect(await routesTo(one, "10.100.2.0/26")).toEqual([direct]);
  expect(await routesTo(one, "10.100.9.192/26")).toEqual([]);
});

describe("a node with a strict rp_filter that still tunnels while its peer sends directly", () => {
  beforeEach(async () => {
    two.network.enter(() => ensureSysctl("ipv4/conf/eth0/rp_filter", 1));
    await follow(one, "CrossSubnet");
    await follow(two, "Always");
  });

  async function dropped(): Promise<number> {
    const { stdout } = await two.namespace.run({ file: "nstat", args: ["-asz", "-j", "TcpExtIPReversePathFilter"] });
    return JSON.parse(stdout).kernel.TcpExtIPReversePathFilter;
  }

  test("drops its packets as long as the filter is strict", async () => {
    const before = await dropped();
    await expect(one.pod.ping(pods[1], 1)).rejects.toThrow("ping");
    expect(await dropped()).toBeGreaterThan(before);
  });

  test.each([
    ["the link", () => ensureSysctl("ipv4/conf/eth0/rp_filter", 1)],
    [
      "conf/all",
      () => {
        ensureSysctl("ipv4/conf/all/rp_filter", 1);
        ensureSysctl("ipv4/conf/eth0/rp_filter", 0);
      },
    ],
  ])("takes them after allowAsymmetricPaths(), where %s is strict", async (_, makeStrict) => {
    two.network.enter(makeStrict);
    expect(two.network.enter(() => allowAsymmetricPaths("eth0"))).toBe(true);
    expect(two.network.enter(() => readSysctl("ipv4/conf/eth0/rp_filter"))).toBe("2");
    await one.pod.ping(pods[1]);
    expect(two.network.enter(() => allowAsymmetricPaths("eth0"))).toBe(false);
  });

  test.each([
    ["off", 0, 0],
    ["loose by conf/all", 2, 1],
    ["loose by itself", 1, 2],
  ])("keeps a filter that is %s", (_, all, own) => {
    two.network.enter(() => {
      ensureSysctl("ipv4/conf/all/rp_filter", all);
      ensureSysctl("ipv4/conf/eth0/rp_filter", own);
      expect(allowAsymmetricPaths("eth0")).toBe(false);
      expect(readSysctl("ipv4/conf/eth0/rp_filter")).toBe(String(own));
    });
  });
});
