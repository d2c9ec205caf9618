import { beforeEach, describe, expect, test } from "@jest/globals";
import { containsAddress, parseAddress, parseCidr } from "../../../../src/cidr.ts";
import { candidates } from "../../../../src/ipam/blocks/candidates.ts";
import { PlayedCluster } from "../../../lib/played-cluster.ts";
import type { PlayedNode, PlayedNodeOptions } from "../../../lib/played-node.ts";

let cluster: PlayedCluster;

beforeEach(() => {
  cluster = new PlayedCluster();
});

async function fill(node: PlayedNode, count: number, prefix = "c"): Promise<string[]> {
  const addresses: string[] = [];
  for (let index = 0; index < count; index++) {
    addresses.push(await node.add(`${prefix}${index}`));
  }
  return addresses;
}

describe("claiming", () => {
  test("a node without blocks claims one, and its first address is the tunnel's", async () => {
    const node = await cluster.started();
    const [block] = cluster.blocksOf("node1");
    expect(cluster.blocksOf("node1")).toEqual([
      { cidr: expect.stringMatching(/^10\.100\.0\.\d+\/28$/), node: "node1", claimOrder: 0, instance: node.instance },
    ]);
    expect(node.published?.forPods).toEqual([block?.cidr]);
    expect(node.published?.tunnelLease?.address).toBe(block?.cidr.replace("/28", ""));
    expect(node.problems).toEqual(new Map());
  });

  test("the next block is claimed when a quarter of one is left, not before, and never two at once", async () => {
    const node = await cluster.started();
    await fill(node, 11); // with the tunnel's 12 of 16
    await node.settle();
    expect(cluster.blocksOf("node1")).toHaveLength(1);
    await node.add("one-more");
    await node.keep();
    await node.keep(); // the cluster does not show the claim yet
    expect(cluster.blocksOf("node1").map(({ claimOrder }) => claimOrder)).toEqual([0, 1]);
    await node.settle();
    expect(node.published?.forPods).toEqual(cluster.blocksOf("node1").map(({ cidr }) => cidr));
  });

  test("overflow goes on in the next block", async () => {
    const node = await cluster.started();
    await fill(node, 15);
    await node.settle();
    const [, next] = cluster.blocksOf("node1");
    expect(await node.add("next")).toBe(next?.cidr.replace("/28", ""));
  });

  test("a lost race leads to the next block without any error", async () => {
    cluster.datastore.addNode("node2");
    const node = await cluster.start();
    node.refresh();
    const [first] = allBlocksInOrder(node);
    cluster.datastore.blocks.set(String(first).replace("/", "-"), { cidr: first, node: "node2", instance: "other" });
    await node.keep();
    expect(cluster.blocksOf("node1")).toHaveLength(1);
    expect(cluster.blocksOf("node1")[0]?.cidr).not.toBe(first);
    expect(node.problems).toEqual(new Map());
  });

  test("reserved addresses are no supply", async () => {
    cluster.datastore.writePool({
      name: "main",
      cidr: "10.100.0.0/27",
      blockSize: 28,
      reservedCidrs: ["10.100.0.0/28"],
    });
    const node = await cluster.started();
    expect(node.published?.forPods).toEqual(["10.100.0.16/28"]);
    expect(node.problems).toEqual(new Map());
    cluster.datastore.writePool({
      name: "main",
      cidr: "10.100.0.0/27",
      blockSize: 28,
      reservedCidrs: ["10.100.0.16/29", "10.100.0.24/30", "10.100.0.31/32"],
    });
    await node.settle();
    expect(cluster.blocksOf("node1").map(({ cidr }) => cidr)).toEqual(["10.100.0.16/28", "10.100.0.0/28"]);
  });

  test("a pool without a free block is a condition that names it", async () => {
    cluster.datastore.writePool({ name: "main", cidr: "10.100.0.0/28", blockSize: 28 });
    const node = await cluster.started();
    await fill(node, 12);
    await node.settle();
    expect(node.problems.get("blocks/claim")).toBe(
      'Cannot claim a block for pods: every block of the pools "main" is taken or reserved, add a pool',
    );
    cluster.datastore.writePool({ name: "next", cidr: "10.101.0.0/28", blockSize: 28 });
    await node.settle();
    expect(node.problems).toEqual(new Map());
    expect(node.published?.forPods).toEqual(["10.100.0.0/28", "10.101.0.0/28"]);
  });

  test("no pool for the node is a condition that names the node", async () => {
    cluster.datastore.writePool({
      name: "main",
      cidr: "10.100.0.0/24",
      nodeSelector: { matchLabels: { zone: "a" }, matchExpressions: [] },
    });
    const node = await cluster.started();
    expect(node.problems.get("blocks/claim")).toBe(
      'Cannot claim a block for pods: no enabled pool with blocks of more than one address is for pods on node "node1", add a pool',
    );
    cluster.datastore.addNode("node1", { labels: { zone: "a" } });
    await node.settle();
    expect(node.problems).toEqual(new Map());
  });

  test("a node never has more blocks than it may", async () => {
    const node = await cluster.started({ ipam: { maxBlocksPerNode: 2 } });
    await fill(node, 13);
    await node.settle();
    await fill(node, 16, "more");
    await node.settle();
    expect(cluster.blocksOf("node1")).toHaveLength(2);
    expect(node.problems.get("blocks/claim")).toBe(
      'Cannot claim another block: node "node1" has 2, "ipam.maxBlocksPerNode" allows 2',
    );
  });

  test("a datastore that is away is a condition; what is held goes on", async () => {
    const node = await cluster.started();
    await fill(node, 12);
    cluster.datastore.isAway = true;
    await node.keep();
    expect(node.problems.get("blocks/claim")).toMatch(/^Cannot claim the block ".*": the datastore is away$/);
    await node.add("goes on");
    cluster.datastore.isAway = false;
    await node.settle();
    expect(node.problems).toEqual(new Map());
    expect(cluster.blocksOf("node1")).toHaveLength(2);
  });

  test("a node that the datastore does not know claims nothing and keeps what it has", async () => {
    const node = await cluster.started();
    cluster.datastore.nodes.delete("node1");
    await node.settle(1_000_000);
    expect(cluster.blocksOf("node1")).toHaveLength(1);
    await node.add("goes on");
  });

  test("eight nodes that start at once get a block each", async () => {
    const names = Array.from({ length: 8 }, (_, index) => `node${index + 1}`);
    for (const name of names.slice(1)) {
      cluster.datastore.addNode(name);
    }
    const nodes = await Promise.all(names.map((name) => cluster.start({ name })));
    for (const node of nodes) {
      node.refresh();
    }
    await Promise.all(nodes.map((node) => node.keep()));
    expect(names.map((name) => cluster.blocksOf(name).length)).toEqual(Array(8).fill(1));
  });
});

describe("giving back", () => {
  const hour = 3_600_000;

  /** A node with two empty blocks, whose addresses have all rested. */
  async function withSpare(options: Partial<PlayedNodeOptions> = {}): Promise<PlayedNode> {
    const node = await cluster.started(options);
    const containers = Array.from({ length: 12 }, (_, index) => `c${index}`);
    await fill(node, 12);
    await node.settle();
    for (const container of containers) {
      await node.del(container);
    }
    node.now = new Date(Date.now() + hour);
    return node;
  }

  test("an empty block goes back after the quiet period, and never the last one", async () => {
    const node = await withSpare();
    await node.settle(0);
    expect(node.nextMs).toBe(60_000);
    await node.settle(59_999);
    expect(cluster.blocksOf("node1")).toHaveLength(2);
    await node.settle(60_000);
    expect(cluster.blocksOf("node1").map(({ claimOrder }) => claimOrder)).toEqual([0]);
    await node.settle(hour);
    expect(cluster.blocksOf("node1")).toHaveLength(1);
    expect(await node.leases.blocks()).toEqual(cluster.blocksOf("node1").map(({ cidr }) => cidr));
  });

  test("the last block for pods stays, also when the tunnel has another", async () => {
    cluster.datastore.writePool({ name: "tunnels", cidr: "10.200.0.0/28", blockSize: 32, allowedUses: ["Tunnel"] });
    cluster.datastore.writePool({ name: "main", cidr: "10.100.0.0/24", blockSize: 28, allowedUses: ["Workload"] });
    const node = await cluster.started();
    const before = cluster.blocksOf("node1");
    expect(before).toHaveLength(2);
    await node.settle(0);
    await node.settle(hour);
    expect(cluster.blocksOf("node1")).toEqual(before);
  });

  test("a block that was in use meanwhile is quiet from then on", async () => {
    const node = await withSpare();
    const [, spare] = cluster.blocksOf("node1");
    await node.settle(0);
    await fill(node, 16);
    await node.settle(30_000);
    expect((await node.leases.taken(spare?.cidr ?? ""))?.size).toBe(1);
    await node.del("c15");
    await node.settle(60_000);
    expect(cluster.blocksOf("node1")).toHaveLength(2);
  });

  test("a block stays when the others have too little without it", async () => {
    const node = await withSpare();
    await fill(node, 8); // 7 of 16 are left in the first: less than a half
    await node.settle(0);
    await node.settle(hour);
    expect(cluster.blocksOf("node1")).toHaveLength(2);
    await node.del("c0");
    await node.settle(hour + 1);
    expect(cluster.blocksOf("node1")).toHaveLength(1);
  });

  test("an ADD that is faster than the closing keeps the block", async () => {
    const node = await withSpare();
    const [first, spare] = cluster.blocksOf("node1");
    await node.settle(0);
    node.published = { blocks: [], tunnelLease: undefined, forPods: [String(spare?.cidr)] };
    const address = await node.add("fast");
    await node.settle(hour);
    expect(cluster.blocksOf("node1")).toEqual([first, spare]);
    expect((await node.leases.leaseAt(address))?.block).toBe(spare?.cidr);
  });

  test("an ADD that names a block which was given back gets none of it", async () => {
    const node = await withSpare();
    const before = node.published;
    const [, spare] = cluster.blocksOf("node1");
    await node.settle(0);
    await node.settle(hour);
    node.published = before;
    const addresses = await fill(node, 15);
    expect(addresses.filter((address) => isIn(address, String(spare?.cidr)))).toEqual([]);
    await expect(node.add("too-many")).rejects.toThrow("no address is free");
  });

  test.each([
    ["disabled", { disabled: true }],
    ["for tunnels only", { allowedUses: ["Tunnel"] }],
  ] as const)("an empty block of a pool that is %s goes back, also the last one for pods", async (_, change) => {
    cluster.datastore.writePool({ name: "tunnels", cidr: "10.200.0.0/28", blockSize: 32, allowedUses: ["Tunnel"] });
    const node = await cluster.started();
    cluster.datastore.writePool({ name: "main", cidr: "10.100.0.0/24", blockSize: 28, allowedUses: ["Workload"] });
    await node.settle(0);
    expect(node.published?.tunnelLease?.address).toMatch(/^10\.200\.0\./);
    cluster.datastore.writePool({ name: "main", cidr: "10.100.0.0/24", blockSize: 28, ...change });
    await node.settle(1);
    await node.settle(hour);
    expect(cluster.blocksOf("node1").map(({ cidr }) => cidr)).toEqual([expect.stringMatching(/^10\.200\.0\./)]);
    expect(node.published?.forPods).toEqual([]);
  });

  test("blocks of movable addresses are neither supply nor claimed ahead", async () => {
    cluster.datastore.writePool({ name: "movable", cidr: "10.99.0.0/30", blockSize: 32 });
    cluster.datastore.blocks.set("10.99.0.1-32", { cidr: "10.99.0.1/32", node: "node1" });
    const node = await cluster.started();
    expect(node.published?.forPods).toEqual([expect.stringMatching(/^10\.100\.0\..*\/28$/)]);
    expect(cluster.blocksOf("node1")).toHaveLength(2);
  });

  test("the answer to giving back may be lost: what is open is ours, whatever became of it", async () => {
    const node = await withSpare();
    const [first, spare] = cluster.blocksOf("node1");
    await node.settle(0);
    for (let accesses = 0, isOver = false; !isOver; accesses++) {
      isOver = !(await node.keepUntilKilled(accesses, hour)).wasKilled;
    }
    await node.settle(0);
    const open = (await node.leases.blocks()).toSorted();
    expect(open).toEqual(
      cluster
        .blocksOf("node1")
        .map(({ cidr }) => cidr)
        .toSorted(),
    );
    expect(open).toContain(first?.cidr);
    expect(spare).toBeDefined();
  });
});

function isIn(address: string, cidr: string): boolean {
  return containsAddress(parseCidr(cidr), parseAddress(address));
}

/** In which order the node tries them. */
function allBlocksInOrder(node: PlayedNode): string[] {
  const own = node.cluster.nodes.get(node.name);
  return own ? [...candidates(own, "Workload", node.cluster)].map(({ cidr }) => cidr) : [];
}
