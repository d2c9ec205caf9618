import { expect, test } from "@jest/globals";
import { ownNode, tunnelMtu } from "../../../src/sync/own-node.ts";

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

test("tunnelMtu() is that of the link with the node's address, less the outer header", () => {
  const own = ownNode("node1", nodes, []);
  const links = [{ ...eth0, index: 3, name: "eth1", mtu: 9000 }, eth0];
  expect(own && tunnelMtu(own, links, [address])).toBe(1480);
});

test("tunnelMtu() names the address that no link carries", () => {
  const own = ownNode("node1", nodes, []);
  const elsewhere = { ...address, address: "192.0.2.1" };
  expect(() => own && tunnelMtu(own, [eth0], [elsewhere])).toThrow(
    'Cannot find the node\'s own address "172.31.112.2" on any link: correct the document of node "node1" or the link',
  );
});

test("tunnelMtu() is the most that the device takes when the address is on lo", () => {
  const own = ownNode("node1", nodes, []);
  const lo = { ...eth0, name: "lo", mtu: 65536, isLoopback: true };
  expect(own && tunnelMtu(own, [lo], [address])).toBe(65515);
});

test("tunnelMtu() names the link whose MTU leaves too little", () => {
  const own = ownNode("node1", nodes, []);
  expect(own && tunnelMtu(own, [{ ...eth0, mtu: 88 }], [address])).toBe(68);
  expect(() => own && tunnelMtu(own, [{ ...eth0, mtu: 87 }], [address])).toThrow(
    'Cannot tunnel over the link "eth0": its MTU is 87, allowed is 88 or more',
  );
});
