import { expect, test } from "@jest/globals";
import { allHostNets, type HostNetNode } from "../../../src/ipset/members.ts";

const node1 = node("node1", "172.31.112.2/20");
const node2 = node("node2", "172.31.127.252/20");

function node(name: string, address: string, otherAddresses: string[] = []): HostNetNode {
  return { name, address, otherAddresses };
}

function seenFromNode1(others: readonly HostNetNode[], externalNodeCidrs: string[] = [], own: HostNetNode = node1) {
  return allHostNets({ nodes: [own, ...others], ownNode: "node1", externalNodeCidrs });
}

test("allHostNets() has the address of every node but the own one", () => {
  expect(seenFromNode1([node2, node("node3", "172.31.112.3/20")])).toEqual({
    hosts: ["172.31.112.3", "172.31.127.252"],
    cidrs: [],
  });
});

test("allHostNets() has every further address of another node, with or without prefix length", () => {
  const twoHomed = node("node2", "172.31.127.252/20", ["192.0.2.1", "192.0.2.2/24"]);
  expect(seenFromNode1([twoHomed]).hosts).toEqual(["172.31.127.252", "192.0.2.1", "192.0.2.2"]);
});

test("allHostNets() makes an external CIDR of length 32 a host", () => {
  expect(seenFromNode1([], ["198.51.100.7/32", "203.0.113.0/24"])).toEqual({
    hosts: ["198.51.100.7"],
    cidrs: ["203.0.113.0/24"],
  });
});

test("allHostNets() has each member once", () => {
  const duplicates = [node2, node("node2b", "10.0.0.9/24", ["172.31.127.252"])];
  expect(seenFromNode1(duplicates, ["203.0.113.0/24", "203.0.113.0/24", "10.0.0.9/32"])).toEqual({
    hosts: ["10.0.0.9", "172.31.127.252"],
    cidrs: ["203.0.113.0/24"],
  });
});

test("allHostNets() never has an own address, whoever else claims it", () => {
  const own = node("node1", "172.31.112.2/20", ["192.0.2.9"]);
  const liar = node("node2", "172.31.127.252/20", ["172.31.112.2", "192.0.2.9"]);
  expect(seenFromNode1([liar], ["172.31.112.2/32"], own)).toEqual({ hosts: ["172.31.127.252"], cidrs: [] });
});

test("allHostNets() splits an external CIDR around the own addresses", () => {
  const own = node("node1", "10.0.0.5/24", ["10.0.0.4"]);
  expect(seenFromNode1([], ["10.0.0.0/29"], own)).toEqual({ hosts: [], cidrs: ["10.0.0.0/30", "10.0.0.6/31"] });
});

test("allHostNets() turns what is left of a split CIDR into hosts where it is a single address", () => {
  const own = node("node1", "10.0.0.5/24");
  expect(seenFromNode1([], ["10.0.0.4/30"], own)).toEqual({ hosts: ["10.0.0.4"], cidrs: ["10.0.0.6/31"] });
});

test("allHostNets() of an own node that is not listed has all nodes", () => {
  expect(allHostNets({ nodes: [node2], ownNode: "node1", externalNodeCidrs: [] }).hosts).toEqual(["172.31.127.252"]);
});

test("allHostNets() splits in the upper half of the address space, too", () => {
  expect(seenFromNode1([], ["200.0.0.0/31"], node("node1", "200.0.0.1/24")).hosts).toEqual(["200.0.0.0"]);
});

test.each([
  ["10.0.0.1/24", "host bits set"],
  ["010.0.0.0/24", "not an IPv4 address"],
  ["10.0.0.0/33", "not an IPv4 address"],
  ["fd00::/64", "IPv6"],
])("allHostNets() refuses the external CIDR %s by name", (cidr, reason) => {
  expect(() => seenFromNode1([], [cidr])).toThrow(reason);
});
