import { beforeEach, describe, expect, test } from "@jest/globals";
import { freeingDelayMs, rank } from "../../../../src/ipam/blocks/orphans.ts";
import { PlayedCluster } from "../../../lib/played-cluster.ts";
import type { PlayedNode } from "../../../lib/played-node.ts";

const grace = 30_000;
const orphan = { cidr: "10.100.0.0/28", node: "gone", claimOrder: 0, instance: "gone" };

describe("rank()", () => {
  const nodes = Array.from({ length: 50 }, (_, index) => `node${index}`);

  test("gives each node a place of its own, the same seen from each, and others for other blocks", () => {
    const places = (cidr: string) => nodes.map((name) => rank(name, cidr, nodes));
    expect(places("10.0.0.0/26").toSorted((a, b) => a - b)).toEqual(Array.from(nodes.keys()));
    const firsts = Array.from({ length: 40 }, (_, index) => places(`10.0.${index}.0/26`).indexOf(0));
    expect(new Set(firsts).size).toBeGreaterThan(20);
  });

  test("leaves the order of the others when a node goes", () => {
    const order = (among: string[]) =>
      among.toSorted((a, b) => rank(a, "10.0.0.0/26", among) - rank(b, "10.0.0.0/26", among));
    const without = nodes.filter((name) => name !== "node7");
    expect(order(without)).toEqual(order(nodes).filter((name) => name !== "node7"));
  });
});

test("freeingDelayMs() is the grace period first, and leaves each next one more time", () => {
  expect([0, 1, 2, 3].map((place) => freeingDelayMs(place, grace))).toEqual([30_000, 60_000, 120_000, 210_000]);
});

describe("the blocks of a deleted node", () => {
  let cluster: PlayedCluster;
  let nodes: PlayedNode[];
  /** In the order in which they may free the block. */
  let first: PlayedNode;
  let second: PlayedNode;

  beforeEach(async () => {
    cluster = new PlayedCluster();
    cluster.datastore.addNode("node2");
    cluster.datastore.addNode("node3");
    cluster.writeBlock(orphan);
    const names = ["node1", "node2", "node3"];
    nodes = await Promise.all(names.map((name) => cluster.started({ name })));
    const inOrder = nodes.toSorted((a, b) => rank(a.name, orphan.cidr, names) - rank(b.name, orphan.cidr, names));
    [first, second] = inOrder as [PlayedNode, PlayedNode];
  });

  const isThere = () => cluster.datastore.blocks.has("10.100.0.0-28");

  test("are freed after the grace period, by one node alone", async () => {
    expect(first.nextMs).toBe(grace);
    expect(second.nextMs).toBe(2 * grace);
    for (const node of nodes) {
      await node.settle(grace - 1);
    }
    expect(isThere()).toBe(true);
    await second.settle(grace);
    expect(isThere()).toBe(true);
    await first.settle(grace);
    expect(isThere()).toBe(false);
  });

  test("are freed by the next one when the first is away", async () => {
    await second.settle(2 * grace);
    expect(isThere()).toBe(false);
  });

  test("are not waited for by a node that is out of service", async () => {
    cluster.datastore.addNode(first.name, { address: "172.31.0.99/16", outOfService: true });
    await second.settle(grace);
    expect(isThere()).toBe(false);
  });

  test("stay when the node is there again in time, and have their time again when it goes again", async () => {
    cluster.datastore.addNode("gone");
    await first.settle(grace - 1);
    cluster.datastore.nodes.delete("gone");
    await first.settle(grace);
    await first.settle(2 * grace - 1);
    expect(isThere()).toBe(true);
    await first.settle(2 * grace);
    expect(isThere()).toBe(false);
  });

  test("stay when the node is there again and the watch is late to tell", async () => {
    cluster.datastore.addNode("gone");
    await first.keep(grace);
    await first.keep(3 * grace);
    expect(isThere()).toBe(true);
  });

  test("stay when somebody claimed them meanwhile", async () => {
    cluster.writeBlock({ ...orphan, instance: "another" });
    await first.keep(grace);
    expect(isThere()).toBe(true);
  });

  test("stay while the node's document is there and wrong", async () => {
    cluster.datastore.addNode("gone", { address: "172.31.0.1/16" }); // node1's
    for (const node of nodes) {
      await node.settle(10 * grace);
      await node.settle(20 * grace);
    }
    expect(isThere()).toBe(true);
  });

  test("stay while the datastore is doubted", async () => {
    const conditions = [...first.cluster.conditions, { object: "datastore/nodes", message: "Cannot believe" }];
    first.cluster = { ...first.cluster, conditions };
    await first.keep(10 * grace);
    expect(isThere()).toBe(true);
  });

  test("are freed although another document that is set aside cannot be read", async () => {
    cluster.datastore.blocks.set("10.99.0.0-28", { cidr: "10.99.0.0/28", node: "gone" });
    const { cluster: before } = first;
    const conditions = [{ object: "block/10.98.0.0-28", message: "wrong" }, ...before.conditions];
    cluster.datastore.blocks.set("10.98.0.0-28", { cidr: 7 });
    first.cluster = { ...before, conditions };
    await first.keep(0);
    await first.keep(grace);
    expect(isThere()).toBe(false);
  });
});

describe("a block that is open here and not ours any more", () => {
  let cluster: PlayedCluster;
  let node: PlayedNode;
  let cidr: string;
  let name: string;

  beforeEach(async () => {
    cluster = new PlayedCluster();
    cluster.datastore.addNode("node2");
    cluster.writeBlock({ cidr: "10.100.0.240/28", node: "node1" }); // it would claim another one first
    node = await cluster.started();
    cidr = "10.100.0.240/28";
    name = "10.100.0.240-28";
  });

  test("is claimed again when nobody has it and pods are in it", async () => {
    const address = await node.add("c1");
    cluster.datastore.blocks.delete(name);
    await node.settle();
    expect(cluster.blocksOf("node1").map((block) => block.cidr)).toContain(cidr);
    expect((await node.leases.leaseAt(address))?.owner.containerId).toBe("c1");
    expect(node.problems).toEqual(new Map());
  });

  test("is a condition when its pool is gone too, and claimed again when that is back", async () => {
    await node.add("c1");
    const pool = cluster.datastore.pools.get("main");
    cluster.datastore.pools.clear();
    cluster.datastore.blocks.delete(name);
    await node.settle();
    expect(node.problems.get("blocks/lost")).toBe(
      `Cannot keep every block: "${cidr}" is in no pool and has 2 leases here, add the pool again or remove the pods`,
    );
    expect(cluster.datastore.blocks).toEqual(new Map());
    cluster.datastore.writePool(pool ?? { name: "", cidr: "" });
    await node.settle();
    expect(node.problems).toEqual(new Map());
    expect(cluster.blocksOf("node1").map((block) => block.cidr)).toContain(cidr);
  });

  test("is a condition when another node has it and pods are in it; nothing is given from it", async () => {
    await node.add("c1");
    cluster.writeBlock({ cidr, node: "node2", instance: "two" });
    await node.settle();
    expect(node.problems.get("blocks/lost")).toBe(
      `Cannot keep every block: "${cidr}" belongs to node "node2" and has 1 leases here, remove the pods of one`,
    );
    expect(node.published?.forPods).not.toContain(cidr);
    await node.del("c1");
    await node.settle();
    expect(node.problems).toEqual(new Map());
    expect(await node.leases.blocks()).not.toContain(cidr);
  });
});
