/** Pods that live on a node whose disk has lost their leases. */
import { beforeEach, expect, test } from "@jest/globals";
import { parseDocument } from "../../../../src/datastore/documents.ts";
import { HeldBlocks } from "../../../../src/ipam/blocks/held-blocks.ts";
import type { LeaseOwner, LivePod } from "../../../../src/ipam/lease-store.ts";
import { MemoryLeases } from "../../../../src/ipam/memory-leases.ts";

const pool = parseDocument("pool", "main", { name: "main", cidr: "10.100.0.0/24", blockSize: 29 });
const node = { name: "node1", address: "172.31.0.1/16" };

let store: MemoryLeases;
let pods: LivePod[];
let looks: number;
let held: HeldBlocks;

beforeEach(() => {
  store = new MemoryLeases();
  pods = [];
  looks = 0;
  held = new HeldBlocks({
    nodeName: "node1",
    instance: "one",
    isReinstalled: false,
    store,
    livePods: async () => {
      looks += 1;
      return pods;
    },
    onRecovery: () => {},
  });
});

function hold(...cidrs: string[]): ReturnType<HeldBlocks["hold"]> {
  const blocks = cidrs.map((cidr) => [cidr.replaceAll(/[./]/g, "-"), { cidr, node: "node1" }] as const);
  return held.hold({ nodes: new Map([["node1", node]]), pools: new Map([["main", pool]]), blocks: new Map(blocks) });
}

function owner(containerId: string): LeaseOwner {
  return { network: "pods", containerId, interfaceName: "eth0" };
}

test("they have their leases again as soon as the block is open, before the tunnel gets one", async () => {
  pods = [
    { owner: { ...owner("a"), namespace: "shop", pod: "web" }, address: "10.100.0.0" },
    { owner: owner("b"), address: "10.100.0.7" },
  ];
  const holdings = await hold("10.100.0.0/29");
  expect((await store.leaseAt("10.100.0.0"))?.owner).toEqual(pods[0]?.owner);
  expect((await store.leaseOf(owner("b")))?.address).toBe("10.100.0.7");
  expect(holdings?.tunnelLease?.address).toBe("10.100.0.1");
});

test("an address that is in none of the node's blocks is not ours", async () => {
  pods = [
    { owner: owner("a"), address: "10.100.0.8" },
    { owner: owner("b"), address: "192.168.0.1" },
  ];
  await hold("10.100.0.0/29");
  expect((await store.list()).map(({ owner: { containerId } }) => containerId)).toEqual(["node"]);
});

test("of two pods with one address the first has the lease, and who has another lease keeps that", async () => {
  pods = [
    { owner: owner("a"), address: "10.100.0.3" },
    { owner: owner("b"), address: "10.100.0.3" },
    { owner: owner("a"), address: "10.100.0.4" },
  ];
  await hold("10.100.0.0/29");
  expect((await store.leaseAt("10.100.0.3"))?.owner).toEqual(owner("a"));
  expect(await store.leaseAt("10.100.0.4")).toBeUndefined();
  expect(await store.leaseOf(owner("b"))).toBeUndefined();
});

test("the kernel is asked at the start and when a block has to be opened, and at no other time", async () => {
  await hold("10.100.0.0/29");
  await hold("10.100.0.0/29");
  expect(looks).toBe(1);
  pods = [{ owner: owner("a"), address: "10.100.0.8" }];
  await hold("10.100.0.0/29", "10.100.0.8/29");
  expect(looks).toBe(2);
  expect((await store.leaseOf(owner("a")))?.block).toBe("10.100.0.8/29");
});
