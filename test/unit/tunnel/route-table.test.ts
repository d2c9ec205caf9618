import { expect, test } from "@jest/globals";
import { mainTable, ownProtocol, type Route } from "../../../src/netlink/route.ts";
import { routeDifference } from "../../../src/tunnel/route-table.ts";

const common = { protocol: ownProtocol, table: mainTable, metric: 0, scope: "universe" } as const;
const blackhole: Route = { ...common, destination: "10.100.15.128/26", type: "blackhole", onlink: false };
const tunnelled: Route = {
  ...common,
  destination: "10.100.9.192/26",
  type: "unicast",
  gateway: "172.31.127.252",
  linkIndex: 4,
  onlink: true,
  mtu: 1480,
};
const direct: Route = {
  ...common,
  destination: "10.100.10.0/26",
  type: "unicast",
  gateway: "172.31.127.253",
  linkIndex: 2,
  onlink: false,
};
const actual = [blackhole, tunnelled, direct];
const wanted = new Map(actual.map((route) => [route.destination, route]));

test("routeDifference() is empty when everything is there", () => {
  expect(routeDifference(wanted, actual)).toEqual({ set: [], removed: [] });
});

test.each<[string, Route]>([
  ["another gateway", { ...tunnelled, gateway: "172.31.112.9" }],
  ["another MTU", { ...tunnelled, mtu: 1400 }],
  ["another link", { ...tunnelled, linkIndex: 2 }],
  ["another protocol", { ...tunnelled, protocol: 3 }],
  ["another type", { ...common, destination: tunnelled.destination, type: "blackhole", onlink: false }],
  ["the direct way", { ...direct, destination: tunnelled.destination }],
])("routeDifference() sets a wanted route again that has %s, and removes none", (_, other) => {
  expect(routeDifference(wanted, [blackhole, other, direct])).toEqual({ set: [tunnelled], removed: [] });
});

test("routeDifference() sets a direct route again that has the way, the link or the MTU of another time", () => {
  for (const change of [{ linkIndex: 4, onlink: true, mtu: 1480 }, { linkIndex: 7 }, { mtu: 1480 }]) {
    const difference = routeDifference(wanted, [blackhole, tunnelled, { ...direct, ...change }]);
    expect(difference).toEqual({ set: [direct], removed: [] });
  }
});

test("routeDifference() looks at the first of two routes with one destination, which is the one the kernel uses", () => {
  const second = { ...tunnelled, gateway: "172.31.112.9" };
  expect(routeDifference(wanted, [...actual, second]).set).toEqual([]);
  expect(routeDifference(wanted, [second, ...actual]).set).toEqual([tunnelled]);
});

test("routeDifference() removes what was ours and nothing of anybody else", () => {
  const stale: Route[] = [
    { ...tunnelled, destination: "10.100.2.0/26" },
    { ...blackhole, destination: "10.100.3.0/26" },
    { ...direct, destination: "10.100.7.0/26" },
    { ...direct, destination: "10.100.8.0/26", linkIndex: 9 },
  ];
  const foreign: Route[] = [
    { ...tunnelled, destination: "10.100.4.0/26", protocol: 3 },
    { ...tunnelled, destination: "10.100.5.0/26", table: 100 },
    { ...blackhole, destination: "10.100.6.0/26", protocol: 4 },
    { ...direct, destination: "10.100.12.0/26", protocol: 16 },
    { ...direct, destination: "0.0.0.0/0", protocol: 3 },
    // A pod's: the plugin made it.
    { ...common, destination: "10.100.15.130/32", type: "unicast", scope: "link", linkIndex: 26, onlink: false },
    // With another metric it stands beside ours.
    { ...tunnelled, metric: 100, protocol: 3 },
  ];
  expect(routeDifference(wanted, [...actual, ...stale, ...foreign])).toEqual({ set: [], removed: stale });
});
