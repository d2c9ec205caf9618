/** A block keeper is killed before each access to its disk and to the datastore in turn; the next one heals what it left. */
import { expect, test } from "@jest/globals";
import { main, PlayedCluster } from "../../../lib/played-cluster.ts";
import type { PlayedNode } from "../../../lib/played-node.ts";

const hour = 3_600_000;

interface Scene {
  readonly cluster: PlayedCluster;
  readonly node: PlayedNode;
}

async function fill(node: PlayedNode, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    await node.add(`c${index}`);
  }
}

async function playing(change: (scene: Scene) => Promise<void> | void): Promise<Scene> {
  const cluster = new PlayedCluster();
  const scene = { cluster, node: await cluster.started() };
  await change(scene);
  scene.node.refresh();
  return scene;
}

/** What the keeper is about to do when it is killed. */
const scenes: Record<string, () => Promise<Scene>> = {
  async "claim its first block"() {
    const cluster = new PlayedCluster();
    const node = await cluster.start();
    node.refresh();
    return { cluster, node };
  },
  "claim the next block": () => playing(({ node }) => fill(node, 12)),
  "give a block back": () =>
    playing(async ({ node }) => {
      await fill(node, 12);
      await node.settle(0);
      for (let index = 0; index < 12; index++) {
        await node.del(`c${index}`);
      }
      await node.settle(0);
    }),
  "take its blocks over": () =>
    playing(async ({ node }) => {
      await fill(node, 12);
      await node.settle(0);
      await node.reinstall();
    }),
  "move the tunnel": () =>
    playing(({ cluster }) => {
      cluster.datastore.writePool({ name: "next", cidr: "10.101.0.0/24", blockSize: 28 });
      cluster.datastore.writePool({ ...main, disabled: true });
    }),
  "claim a lost block again": () =>
    playing(async ({ cluster, node }) => {
      await node.add("c1");
      cluster.datastore.blocks.clear();
    }),
  "free the block of a deleted node": () =>
    playing(async ({ cluster, node }) => {
      cluster.writeBlock({ cidr: "10.100.0.0/28", node: "gone" });
      await node.settle(0);
    }),
};

/** Until all that is quiet has gone. */
async function settleForGood(node: PlayedNode): Promise<void> {
  for (let hours = 1; hours <= 3; hours++) {
    await node.settle(hours * hour);
  }
}

/** The scene's end, when nobody is killed; instance ids are random. */
async function stateOf({ cluster, node }: Scene): Promise<object> {
  const leases = await node.leases.list();
  return {
    blocks: cluster
      .blocksOf("node1")
      .map(({ instance, ...block }) => ({ ...block, isOwn: instance === node.instance })),
    others: cluster.blocksOf("gone"),
    open: (await node.leases.blocks()).toSorted(),
    addresses: leases.map(({ address, owner }) => `${address} ${owner.containerId}`).toSorted(),
    tunnel: node.published?.tunnelLease?.address,
    problems: [...node.problems],
  };
}

test.each(Object.keys(scenes))(
  "whoever is killed when about to %s leaves nothing that the next one does not heal",
  async (name) => {
    const play = scenes[name] as () => Promise<Scene>;
    const undisturbed = await play();
    await settleForGood(undisturbed.node);
    const expected = await stateOf(undisturbed);
    let kills = 0;
    for (let isOver = false; !isOver; kills++) {
      const scene = await play();
      isOver = !(await scene.node.keepUntilKilled(kills, hour)).wasKilled;
      await settleForGood(scene.node);
      expect({ kills, ...(await stateOf(scene)) }).toEqual({ kills, ...expected });
    }
    expect(kills).toBeGreaterThan(2);
  },
);
