import { expect, test } from "@jest/globals";
import { mainTable, ownProtocol, type Route } from "../../../src/netlink/route.ts";
import { routeDifference } from "../../../src/tunnel/route-table.ts";
import { wantedRoutes } from "../../../src/tunnel/routes.ts";

const tunnel = { index: 4, mtu: 1480 };
const nodes = new Map([
  ["node1", { name: "node1", address: "172.31.112.2/20" }],
  ["node2", { name: "node2", address: "172.31.127.252/20" }],
]);
const blocks = [
  { cidr: "10.100.15.128/26", node: "node1" },
  { cidr: "10.100.9.192/26", node: "node2" },
  { cidr: "10.100.77.7/32", node: "node1" },
];

const common = { protocol: ownProtocol, table: mainTable, metric: 0, scope: "universe" } as const;
const blackhole: Route = { ...common, destination: "10.100.15.128/26", type: "blackhole", onlink: false };
const remote: Route = {
  ...common,
  destination: "10.100.9.192/26",
  type: "unicast",
  gateway: "172.31.127.252",
  linkIndex: 4,
  onlink: true,
  mtu: 1480,
};
const wanted = wantedRoutes({ ownNode: "node1", nodes, blocks, tunnel });

test("wantedRoutes() sends foreign blocks through the tunnel and makes own ones blackholes, but not own single addresses", () => {
  expect([...wanted.values()]).toEqual([blackhole, remote]);
});

test("wantedRoutes() has no route to a block whose node is unknown", () => {
  const unknown = [{ cidr: "10.100.1.0/26", node: "node9" }];
  expect(wantedRoutes({ ownNode: "node1", nodes, blocks: unknown, tunnel }).size).toBe(0);
});

test("routeDifference() is empty when everything is there", () => {
  expect(routeDifference(wanted, [blackhole, remote], 4)).toEqual({ set: [], removed: [] });
});

test.each<[string, Route]>([
  ["another gateway", { ...remote, gateway: "172.31.112.9" }],
  ["another MTU", { ...remote, mtu: 1400 }],
  ["another link", { ...remote, linkIndex: 2 }],
  ["another protocol", { ...remote, protocol: 3 }],
  ["another type", { ...common, destination: remote.destination, type: "blackhole", onlink: false }],
])("routeDifference() sets a wanted route again that has %s, and removes none", (_, actual) => {
  expect(routeDifference(wanted, [blackhole, actual], 4)).toEqual({ set: [remote], removed: [] });
});

test("routeDifference() looks at the first of two routes with one destination, which is the one the kernel uses", () => {
  const second = { ...remote, gateway: "172.31.112.9" };
  expect(routeDifference(wanted, [blackhole, remote, second], 4).set).toEqual([]);
  expect(routeDifference(wanted, [blackhole, second, remote], 4).set).toEqual([remote]);
});

test("routeDifference() removes what was ours and nothing of anybody else", () => {
  const stale: Route[] = [
    { ...remote, destination: "10.100.2.0/26" },
    { ...blackhole, destination: "10.100.3.0/26" },
  ];
  const foreign: Route[] = [
    { ...remote, destination: "10.100.4.0/26", protocol: 3 },
    { ...remote, destination: "10.100.5.0/26", table: 100 },
    { ...blackhole, destination: "10.100.6.0/26", protocol: 4 },
    // A pod's: the plugin made it.
    { ...common, destination: "10.100.15.130/32", type: "unicast", scope: "link", linkIndex: 26, onlink: false },
    // With another metric it stands beside ours.
    { ...remote, metric: 100, protocol: 3 },
  ];
  expect(routeDifference(wanted, [blackhole, remote, ...stale, ...foreign], 4)).toEqual({ set: [], removed: stale });
});
