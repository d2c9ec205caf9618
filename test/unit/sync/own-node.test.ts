import { expect, test } from "@jest/globals";
import { ownNode, tunnelMtu, uplinkOf } from "../../../src/sync/own-node.ts";

const nodes = new Map([["node1", { name: "node1", address: "172.31.112.2/20" }]]);
const eth0 = { index: 2, name: "eth0", type: 1, mtu: 1500, up: true, isLoopback: false };
const address = { linkIndex: 2, address: "172.31.112.2", prefixLength: 20, scope: 0 };

test("ownNode() takes the tunnel address from the block that was claimed first", () => {
  const blocks = [
    { cidr: "10.100.1.0/26", node: "node1", claimOrder: 2 },
    { cidr: "10.100.9.0/26", node: "node1", claimOrder: 1 },
    { cidr: "10.100.0.0/26", node: "node2", claimOrder: 0 },
  ];
  expect(ownNode("node1", nodes, blocks)).toMatchObject({
    tunnelAddress: "10.100.9.0",
    blocks: [{ cidr: "10.100.9.0/26" }, { cidr: "10.100.1.0/26" }],
  });
});

test("ownNode() takes the lowest block when nobody said which came first", () => {
  const blocks = [
    { cidr: "10.100.15.128/26", node: "node1" },
    { cidr: "10.100.9.192/26", node: "node1" },
  ];
  expect(ownNode("node1", nodes, blocks)?.tunnelAddress).toBe("10.100.9.192");
});

test("ownNode() has no tunnel address without a block, and is undefined without a document", () => {
  expect(ownNode("node1", nodes, [])).toMatchObject({ tunnelAddress: undefined, blocks: [] });
  expect(ownNode("node9", nodes, [])).toBeUndefined();
});

test("uplinkOf() is the link with the node's address, whatever prefix length that has there", () => {
  const own = ownNode("node1", nodes, []);
  const links = [{ ...eth0, index: 3, name: "eth1", mtu: 9000 }, eth0];
  expect(own && uplinkOf(own, links, [{ ...address, prefixLength: 32 }])).toBe(eth0);
});

test("uplinkOf() names the address that no link carries", () => {
  const own = ownNode("node1", nodes, []);
  const elsewhere = { ...address, address: "192.0.2.1" };
  expect(() => own && uplinkOf(own, [eth0], [elsewhere])).toThrow(
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
