/** A node without kernel and disk: its block keeper, its leases and its plugin, in one process with those of other nodes. */
import { randomUUID } from "node:crypto";
import { assess } from "../../src/datastore/assess.ts";
import { type Cluster, type Document, emptyCluster } from "../../src/datastore/cluster.ts";
import {
  type DocumentKinds,
  type Kind,
  type Node,
  type Pool as PoolDocument,
  parseDocument,
} from "../../src/datastore/documents.ts";
import { HeldBlocks, type Holdings } from "../../src/ipam/blocks/held-blocks.ts";
import type { LeaseOwner, LeaseStore } from "../../src/ipam/lease-store.ts";
import { MemoryLeases } from "../../src/ipam/memory-leases.ts";
import { Pool } from "../../src/ipam/pool.ts";
import { BlockKeeper } from "../../src/sync/block-keeper.ts";
import { doubtsOf } from "../../src/sync/doubts.ts";
import { MemoryClaims } from "./memory-claims.ts";

/** What operators and nodes have written. */
export class PlayedDatastore {
  readonly nodes = new Map<string, Node>();
  readonly pools = new Map<string, PoolDocument>();
  readonly blocks = new Map<string, unknown>();
  isAway = false;

  addNode(name: string, more: Partial<Node> = {}): void {
    this.nodes.set(name, { name, address: `172.31.0.${this.nodes.size + 1}/16`, ...more });
  }

  /** What is left out has its default. */
  writePool(pool: Partial<PoolDocument> & Pick<PoolDocument, "name" | "cidr">): void {
    this.pools.set(pool.name, parseDocument("pool", pool.name, pool));
  }

  assess(previous: Cluster): Cluster {
    return assess(
      {
        nodes: documentsOf("node", this.nodes),
        pools: documentsOf("pool", this.pools),
        blocks: documentsOf("block", this.blocks),
      },
      previous,
    );
  }
}

/** Every access of a process to its disk and to the datastore comes by here. */
export interface Faults {
  /** The accesses that the process still makes before it is killed; undefined when it lives on. */
  accessesLeft: number | undefined;
  /** Called at each access: a pause lets other nodes come between. */
  readonly pause: () => Promise<void> | void;
}

export interface PlayedNodeOptions {
  readonly name: string;
  readonly datastore: PlayedDatastore;
  readonly pause?: () => Promise<void> | void;
  readonly ipam?: Partial<{ maxBlocksPerNode: number; releaseAfterSeconds: number; deletedNodeGraceSeconds: number }>;
}

export class PlayedNode {
  readonly name: string;
  readonly #options: PlayedNodeOptions;
  #disk = newDisk();
  #process!: { keeper: BlockKeeper; faults: Faults };
  /** What the datastore has told. */
  cluster: Cluster = emptyCluster;
  /** As node.json has it. */
  published: Holdings | undefined;
  /** By part: what went wrong when it was tried last. */
  readonly problems = new Map<string, string>();
  /** What its plugin takes for the time. */
  now = new Date();
  /** Milliseconds until the keeper wants to be called again. */
  nextMs = 0;

  static async start(options: PlayedNodeOptions): Promise<PlayedNode> {
    const node = new PlayedNode(options);
    await node.restart();
    return node;
  }

  private constructor(options: PlayedNodeOptions) {
    this.name = options.name;
    this.#options = options;
  }

  get leases(): MemoryLeases {
    return this.#disk.leases;
  }

  get instance(): string {
    return this.#disk.instance;
  }

  /** Another process, on what the one before it left. */
  async restart(): Promise<void> {
    const { name: nodeName, datastore, pause = () => {}, ipam } = this.#options;
    const { leases, instance, isNew } = this.#disk;
    const faults: Faults = { accessesLeft: undefined, pause };
    const store = breakable(leases, faults);
    const claims = breakable(
      new MemoryClaims(datastore, () => {
        if (datastore.isAway) {
          throw new Error("the datastore is away");
        }
      }),
      faults,
    );
    const isReinstalled = isNew || (await leases.blocks()).length === 0;
    this.#disk.isNew = false;
    const held = new HeldBlocks({
      nodeName,
      instance,
      isReinstalled,
      store,
      livePods: async () => [],
      onRecovery: () => {},
    });
    const keeper = new BlockKeeper({
      config: {
        nodeName,
        ipam: { maxBlocksPerNode: 20, releaseAfterSeconds: 60, deletedNodeGraceSeconds: 30, ...ipam },
      },
      instance,
      held,
      store,
      claims,
      onHeld: (holdings) => {
        this.published = holdings;
      },
      conditions: { attempt: (object, work) => this.#attempt(object, work) },
      log: { info: () => {}, debug: () => {} },
    });
    this.#process = { keeper, faults };
    if (this.cluster !== emptyCluster) {
      this.refresh(); // a process acts on nothing before it has a whole snapshot, and that is a new one
    }
  }

  /** The machine gets a new disk: no lease, no id, no pod. */
  async reinstall(): Promise<void> {
    this.#disk = newDisk();
    this.published = undefined;
    await this.restart();
  }

  /** The datastore tells its newest. */
  refresh(): void {
    this.cluster = this.#options.datastore.assess(this.cluster);
  }

  /** One look of the keeper, as far as the datastore was told of last. */
  async keep(nowMs = 0): Promise<void> {
    const { nextMs } = await this.#process.keeper.keep(this.cluster, doubtsOf(this.cluster.conditions), nowMs);
    this.nextMs = nextMs;
  }

  /** Until nothing changes any more. */
  async settle(nowMs = 0): Promise<void> {
    for (let before = ""; before !== this.#state(); ) {
      before = this.#state();
      this.refresh();
      await this.keep(nowMs);
      this.refresh();
    }
  }

  /** The process is killed at the access of this number, before it is made; it never gets there where it makes fewer. */
  async keepUntilKilled(accesses: number, nowMs = 0): Promise<{ wasKilled: boolean }> {
    const { faults } = this.#process;
    faults.accessesLeft = accesses;
    await this.keep(nowMs);
    const wasKilled = faults.accessesLeft < 0;
    await this.restart();
    return { wasKilled };
  }

  /** As ADD does, by what was published last. */
  async add(containerId: string): Promise<string> {
    const { forPods = [], tunnelLease } = this.published ?? {};
    const tunnel = tunnelLease ? { tunnelAddress: tunnelLease.address } : {};
    const lease = await this.#pool().reserve(ownerOf(containerId), { blocks: forPods, ...tunnel });
    return lease.address;
  }

  async del(containerId: string): Promise<void> {
    await this.#pool().release(ownerOf(containerId));
  }

  #pool(): Pool {
    const { pause = () => {} } = this.#options;
    return new Pool(breakable(this.leases, { accessesLeft: undefined, pause }), () => this.now);
  }

  #state(): string {
    const blocks = [...this.#options.datastore.blocks.values()];
    return JSON.stringify([blocks, this.published?.tunnelLease?.address, this.published?.forPods]);
  }

  async #attempt(object: string, work: () => Promise<void> | void): Promise<boolean> {
    try {
      await work();
      this.problems.delete(object);
      return true;
    } catch (error) {
      this.problems.set(object, (error as Error).message);
      return false;
    }
  }
}

interface Disk {
  readonly leases: MemoryLeases;
  readonly instance: string;
  isNew: boolean;
}

function newDisk(): Disk {
  return { leases: new MemoryLeases(), instance: randomUUID(), isNew: true };
}

function ownerOf(containerId: string): LeaseOwner {
  return { network: "pods", containerId, interfaceName: "eth0" };
}

function breakable<Part extends LeaseStore | MemoryClaims>(part: Part, faults: Faults): Part {
  return new Proxy(part, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== "function") {
        return value;
      }
      return async (...args: unknown[]) => {
        await faults.pause();
        if (faults.accessesLeft !== undefined) {
          faults.accessesLeft -= 1;
          if (faults.accessesLeft < 0) {
            throw new Error("the process was killed");
          }
        }
        return Reflect.apply(value, target, args);
      };
    },
  });
}

/** Parsed once each, as a datastore does it. */
const known = new WeakMap<object, unknown>();

function parsed<K extends Kind>(kind: K, name: string, value: unknown): DocumentKinds[K] {
  const document = (known.get(value as object) ?? parseDocument(kind, name, value)) as DocumentKinds[K];
  known.set(value as object, document);
  return document;
}

function documentsOf<K extends Kind>(
  kind: K,
  values: ReadonlyMap<string, unknown>,
): Map<string, Document<DocumentKinds[K]>> {
  return new Map(
    [...values].map(([name, value]) => [name, { source: `${kind}/${name}`, value: parsed(kind, name, value) }]),
  );
}
