/**
 * Nodes of one cluster do at random what nodes do, and are killed, deleted, installed anew and told late. Whatever comes:
 * no address has two owners, no block has two nodes, and none is lost.
 */
import { expect, jest, test } from "@jest/globals";
import { type Block, blockName, type Pool } from "../../../../src/datastore/documents.ts";
import { PlayedDatastore, PlayedNode } from "../../../lib/played-node.ts";
import { Random } from "../../datastore/random.ts";

jest.setTimeout(120_000);

const steps = 12_000;
const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
const nodeNames = ["node1", "node2", "node3", "node4", "node5"];
const graceMs = 30_000;
const pools: readonly (Partial<Pool> & Pick<Pool, "name" | "cidr">)[] = [
  { name: "main", cidr: "10.100.0.0/25", blockSize: 29 },
  { name: "second", cidr: "10.101.0.0/26", blockSize: 28, reservedCidrs: ["10.101.0.0/28", "10.101.0.16/30"] },
  { name: "tunnels", cidr: "10.102.0.0/29", blockSize: 32, allowedUses: ["Tunnel"] },
];

class Model {
  readonly #random: Random;
  readonly datastore = new PlayedDatastore();
  readonly nodes = new Map<string, PlayedNode>();
  /** By node: the containers that have an address. */
  readonly #containers = new Map<string, Set<string>>();
  #nowMs = 0;
  #count = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  async begin(): Promise<void> {
    for (const pool of pools) {
      this.datastore.writePool(pool);
    }
    for (const name of nodeNames) {
      await this.#install(name);
    }
  }

  async step(): Promise<string> {
    const action = this.#random.pick(this.#actions);
    const node = this.#random.pick([...this.nodes.values()]);
    await action.run(node);
    return `${action.name} ${node.name}`;
  }

  readonly #actions = [
    { weight: 30, name: "keep", run: (node: PlayedNode) => node.keep(this.#nowMs) },
    { weight: 12, name: "refresh and keep", run: (node: PlayedNode) => this.#refreshAndKeep(node) },
    { weight: 8, name: "race", run: () => this.#race() },
    { weight: 30, name: "add", run: (node: PlayedNode) => this.#add(node) },
    { weight: 22, name: "del", run: (node: PlayedNode) => this.#del(node) },
    { weight: 4, name: "add while keeping", run: (node: PlayedNode) => this.#addWhileKeeping(node) },
    { weight: 6, name: "kill", run: (node: PlayedNode) => this.#kill(node) },
    { weight: 6, name: "let time pass", run: () => this.#letTimePass() },
    { weight: 2, name: "away", run: (node: PlayedNode) => this.#away(node) },
    { weight: 2, name: "change a pool", run: () => this.#changePool() },
    { weight: 1, name: "delete for good", run: (node: PlayedNode) => this.#delete(node) },
    { weight: 1, name: "delete by mistake", run: (node: PlayedNode) => this.#deleteByMistake(node) },
    { weight: 1, name: "install anew", run: (node: PlayedNode) => this.#reinstall(node) },
    { weight: 1, name: "new node", run: () => this.#newNode() },
  ].flatMap(({ weight, ...action }) => Array<typeof action>(weight).fill(action));

  /** @returns what is wrong, in words: expect() would take most of the time */
  async check(): Promise<string[]> {
    const owners = new Map<string, string>();
    const wrong: string[] = [];
    const give = (what: string, owner: string) => {
      if (owners.has(what)) {
        wrong.push(`${what} belongs to ${owners.get(what)} and to ${owner}`);
      }
      owners.set(what, owner);
    };
    for (const { name, leases } of this.nodes.values()) {
      for (const block of await leases.blocks()) {
        give(`block ${block}`, name);
      }
      const pods = new Set<string>();
      for (const { address, block, owner } of await leases.list()) {
        give(`address ${address}`, name);
        pods.add(owner.containerId);
        const holder = (this.datastore.blocks.get(blockName(block)) as Block | undefined)?.node;
        if (holder !== name) {
          wrong.push(`address ${address} of ${name} is in ${block} of ${holder}`);
        }
      }
      const lost = [...(this.#containers.get(name) ?? [])].filter((container) => !pods.has(container));
      wrong.push(...lost.map((container) => `${container} has lost its address on ${name}`));
    }
    return wrong;
  }

  /** All pods end, everything becomes quiet: what is left is what a quiet cluster has. */
  async end(): Promise<void> {
    this.datastore.isAway = false;
    for (const pool of pools) {
      this.datastore.writePool(pool);
    }
    for (const [name, containers] of this.#containers) {
      for (const container of containers) {
        await this.nodes.get(name)?.del(container);
      }
    }
    for (let round = 0; round < 30; round++) {
      this.#nowMs += 20 * graceMs;
      for (const node of this.nodes.values()) {
        await node.settle(this.#nowMs);
      }
    }
    const claimed = [...this.datastore.blocks.values()] as Block[];
    const open: string[] = [];
    for (const { name, leases, published, problems } of this.nodes.values()) {
      expect([name, ...problems]).toEqual([name]);
      expect([name, published?.forPods.length]).toEqual([name, 1]);
      expect((await leases.list()).map(({ address }) => address)).toEqual([published?.tunnelLease?.address]);
      open.push(...(await leases.blocks()));
    }
    expect(claimed.map(({ cidr }) => cidr).toSorted()).toEqual(open.toSorted());
  }

  async #letTimePass(): Promise<void> {
    this.#nowMs += this.#random.below(2 * graceMs);
  }

  async #refreshAndKeep(node: PlayedNode): Promise<void> {
    node.refresh();
    await node.keep(this.#nowMs);
  }

  async #race(): Promise<void> {
    await Promise.all([...this.nodes.values()].map((node) => node.keep(this.#nowMs)));
  }

  async #add(node: PlayedNode): Promise<void> {
    const container = `c${this.#count++}`;
    try {
      await node.add(container);
      this.#containers.get(node.name)?.add(container);
    } catch (error) {
      expect((error as Error).message).toMatch(/no address is free|sync has (not )?opened|open/);
    }
  }

  async #del(node: PlayedNode): Promise<void> {
    const containers = [...(this.#containers.get(node.name) ?? [])];
    // All of them at times, so that blocks become empty.
    const ending = this.#random.oneIn(8) ? containers : containers.slice(0, 1 + this.#random.below(2));
    for (const container of ending) {
      await node.del(container);
      this.#containers.get(node.name)?.delete(container);
    }
  }

  async #addWhileKeeping(node: PlayedNode): Promise<void> {
    await Promise.all([this.#add(node), node.keep(this.#nowMs), this.#add(node)]);
  }

  async #kill(node: PlayedNode): Promise<void> {
    await node.keepUntilKilled(this.#random.below(20), this.#nowMs);
  }

  async #away(node: PlayedNode): Promise<void> {
    this.datastore.isAway = true;
    await node.keep(this.#nowMs);
    this.datastore.isAway = false;
  }

  async #changePool(): Promise<void> {
    const pool = this.#random.pick(pools);
    switch (this.#random.below(4)) {
      case 0:
        this.datastore.pools.delete(pool.name);
        break;
      case 1:
        this.datastore.writePool({ ...pool, disabled: true });
        break;
      default:
        this.datastore.writePool(pool);
    }
  }

  /** The machine is gone with its pods. */
  async #delete(node: PlayedNode): Promise<void> {
    if (this.nodes.size > 2) {
      this.datastore.nodes.delete(node.name);
      this.nodes.delete(node.name);
      this.#containers.delete(node.name);
    }
  }

  /** The document is back before anybody may believe in it. */
  async #deleteByMistake(node: PlayedNode): Promise<void> {
    const document = this.datastore.nodes.get(node.name);
    this.datastore.nodes.delete(node.name);
    for (const each of this.nodes.values()) {
      each.refresh();
      await each.keep(this.#nowMs);
    }
    this.#nowMs += graceMs - 1;
    await this.#race();
    this.datastore.addNode(node.name, document);
    for (const each of this.nodes.values()) {
      each.refresh();
      await each.keep(this.#nowMs);
    }
  }

  async #reinstall(node: PlayedNode): Promise<void> {
    this.#containers.get(node.name)?.clear();
    await node.reinstall();
  }

  async #newNode(): Promise<void> {
    const name = nodeNames.find((each) => !this.nodes.has(each));
    if (name !== undefined) {
      await this.#install(name);
    }
  }

  async #install(name: string): Promise<void> {
    this.datastore.addNode(name, { address: `172.31.0.${nodeNames.indexOf(name) + 1}/16` });
    const pause = async () => {
      for (let count = this.#random.below(3); count > 0; count--) {
        await Promise.resolve();
      }
    };
    this.nodes.set(name, await PlayedNode.start({ name, datastore: this.datastore, pause }));
    this.#containers.set(name, new Set());
  }
}

test(`no address has two owners and none is lost, in ${steps} random steps of several nodes (SEED=${seed})`, async () => {
  const model = new Model(new Random(seed));
  await model.begin();
  const story: string[] = [];
  for (let count = 0; count < steps; count++) {
    story.push(await model.step());
    const wrong = await model.check();
    if (wrong.length > 0) {
      throw new Error(`Step ${count} with SEED=${seed}: ${wrong.join("; ")} after ${story.slice(-12).join(", ")}`);
    }
  }
  await model.end();
});
