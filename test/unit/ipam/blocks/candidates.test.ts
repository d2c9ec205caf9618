import { expect, test } from "@jest/globals";
import { type Block, blockName, type Node, type Pool, parseDocument } from "../../../../src/datastore/documents.ts";
import { candidates } from "../../../../src/ipam/blocks/candidates.ts";

const node: Node = { name: "node1", address: "172.31.112.2/20", labels: { zone: "a" } };

function pool(name: string, cidr: string, more: object = {}): Pool {
  return parseDocument("pool", name, { name, cidr, ...more });
}

function byName(pools: readonly Pool[]): Map<string, Pool> {
  return new Map(pools.map((each) => [each.name, each]));
}

function taken(...cidrs: string[]): Map<string, Block> {
  return new Map(cidrs.map((cidr) => [blockName(cidr), { cidr, node: "node2" }]));
}

function blocksFor(pools: readonly Pool[], blocks = taken(), of = node): string[] {
  return [...candidates(of, "Workload", { pools: byName(pools), blocks })].map(({ cidr }) => cidr);
}

test("candidates() are every block of a pool, once", () => {
  const found = blocksFor([pool("main", "10.100.0.0/24")]);
  expect(found.toSorted()).toEqual(["10.100.0.0/26", "10.100.0.128/26", "10.100.0.192/26", "10.100.0.64/26"]);
});

test("candidates() of a pool that is one block are that one", () => {
  expect(blocksFor([pool("main", "10.100.0.64/26")])).toEqual(["10.100.0.64/26"]);
});

test("candidates() reach the last address there is", () => {
  const found = blocksFor([pool("main", "255.255.0.0/17", { blockSize: 20 })]);
  expect(found).toHaveLength(8);
  expect(found).toContain("255.255.112.0/20");
});

test.each([
  ["a disabled pool", { disabled: true }],
  ["a pool for tunnels only", { allowedUses: ["Tunnel"] }],
  ["a pool for other nodes", { nodeSelector: { matchLabels: { zone: "b" } } }],
  ["a pool of movable addresses", { blockSize: 32 }],
])("candidates() leave out %s", (_, more) => {
  const pools = [pool("first", "10.0.0.0/26", more), pool("second", "10.100.0.0/26")];
  expect(blocksFor(pools)).toEqual(["10.100.0.0/26"]);
});

test("candidates() come pool after pool by name, also for a node without labels", () => {
  const pools = [pool("b", "10.2.0.0/26"), pool("a", "10.3.0.0/26"), pool("A", "10.1.0.0/26")];
  const found = blocksFor(pools, taken(), { name: "node1", address: "172.31.112.2/20" });
  expect(found).toEqual(["10.1.0.0/26", "10.3.0.0/26", "10.2.0.0/26"]);
});

test("candidates() for the tunnel come from pools for tunnels, also of single addresses", () => {
  const pools = byName([
    pool("pods", "10.1.0.0/26", { allowedUses: ["Workload"] }),
    pool("tunnels", "10.2.0.0/31", { allowedUses: ["Tunnel"], blockSize: 32 }),
    pool("movable", "10.3.0.0/31", { blockSize: 32 }),
  ]);
  const found = [...candidates(node, "Tunnel", { pools, blocks: taken() })];
  expect(found.map(({ cidr }) => cidr).toSorted()).toEqual(["10.2.0.0/32", "10.2.0.1/32"]);
});

test("candidates() leave out blocks that somebody has and blocks that are wholly reserved", () => {
  const reservedCidrs = ["10.100.0.64/26", "10.100.0.128/32", "10.100.1.0/24"];
  const found = blocksFor([pool("main", "10.100.0.0/23", { reservedCidrs })], taken("10.100.0.0/26"));
  expect(found.toSorted()).toEqual(["10.100.0.128/26", "10.100.0.192/26"]);
});

test("a node tries the same blocks in the same order every time, and two nodes begin at different ones", () => {
  const pools = [pool("main", "10.100.0.0/16")];
  const first = (name: string) => blocksFor(pools, taken(), { ...node, name })[0];
  expect(first("node1")).toBe(first("node1"));
  const firsts = new Set(Array.from({ length: 100 }, (_, index) => first(`node${index}`)));
  // Of 1,024 blocks 100 nodes that choose at random begin at 95 different ones.
  expect(firsts.size).toBeGreaterThan(85);
});

test("the first of millions of blocks costs no list of them", () => {
  const pools = byName([pool("main", "10.0.0.0/8", { blockSize: 31 })]);
  const start = performance.now();
  for (let count = 0; count < 100; count++) {
    candidates({ ...node, name: `node${count}` }, "Workload", { pools, blocks: taken() }).next();
  }
  expect(performance.now() - start).toBeLessThan(1000);
});
