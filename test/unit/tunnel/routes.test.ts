import { describe, expect, test } from "@jest/globals";
import { type Block, type IpipMode, ipipModes, type Node, parseDocument } from "../../../src/datastore/documents.ts";
import { mainTable, ownProtocol, type Route } from "../../../src/netlink/route.ts";
import { isBlockRoute, needsTunnel, needsUplink, wantedRoutes } from "../../../src/tunnel/routes.ts";

const common = { protocol: ownProtocol, table: mainTable, metric: 0, scope: "universe" } as const;
const tunnel = { index: 4, mtu: 1480 };
const uplink = { index: 2 };

const poolOf = (ipipMode: IpipMode, fields: object = {}) =>
  parseDocument("pool", "main", { name: "main", cidr: "10.100.0.0/16", ipipMode, ...fields });

interface Given {
  /** The addresses of the nodes, node1 being our own. */
  nodes?: Record<string, string>;
  /** By CIDR: the node. */
  blocks?: Record<string, string>;
  mode?: IpipMode;
}

const ownNode: Node = { name: "node1", address: "172.31.112.2/20" };

function routes({ nodes = {}, blocks = {}, mode = "Always" }: Given): Route[] {
  const all = { node1: ownNode.address, node2: "172.31.127.252/20", ...nodes };
  const routes = wantedRoutes({
    ownNode: { name: "node1", address: all.node1 },
    nodes: new Map(Object.entries(all).map(([name, address]) => [name, { name, address }])),
    pools: new Map([["main", poolOf(mode)]]),
    blocks: Object.entries(blocks).map(([cidr, node]): Block => ({ cidr, node })),
    tunnel,
    uplink,
  });
  expect([...routes.keys()]).toEqual([...routes.values()].map(({ destination }) => destination));
  return [...routes.values()];
}

const block = "10.100.9.192/26";
const blackhole: Route = { ...common, destination: "10.100.15.128/26", type: "blackhole", onlink: false };
const tunnelled: Route = {
  ...common,
  destination: block,
  type: "unicast",
  gateway: "172.31.127.252",
  linkIndex: 4,
  onlink: true,
  mtu: 1480,
};
const direct: Route = {
  ...common,
  destination: block,
  type: "unicast",
  gateway: "172.31.127.252",
  linkIndex: 2,
  onlink: false,
};

describe("wantedRoutes()", () => {
  test.each<[mode: IpipMode, route: Route]>([
    ["Always", tunnelled],
    ["CrossSubnet", direct],
    ["Never", direct],
  ])("leads to a block of a node on the same subnet in mode %s", (mode, route) => {
    expect(routes({ mode, blocks: { [block]: "node2" } })).toEqual([route]);
  });

  test.each<[mode: IpipMode, route: Route[]]>([
    ["Always", [{ ...tunnelled, gateway: "192.0.2.7" }]],
    ["CrossSubnet", [{ ...tunnelled, gateway: "192.0.2.7" }]],
    ["Never", []],
  ])("leads to a block of a node on another subnet in mode %s", (mode, expected) => {
    expect(routes({ mode, nodes: { node2: "192.0.2.7/24" }, blocks: { [block]: "node2" } })).toEqual(expected);
  });

  test.each<[own: string, other: string, isDirect: boolean]>([
    ["172.31.112.2/20", "172.31.127.252/20", true],
    ["172.31.112.2/20", "172.31.128.1/20", false],
    // Each holds the other, with prefixes of their own.
    ["172.31.112.2/20", "172.31.112.9/24", true],
    ["172.31.112.2/16", "172.31.113.9/20", true],
    // Only one of them holds the other.
    ["172.31.112.2/20", "172.31.113.9/24", false],
    ["10.0.0.1/8", "10.200.0.1/24", false],
    ["172.31.112.2/20", "172.31.112.9/32", false],
    ["172.31.112.2/32", "172.31.112.9/32", false],
    ["172.31.112.2/31", "172.31.112.3/31", true],
    ["172.31.112.3/31", "172.31.112.4/31", false],
    ["192.0.2.1/1", "255.0.0.1/1", true],
    ["1.0.0.1/1", "128.0.0.1/1", false],
  ])("of CrossSubnet decides alike on %s and on %s: direct is %s", (own, other, isDirect) => {
    const gateways = [
      { nodes: { node1: own, node2: other }, gateway: other },
      { nodes: { node1: other, node2: own }, gateway: own },
    ];
    for (const { nodes, gateway } of gateways) {
      const [route] = routes({ mode: "CrossSubnet", nodes, blocks: { [block]: "node2" } });
      expect(route).toEqual({ ...(isDirect ? direct : tunnelled), gateway: gateway.replace(/\/.*/, "") });
      expect(routes({ mode: "Never", nodes, blocks: { [block]: "node2" } })).toHaveLength(isDirect ? 1 : 0);
    }
  });

  test.each(ipipModes)("of mode %s makes own blocks blackholes, but not own single addresses", (mode) => {
    expect(routes({ mode, blocks: { "10.100.15.128/26": "node1", "10.100.77.7/32": "node1" } })).toEqual([blackhole]);
  });

  test("leads to a single address of another node as to any block", () => {
    const blocks = { "10.100.77.7/32": "node2" };
    expect(routes({ blocks })).toEqual([{ ...tunnelled, destination: "10.100.77.7/32" }]);
    expect(routes({ blocks, mode: "Never" })).toEqual([{ ...direct, destination: "10.100.77.7/32" }]);
  });

  test.each(ipipModes)("of mode %s has no route to a block whose node or pool is unknown", (mode) => {
    expect(routes({ mode, blocks: { "10.100.1.0/26": "node9", "10.101.0.0/26": "node2" } })).toEqual([]);
  });

  test("goes by the mode of each block's own pool, also of one that is disabled", () => {
    const pools = [
      poolOf("Never", { name: "main", cidr: "10.100.0.0/24", disabled: true }),
      parseDocument("pool", "other", { name: "other", cidr: "10.100.1.0/24", disabled: true }),
    ];
    const found = wantedRoutes({
      ownNode,
      nodes: new Map([["node2", { name: "node2", address: "172.31.127.252/20" }]]),
      pools: new Map(pools.map((pool) => [pool.name, pool])),
      blocks: ["10.100.0.192/26", "10.100.1.0/26"].map((cidr) => ({ cidr, node: "node2" })),
      tunnel,
      uplink,
    });
    expect([...found.values()]).toEqual([
      { ...direct, destination: "10.100.0.192/26" },
      { ...tunnelled, destination: "10.100.1.0/26" },
    ]);
  });

  test.each<[mode: IpipMode, expected: Route[]]>([
    ["Always", [{ ...tunnelled, gateway: "192.0.2.7" }]],
    ["Never", []],
  ])("of mode %s follows a block from this node, which the datastore had forgotten, to another", (mode, expected) => {
    const found = wantedRoutes({
      ownNode,
      nodes: new Map([["node2", { name: "node2", address: "192.0.2.7/24" }]]),
      pools: new Map([["main", poolOf(mode)]]),
      blocks: [
        { cidr: block, node: "node1" },
        { cidr: block, node: "node2" },
      ],
      tunnel,
      uplink,
    });
    expect([...found.values()]).toEqual(expected);
  });
});

test.each<[modes: IpipMode[], tunnel: boolean, uplink: boolean]>([
  [[], false, false],
  [["Always"], true, false],
  [["CrossSubnet"], true, true],
  [["Never"], false, true],
  [["Never", "Always"], true, true],
])("pools of the modes %j need the tunnel: %s, and the uplink: %s", (modes, isTunnelNeeded, isUplinkNeeded) => {
  const pools = modes.map((mode) => poolOf(mode, { disabled: true }));
  expect(needsTunnel(pools)).toBe(isTunnelNeeded);
  expect(needsUplink(pools)).toBe(isUplinkNeeded);
});

const podRoute: Route = {
  ...common,
  destination: "10.100.15.130/32",
  type: "unicast",
  scope: "link",
  linkIndex: 26,
  onlink: false,
};

test.each<[string, Route, boolean]>([
  ["through the tunnel", tunnelled, true],
  ["by the uplink", direct, true],
  ["by a link that was the uplink", { ...direct, linkIndex: 9 }, true],
  ["that is a blackhole", blackhole, true],
  ["to a pod", podRoute, false],
  ["to a pod, with the scope of a route that has a gateway", { ...podRoute, scope: "universe" }, false],
  ["of another protocol", { ...direct, protocol: 4 }, false],
  ["of another table", { ...tunnelled, table: 100 }, false],
  ["that is another's blackhole", { ...blackhole, protocol: 3 }, false],
  ["of a type that is never ours", { ...direct, type: 9 }, false],
])("isBlockRoute() of one %s", (_, route, isOurs) => {
  expect(isBlockRoute(route)).toBe(isOurs);
});
