/** Which installation of a node has its blocks: a new one, the same again, or two at once. */
import { beforeEach, expect, test } from "@jest/globals";
import { PlayedCluster } from "../../../lib/played-cluster.ts";

let cluster: PlayedCluster;

beforeEach(() => {
  cluster = new PlayedCluster();
});

test("a node that is installed anew has the same blocks in the same order, and the same tunnel address", async () => {
  const node = await cluster.started();
  for (let index = 0; index < 14; index++) {
    await node.add(`c${index}`);
  }
  await node.settle();
  const [blocks, tunnelAddress] = [cluster.blocksOf("node1"), node.published?.tunnelLease?.address];
  expect(blocks).toHaveLength(2);
  await node.reinstall();
  await node.settle();
  expect(cluster.blocksOf("node1")).toEqual(blocks.map((block) => ({ ...block, instance: node.instance })));
  expect(node.published?.tunnelLease?.address).toBe(tunnelAddress);
  expect(node.problems).toEqual(new Map());
});

test("a node that is installed anew holds nothing before all of its blocks are taken over", async () => {
  cluster.writeBlock({ cidr: "10.100.0.0/28", node: "node1", claimOrder: 0, instance: "former" });
  cluster.writeBlock({ cidr: "10.100.0.16/28", node: "node1", claimOrder: 1, instance: "former" });
  const node = await cluster.start();
  node.refresh();
  cluster.datastore.isAway = true;
  await node.keep();
  expect([node.published, await node.leases.blocks()]).toEqual([undefined, []]);
  expect(node.problems.get("blocks/instance")).toMatch(/^Cannot replace the block/);
  cluster.datastore.isAway = false;
  await node.settle();
  expect(node.published?.forPods).toEqual(["10.100.0.0/28", "10.100.0.16/28"]);
});

test("a block that was written by hand is used, and signed, with a place in the order", async () => {
  cluster.writeBlock({ cidr: "10.100.0.32/28", node: "node1" });
  cluster.writeBlock({ cidr: "10.100.0.16/28", node: "node1" });
  const node = await cluster.started();
  expect(cluster.blocksOf("node1")).toEqual([
    { cidr: "10.100.0.16/28", node: "node1", claimOrder: 0, instance: node.instance },
    { cidr: "10.100.0.32/28", node: "node1", claimOrder: 1, instance: node.instance },
  ]);
  expect(node.published?.tunnelLease?.address).toBe("10.100.0.16");
});

test("blocks that were written by hand are used as they are where the datastore cannot be written", async () => {
  cluster.writeBlock({ cidr: "10.100.0.16/28", node: "node1" });
  const node = await cluster.start();
  node.refresh();
  cluster.datastore.isAway = true;
  await node.keep();
  expect(node.published?.forPods).toEqual(["10.100.0.16/28"]);
  expect(node.problems).toEqual(new Map());
  expect(await node.add("c1")).toBe("10.100.0.17");
});

test("two machines with one name are a condition on the one that was there first, which fights for nothing", async () => {
  const first = await cluster.started();
  const address = await first.add("c1");
  const [block] = cluster.blocksOf("node1");
  const second = await cluster.started();
  expect(cluster.blocksOf("node1")).toEqual([{ ...block, instance: second.instance }]);
  await first.settle();
  expect(first.problems.get("blocks/instance")).toBe(
    `Cannot use the block "${block?.cidr}": two machines use the node name "node1", the instance "${second.instance}" has claimed it and this one is "${first.instance}"; give one of them another name, or remove the field "instance" from the block when the other machine is gone`,
  );
  expect(cluster.blocksOf("node1")).toContainEqual({ ...block, instance: second.instance });
  expect(first.published?.forPods).not.toContain(block?.cidr);
  expect((await first.leases.leaseAt(address))?.owner.containerId).toBe("c1");
  await first.restart();
  await first.settle();
  expect(cluster.blocksOf("node1")).toContainEqual({ ...block, instance: second.instance });
});

test("the former machine has its block again when the operator says that the other is gone", async () => {
  const first = await cluster.started();
  await first.add("c1");
  const [block] = cluster.blocksOf("node1");
  await cluster.started();
  await first.settle();
  const { instance, ...bare } = block ?? { cidr: "", node: "" };
  expect(instance).toBe(first.instance);
  cluster.writeBlock(bare);
  await first.settle();
  expect(first.problems).toEqual(new Map());
  expect(first.published?.forPods).toContain(block?.cidr);
});
