import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import type { KubernetesDatastore } from "../../../../src/datastore/kubernetes/kubernetes-datastore.ts";
import { ClusterWorld } from "../../../lib/api-server/cluster-world.ts";
import type { ApiServer } from "../../../lib/api-server/server.ts";
import { describeDatastore, Follower } from "../../../lib/datastore-contract.ts";
import { waitFor } from "../../../lib/wait.ts";

describeDatastore("kubernetes", ClusterWorld.make);

describe("KubernetesDatastore", () => {
  let world: ClusterWorld;
  let server: ApiServer;
  let datastore: KubernetesDatastore;
  let follower: Follower;

  beforeEach(async () => {
    world = await ClusterWorld.make();
    server = world.server;
    datastore = world.open();
    follower = new Follower();
  });

  afterEach(async () => {
    await datastore.stop();
    await world.close();
  });

  /** In sync with these nodes, with all watches open, and nothing noted yet. */
  async function startWith(nodes: number): Promise<void> {
    await world.populate(nodes);
    await datastore.start(follower);
    await watching();
    expect(follower.calls).toContain("in sync");
    follower.calls.length = 0;
    server.requests.length = 0;
  }

  async function watching(): Promise<void> {
    await waitFor(() => server.watchCount === 4, { what: "four watches", timeoutMs: 4000 });
  }

  const verbs = () => server.requests.map(({ verb, plural }) => `${verb} ${plural}`);
  const node = (index: number, host = index + 1) => [`node${index}`, { address: `172.31.112.${host}/20` }] as const;

  describe("watches", () => {
    test("go on where they were when they break, without a new list and without a condition", async () => {
      await startWith(3);
      await world.put("node", ...node(0, 100));
      await follower.until(() => follower.calls.includes("set node/node0"));
      const version = String(server.store.version);
      server.dropWatches();
      await world.remove("block", "10.100.2.0-26");
      await follower.until(() => follower.calls.includes("delete block/10.100.2.0-26"));
      await watching();
      expect(follower.calls).toEqual(["set node/node0", "batch end", "delete block/10.100.2.0-26", "batch end"]);
      expect(verbs().filter((verb) => verb.startsWith("list"))).toEqual([]);
      const again = server.requests.find(({ plural }) => plural === "nodes");
      expect(again?.query).toMatchObject({ resourceVersion: version, allowWatchBookmarks: "true" });
    });

    test("go on after their last bookmark when all before it is forgotten", async () => {
      await startWith(1);
      await world.put("settings", "cluster", { externalNodeCidrs: ["192.0.2.0/24"] });
      await follower.until(() => follower.calls.includes("set settings"));
      const version = String(server.store.version);
      server.store.compact();
      server.endWatches();
      await waitFor(() => server.requests.length >= 4, { what: "four watches again", timeoutMs: 4000 });
      await watching();
      expect(verbs().filter((verb) => verb.startsWith("list"))).toEqual([]);
      expect(server.requests.map(({ query }) => query.resourceVersion)).toEqual([version, version, version, version]);
    });

    test("are followed by a new list where the server has forgotten, and only what changed is delivered", async () => {
      await startWith(8);
      await server.goAway();
      await world.remove("node", "node3");
      await world.put("node", ...node(5, 105));
      await world.put("node", ...node(8));
      server.store.compact();
      await server.comeBack();
      await follower.until(() => !follower.objects.has("node/node3") && follower.objects.has("node/node8"));
      await watching();
      expect(follower.calls.filter((call) => /^(set|delete)/.test(call)).sort()).toEqual([
        "delete block/10.100.3.0-26",
        "delete node/node3",
        "set node/node5",
        "set node/node8",
      ]);
      expect(verbs().filter((verb) => verb === "list nodes")).toHaveLength(1);
    });

    test("deliver nothing of what no document has: heartbeats of a node", async () => {
      await startWith(2);
      const { metadata } = server.store.read("nodes", "node0") ?? { metadata: {} };
      const { annotations } = metadata as { annotations: Record<string, string> };
      server.put("Node", "node0", { metadata: { annotations }, status: { conditions: [{ type: "Ready" }] } });
      await world.put("node", ...node(1, 100));
      await follower.until(() => follower.calls.includes("batch end"));
      expect(follower.calls).toEqual(["set node/node1", "batch end"]);
    });
  });

  describe("lists", () => {
    test("are read in pieces, and begin again when they expire in between", async () => {
      for (const index of Array.from({ length: 1100 }, (_, each) => each)) {
        const address = `172.16.${Math.floor(index / 200)}.${(index % 200) + 1}/16`;
        await world.put("node", `node${index}`, { address });
      }
      server.faults = [{ verb: "list", plural: "nodes", skip: 1, times: 1, kind: { status: 410 } }];
      await datastore.start(follower);
      await follower.until(() => follower.calls.includes("in sync"));
      expect(follower.objects.size).toBe(1101);
      const lists = server.requests.filter(({ verb, plural }) => verb === "list" && plural === "nodes");
      expect(lists.map(({ query }) => "continue" in query)).toEqual([false, true, false, true, true]);
    });

    test.each([
      { removed: 5, held: true },
      { removed: 4, held: false },
    ])("that lack $removed of 20 nodes are held: $held", async ({ removed, held }) => {
      await startWith(20);
      await server.goAway();
      const names = Array.from({ length: removed }, (_, index) => `node${index}`);
      await Promise.all(names.map((name) => world.remove("node", name)));
      server.store.compact();
      await server.comeBack();
      await watching();
      // Seen by the watch after the list, and obeyed.
      await world.remove("node", "node10");
      await follower.until(() => !follower.objects.has("node/node10"));
      expect(names.map((name) => follower.objects.has(`node/${name}`))).toEqual(names.map(() => held));
      const doubts = follower.conditions.filter(({ message }) => message.startsWith("Cannot believe"));
      expect(doubts.map(({ object, message }) => `${object}: ${message}`)).toEqual(
        held
          ? [
              'datastore/nodes: Cannot believe "/api/v1/nodes": 5 of 19 objects are missing, "node0" among them, and were not seen to be deleted; they stay in force until they are back, or until sync is restarted',
            ]
          : [],
      );
    });

    test("that were held are believed again when the nodes are back", async () => {
      await startWith(20);
      await server.goAway();
      const lost = Array.from({ length: 6 }, (_, index) => index);
      await Promise.all(lost.map((index) => world.remove("node", `node${index}`)));
      server.store.compact();
      await server.comeBack();
      expect(await follower.condition("datastore/nodes")).toMatch(/^Cannot (believe|follow)/);
      await watching();
      await Promise.all(lost.map((index) => world.put("node", ...node(index))));
      await follower.until(() => follower.conditions.length === 0);
      expect(follower.calls.filter((call) => call.startsWith("delete"))).toEqual([]);
    });
  });

  describe("an API server", () => {
    test("that is away leaves all in force, with a condition of each kind that says since when", async () => {
      await startWith(2);
      const before = new Map(follower.objects);
      await server.goAway();
      await follower.until(() => follower.conditions.length === 4);
      const first = follower.conditions.find(({ object }) => object === "datastore/nodes");
      expect(first?.message).toMatch(
        /^Cannot follow "\/api\/v1\/nodes" since 20\d\d-.*Z: GET "\/api\/v1\/nodes": .*; what was read before stays in force$/,
      );
      expect(follower.objects).toEqual(before);
      await server.comeBack();
      await follower.until(() => follower.conditions.length === 0);
      expect(follower.calls.filter((call) => /^(set|delete)/.test(call))).toEqual([]);
      expect(verbs().filter((verb) => verb.startsWith("list"))).toEqual([]);
    });

    test("that is away at the start is waited for", async () => {
      await world.populate(2);
      await server.goAway();
      await datastore.start(follower);
      expect(follower.calls).toEqual(["conditions", "batch end"]);
      expect(follower.conditions.map(({ object }) => object)).toEqual(
        ["nodes", "pools", "blocks", "settings"].map((kind) => `datastore/${kind}`),
      );
      expect(follower.conditions[0]?.message).toMatch(/; nothing was read yet$/);
      await server.comeBack();
      await follower.until(() => follower.calls.includes("in sync") && follower.conditions.length === 0);
      expect(follower.objects.size).toBe(6);
    });

    test("that knows no custom resources yet is waited for, and says which", async () => {
      server.faults = [{ plural: "ippools", kind: { status: 404 } }];
      await world.populate(1);
      await datastore.start(follower);
      expect(follower.conditions.map(({ object }) => object)).toEqual(["datastore/pools"]);
      expect(follower.objects.size).toBe(0);
      server.faults = [];
      await follower.until(() => follower.calls.includes("in sync"));
    });

    test.each([401, 403, 429, 500, 503])("that answers %d is asked again, lists and watches", async (status) => {
      server.faults = [
        { verb: "list", times: 8, kind: { status } },
        { verb: "watch", times: 8, kind: { status } },
      ];
      await world.populate(1);
      await datastore.start(follower);
      expect(follower.conditions[0]?.message).toContain(`GET "/api/v1/nodes": ${status} `);
      await follower.until(() => follower.calls.includes("in sync") && follower.conditions.length === 0);
      await watching();
    });

    test("that wants to be left alone is left alone", async () => {
      await startWith(1);
      server.faults = [{ verb: "watch", plural: "nodes", times: 1, kind: { status: 429, retryAfterSeconds: 1 } }];
      server.dropWatches();
      await server.seen("watch");
      const start = performance.now();
      await waitFor(() => server.requests.filter(({ plural }) => plural === "nodes").length === 2, {
        what: "the second watch of nodes",
        timeoutMs: 4000,
      });
      expect(performance.now() - start).toBeGreaterThan(900);
    });

    test("whose versions went back, as after a restored backup, is listed anew", async () => {
      await startWith(1);
      server.faults = [{ verb: "watch", plural: "nodes", times: 1, kind: { status: 504 } }];
      server.dropWatches();
      await waitFor(() => verbs().includes("list nodes"), { what: "a list of nodes", timeoutMs: 4000 });
      expect(verbs().filter((verb) => verb.startsWith("list"))).toEqual(["list nodes"]);
    });
  });

  test("a node whose address is cleared is revoked at once, and said to be without", async () => {
    await startWith(2);
    server.put("Node", "node1", { status: { addresses: [{ type: "Hostname", address: "node1" }] } });
    await follower.until(() => !follower.objects.has("node/node1"));
    expect(follower.conditions).toContainEqual({
      object: "node/node1",
      message: 'Cannot use "nodes/node1": the node has no IPv4 address of the type InternalIP; it is set aside',
    });
    server.put("Node", "node1", { status: { addresses: [{ type: "InternalIP", address: "172.31.112.2" }] } });
    await follower.until(() => follower.objects.has("node/node1"));
    expect(follower.conditions).toEqual([]);
  });

  test("what was in force stays so over a restart in which its object became wrong", async () => {
    await world.populate(2);
    const path = world.beside("last.json");
    const first = world.open(path);
    await first.start(new Follower());
    await first.stop();
    await world.put("node", "node1", { address: "fe80::1/64" });
    const second = world.open(path);
    await second.start(follower);
    expect(follower.objects.get("node/node1")).toEqual({ name: "node1", address: "172.31.112.2/20" });
    expect(follower.conditions.map(({ object }) => object)).toEqual(["node/node1"]);
    await second.stop();
  });
});
