import { beforeEach, describe, expect, test } from "@jest/globals";
import type { PoolUse } from "../../../../src/datastore/documents.ts";
import { main, PlayedCluster } from "../../../lib/played-cluster.ts";
import type { PlayedNode } from "../../../lib/played-node.ts";

const hour = 3_600_000;

let cluster: PlayedCluster;

beforeEach(() => {
  cluster = new PlayedCluster();
});

function tunnelOf(node: PlayedNode): string | undefined {
  return node.published?.tunnelLease?.address;
}

test("the tunnel's address stays the same over restarts and when blocks come and go", async () => {
  const node = await cluster.started();
  const address = tunnelOf(node);
  cluster.writeBlock({ cidr: "10.100.0.0/28", node: "node1", claimOrder: 0 });
  await node.settle();
  await node.restart();
  await node.settle();
  expect(tunnelOf(node)).toBe(address);
});

test("the tunnel gets another address when a pod has had the first one since before", async () => {
  cluster.writeBlock({ cidr: "10.100.0.16/28", node: "node1" });
  const node = await cluster.start();
  await node.leases.openBlock("10.100.0.16/28");
  const pod = { network: "pods", containerId: "old", interfaceName: "eth0" };
  await node.leases.reserveAddress(pod, "10.100.0.16/28", "10.100.0.16", new Date());
  await node.settle();
  expect(tunnelOf(node)).toBe("10.100.0.17");
  expect((await node.leases.leaseAt("10.100.0.16"))?.owner).toEqual(pod);
});

test("the tunnel gets no reserved address", async () => {
  cluster.datastore.writePool({ ...main, reservedCidrs: ["10.100.0.16/31"] });
  cluster.writeBlock({ cidr: "10.100.0.16/28", node: "node1" });
  const node = await cluster.started();
  expect(tunnelOf(node)).toBe("10.100.0.18");
});

test("no pool for tunnels means no address, and no condition", async () => {
  cluster.datastore.writePool({ ...main, allowedUses: ["Workload"] });
  const node = await cluster.started();
  expect(node.published).toMatchObject({ forPods: [expect.anything()], tunnelLease: undefined });
  expect(node.problems).toEqual(new Map());
});

test("the tunnel has a block of its own where pods have none for it", async () => {
  cluster.datastore.writePool({ ...main, allowedUses: ["Workload"] });
  cluster.datastore.writePool({ name: "tunnels", cidr: "10.200.0.0/28", blockSize: 32, allowedUses: ["Tunnel"] });
  const node = await cluster.started();
  const [forPods, forTunnel] = cluster.blocksOf("node1").map(({ cidr }) => cidr);
  expect(node.published?.forPods).toEqual([forPods]);
  expect(`${tunnelOf(node)}/32`).toBe(forTunnel);
});

describe("when its pool goes", () => {
  const gone: [string, (uses?: PoolUse[]) => void][] = [
    ["disabled", () => cluster.datastore.writePool({ ...main, disabled: true })],
    ["removed", () => void cluster.datastore.pools.delete("main")],
    ["not for tunnels any more", () => cluster.datastore.writePool({ ...main, allowedUses: ["Workload"] })],
  ];

  beforeEach(() => {
    cluster.datastore.writePool({ name: "next", cidr: "10.101.0.0/24", blockSize: 28 });
  });

  test.each(gone)("because it is %s, the tunnel moves", async (_, go) => {
    const node = await cluster.started();
    expect(tunnelOf(node)).toMatch(/^10\.100\./);
    go();
    await node.settle(0);
    expect(tunnelOf(node)).toMatch(/^10\.101\./);
    expect((await node.leases.list()).map(({ address }) => address)).toEqual([tunnelOf(node)]);
    expect(node.problems).toEqual(new Map());
  });

  test.each(gone)("because it is %s, the tunnel stays as long as pods are in its block", async (_, go) => {
    const node = await cluster.started();
    await node.add("c1");
    const address = tunnelOf(node);
    go();
    await node.settle(0);
    await node.settle(hour);
    expect(tunnelOf(node)).toBe(address);
    await node.del("c1");
    await node.settle(hour);
    expect(tunnelOf(node)).toMatch(/^10\.101\./);
  });

  test("and there is no other, the tunnel stays, and its block with it", async () => {
    cluster.datastore.pools.delete("next");
    const node = await cluster.started();
    const lease = node.published?.tunnelLease;
    cluster.datastore.writePool({ ...main, disabled: true });
    await node.settle(0);
    await node.settle(hour);
    expect(node.published?.tunnelLease).toBe(lease); // never released
    expect(cluster.blocksOf("node1")).toHaveLength(1);
  });

  test("and the other is full, the tunnel stays", async () => {
    cluster.datastore.writePool({ name: "next", cidr: "10.101.0.0/28", blockSize: 28 });
    cluster.datastore.addNode("node2");
    cluster.writeBlock({ cidr: "10.101.0.0/28", node: "node2" });
    const node = await cluster.started();
    const address = tunnelOf(node);
    cluster.datastore.writePool({ ...main, disabled: true });
    await node.settle(0);
    expect(tunnelOf(node)).toBe(address);
    expect(node.problems.get("blocks/claim")).toMatch(/every block of the pools "next" is taken or reserved/);
  });
});
