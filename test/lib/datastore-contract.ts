/** What every kind of datastore has to do, as tests. */
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import type { Condition, Update } from "../../src/datastore/cluster.ts";
import type { Datastore, DatastoreHandler } from "../../src/datastore/datastore.ts";
import { type Kind, parseDocument } from "../../src/datastore/documents.ts";

/** A real datastore and the means to write into it as an operator would. */
export interface DatastoreWorld {
  /** Another one on the same documents, not started. */
  open(): Datastore;
  /** Writes a document as a whole, valid or not. */
  put(kind: Kind, name: string, data: unknown): Promise<void>;
  remove(kind: Kind, name: string): Promise<void>;
  close(): Promise<void>;
}

/** Follows a datastore as `sync` does. */
export class Follower implements DatastoreHandler {
  /** "node/node1" and so on, as the updates made them. */
  readonly objects = new Map<string, unknown>();
  /** Every callback in its order. */
  readonly calls: string[] = [];
  conditions: readonly Condition[] = [];
  #waiting: (() => void)[] = [];

  onUpdate(update: Update): void {
    const object = update.kind === "settings" ? "settings" : `${update.kind}/${update.name}`;
    this.calls.push(`${update.value === undefined ? "delete" : "set"} ${object}`);
    if (update.value === undefined) {
      this.objects.delete(object);
    } else {
      this.objects.set(object, update.value);
    }
  }

  onConditions(conditions: readonly Condition[]): void {
    this.calls.push("conditions");
    this.conditions = conditions;
  }

  onInSync(): void {
    this.calls.push("in sync");
  }

  onBatchEnd(): void {
    this.calls.push("batch end");
    for (const wake of this.#waiting.splice(0)) {
      wake();
    }
  }

  /** Resolves after the batch with which this is so, and with the milliseconds that it took. */
  async until(isSo: () => boolean, deadlineMs = 4000): Promise<number> {
    const start = performance.now();
    while (!isSo()) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const deadline = setTimeout(() => {
        const seen = { calls: this.calls, conditions: this.conditions };
        reject(new Error(`Waited in vain for ${isSo}: ${JSON.stringify(seen, undefined, 1)}`));
      }, deadlineMs);
      this.#waiting.push(resolve);
      try {
        await promise;
      } finally {
        clearTimeout(deadline);
      }
    }
    return performance.now() - start;
  }

  /** Resolves after the batch with which there is a condition of this object, with its message. */
  async condition(object: string): Promise<string> {
    const find = () => this.conditions.find((condition) => condition.object === object);
    await this.until(() => find() !== undefined);
    return find()?.message ?? "";
  }
}

export const documents = {
  node1: { name: "node1", address: "172.31.112.2/20" },
  node2: { name: "node2", address: "172.31.127.252/20" },
  pool: { name: "main", cidr: "10.100.0.0/16", ipipMode: "Always" },
  block1: { cidr: "10.100.15.128/26", node: "node1" },
  block2: { cidr: "10.100.9.192/26", node: "node2" },
  settings: { kind: "ClusterSettings", externalNodeCidrs: ["192.0.2.0/24"] },
};

export function describeDatastore(name: string, makeWorld: () => Promise<DatastoreWorld>): void {
  describe(`the ${name} datastore`, () => {
    let world: DatastoreWorld;
    let datastore: Datastore;
    let follower: Follower;

    beforeEach(async () => {
      world = await makeWorld();
      await world.put("settings", "cluster", documents.settings);
      await world.put("node", "node1", documents.node1);
      await world.put("node", "node2", documents.node2);
      await world.put("pool", "main", documents.pool);
      await world.put("block", "10.100.15.128-26", documents.block1);
      datastore = world.open();
      follower = new Follower();
      await datastore.start(follower);
    });

    afterEach(async () => {
      await datastore.stop();
      await world.close();
    });

    test("delivers the whole cluster in one batch, then says once that it is in sync", async () => {
      await follower.until(() => follower.calls.includes("in sync"));
      expect(Object.fromEntries(follower.objects)).toEqual({
        "node/node1": documents.node1,
        "node/node2": documents.node2,
        "pool/main": parseDocument("pool", "main", documents.pool),
        "block/10.100.15.128-26": documents.block1,
        settings: documents.settings,
      });
      expect(follower.calls.slice(-2)).toEqual(["in sync", "batch end"]);
      expect(follower.calls.filter((call) => call === "batch end")).toHaveLength(1);

      await world.put("block", "10.100.9.192-26", documents.block2);
      await follower.until(() => follower.objects.has("block/10.100.9.192-26"));
      expect(follower.calls.filter((call) => call === "in sync")).toHaveLength(1);
    });

    test("delivers a new, a changed and a removed object, and nothing else", async () => {
      const changed = { ...documents.node2, address: "172.31.127.253/20" };
      follower.calls.length = 0;
      await world.put("block", "10.100.9.192-26", documents.block2);
      await follower.until(() => follower.calls.includes("batch end"));
      await world.put("node", "node2", changed);
      await follower.until(() => follower.calls.length === 4);
      await world.remove("node", "node1");
      await follower.until(() => !follower.objects.has("node/node1"));
      expect(follower.objects.get("node/node2")).toEqual(changed);
      expect(follower.calls).toEqual([
        "set block/10.100.9.192-26",
        "batch end",
        "set node/node2",
        "batch end",
        "delete node/node1",
        "delete block/10.100.15.128-26",
        "conditions",
        "batch end",
      ]);
    });

    test("delivers changed settings", async () => {
      await world.put("settings", "cluster", { kind: "ClusterSettings", externalNodeCidrs: [] });
      await follower.until(() =>
        isEqual(follower.objects.get("settings"), { ...documents.settings, externalNodeCidrs: [] }),
      );
      expect(follower.calls.slice(-2)).toEqual(["set settings", "batch end"]);
    });

    test("keeps the last version of an object whose document becomes wrong, and says so until it is repaired", async () => {
      await world.put("node", "node1", { name: "node1", address: "fe80::1/64" });
      expect(await follower.condition("node/node1")).toMatch(
        /^Cannot use ".*node1.*": field "address": "fe80::1\/64" is IPv6, only IPv4 is supported; its last accepted version stays in force$/,
      );
      expect(follower.objects.get("node/node1")).toEqual(documents.node1);
      expect(follower.objects.get("block/10.100.15.128-26")).toEqual(documents.block1);

      await world.put("node", "node1", documents.node1);
      await follower.until(() => follower.conditions.length === 0);
      expect(follower.calls.filter((call) => call.startsWith("delete"))).toEqual([]);
    });

    test("sets a newcomer aside that contradicts what is in force, and accepts it when the way is free", async () => {
      await world.put("node", "node0", { name: "node0", address: documents.node2.address });
      expect(await follower.condition("node/node0")).toMatch(
        /address "172.31.127.252\/20" belongs to node "node2" already, each node needs its own; it is set aside$/,
      );
      expect(follower.objects.has("node/node0")).toBe(false);

      await world.remove("node", "node2");
      await follower.until(() => follower.objects.has("node/node0"));
      expect(follower.objects.has("node/node2")).toBe(false);
      expect(follower.conditions).toEqual([]);
    });

    test("delivers a pool that changes live, and refuses to change its CIDR while it has blocks", async () => {
      const changed = { ...documents.pool, ipipMode: "CrossSubnet", natOutgoing: true, disabled: true };
      await world.put("pool", "main", changed);
      await follower.until(() => isEqual(follower.objects.get("pool/main"), parseDocument("pool", "main", changed)));
      expect(follower.objects.get("block/10.100.15.128-26")).toEqual(documents.block1);

      await world.put("pool", "main", { ...changed, cidr: "10.200.0.0/16" });
      expect(await follower.condition("pool/main")).toMatch(/CIDR and block size of a pool with blocks cannot change/);
      expect(follower.objects.has("block/10.100.15.128-26")).toBe(true);
    });

    test("keeps a pool that is removed until its last block is gone, and gives nothing new from it", async () => {
      await world.remove("pool", "main");
      expect(await follower.condition("pool/main")).toMatch(/^Cannot remove pool "main" .* yet: 1 block of it is left/);
      expect(follower.objects.get("pool/main")).toEqual({
        ...parseDocument("pool", "main", documents.pool),
        disabled: true,
      });
      expect(follower.objects.get("block/10.100.15.128-26")).toEqual(documents.block1);

      await world.remove("block", "10.100.15.128-26");
      await follower.until(() => !follower.objects.has("pool/main"));
      expect(follower.objects.has("block/10.100.15.128-26")).toBe(false);
      expect(follower.conditions).toEqual([]);
    });

    test("calls nobody when it is stopped while it starts", async () => {
      const other = world.open();
      const witness = new Follower();
      const starting = other.start(witness);
      await other.stop();
      await starting;
      expect(witness.calls).toEqual([]);
    });

    test("calls nobody after it was stopped", async () => {
      await datastore.stop();
      const calls = [...follower.calls];
      const other = world.open();
      const witness = new Follower();
      await other.start(witness);
      await world.remove("node", "node2");
      await witness.until(() => witness.calls.includes("in sync") && !witness.objects.has("node/node2"));
      await other.stop();
      expect(follower.calls).toEqual(calls);
    });
  });
}

function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
