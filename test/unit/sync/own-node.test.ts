import { expect, test } from "@jest/globals";
import { type Block, blockName, parseDocument } from "../../../src/datastore/documents.ts";
import { ownNode, tunnelMtu, uplinkOf } from "../../../src/sync/own-node.ts";

const eth0 = { index: 2, name: "eth0", type: 1, mtu: 1500, up: true, isLoopback: false };
const address = { linkIndex: 2, address: "172.31.112.2", prefixLength: 20, scope: 0 };

const pool = parseDocument("pool", "main", { name: "main", cidr: "10.100.0.0/16" });
const own = { node: { name: "node1", address: "172.31.112.2/20" } };

function clusterOf(...blocks: Block[]) {
  return {
    nodes: new Map([["node1", own.node]]),
    pools: new Map([["main", pool]]),
    blocks: new Map(blocks.map((block) => [blockName(block.cidr), block])),
  };
}

test("ownNode() has its blocks in the order they were claimed, and those of no other node", () => {
  const cluster = clusterOf(
    { cidr: "10.100.1.0/26", node: "node1", claimOrder: 2 },
    { cidr: "10.100.9.0/26", node: "node1", claimOrder: 1 },
    { cidr: "10.100.0.0/26", node: "node2", claimOrder: 0 },
  );
  expect(ownNode("node1", cluster)?.blocks.map(({ cidr }) => cidr)).toEqual(["10.100.9.0/26", "10.100.1.0/26"]);
});

test("ownNode() has the lowest block first when nobody said which came first", () => {
  const cluster = clusterOf({ cidr: "10.100.15.128/26", node: "node1" }, { cidr: "10.100.9.192/26", node: "node1" });
  expect(ownNode("node1", cluster)?.blocks.map(({ cidr }) => cidr)).toEqual(["10.100.9.192/26", "10.100.15.128/26"]);
});

test("ownNode() is undefined without a document", () => {
  expect(ownNode("node1", clusterOf())).toEqual({ ...own, blocks: [] });
  expect(ownNode("node9", clusterOf())).toBeUndefined();
});

test("uplinkOf() is the link with the node's address, whatever prefix length that has there", () => {
  const links = [{ ...eth0, index: 3, name: "eth1", mtu: 9000 }, eth0];
  expect(uplinkOf(own, links, [{ ...address, prefixLength: 32 }])).toBe(eth0);
});

test("uplinkOf() names the address that no link carries", () => {
  const elsewhere = { ...address, address: "192.0.2.1" };
  expect(() => uplinkOf(own, [eth0], [elsewhere])).toThrow(
    'Cannot find the node\'s own address "172.31.112.2" on any link: correct the document of node "node1" or the link',
  );
});

test("tunnelMtu() is that of the uplink, less the outer header, and the most that the device takes on lo", () => {
  expect(tunnelMtu(eth0)).toBe(1480);
  expect(tunnelMtu({ ...eth0, name: "lo", mtu: 65536, isLoopback: true })).toBe(65515);
});

test("tunnelMtu() names the link whose MTU leaves too little", () => {
  expect(tunnelMtu({ ...eth0, mtu: 88 })).toBe(68);
  expect(() => tunnelMtu({ ...eth0, mtu: 87 })).toThrow(
    'Cannot tunnel over the link "eth0": its MTU is 87, allowed is 88 or more',
  );
});
