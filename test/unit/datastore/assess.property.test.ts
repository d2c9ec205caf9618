import { describe, expect, test } from "@jest/globals";
import { containsAddress, overlaps, parseAddress, parseCidr, parseLinkAddress } from "../../../src/cidr.ts";
import { assess } from "../../../src/datastore/assess.ts";
import { type Cluster, type Document, type Documents, diff, emptyCluster } from "../../../src/datastore/cluster.ts";
import {
  blockName,
  type DocumentKinds,
  ipipModes,
  type Kind,
  parseDocument,
} from "../../../src/datastore/documents.ts";
import { Random } from "./random.ts";

const seed = Number(process.env.SEED ?? Date.now() % 2 ** 32);
const lives = 25;
const steps = 20;

type Mutable = { [K in keyof Documents]-?: Map<string, Document<never>> };

const names = ["a", "b", "c", "d", "e", "f"];
// A small world, so that nearly every document has another one to collide with.
const poolCidrs = ["10.0.0.0/26", "10.0.0.0/27", "10.0.0.32/27", "10.0.0.64/26", "10.0.0.96/28", "10.0.0.128/25"];

function randomValue(random: Random, kind: Kind): [name: string, value: unknown] {
  const name = random.pick(names);
  const address = () => `10.0.0.${1 + random.below(254)}`;
  const other = () => random.pick([address(), "172.17.0.1", "172.17.0.2"]);
  switch (kind) {
    case "node": {
      const otherAddresses = Array.from({ length: random.below(3) }, other);
      return [name, { name, address: `${address()}/24`, otherAddresses }];
    }
    case "pool": {
      const cidr = random.pick(poolCidrs);
      const [ipipMode, disabled] = [random.pick(ipipModes), random.oneIn(3)];
      return [name, { name, cidr, blockSize: random.pick([28, 30, 32]), ipipMode, disabled }];
    }
    case "block": {
      const size = random.pick([28, 30]);
      const cidr = `10.0.0.${random.below(2 ** (size - 24)) * 2 ** (32 - size)}/${size}`;
      return [blockName(cidr), { cidr, node: random.pick(names) }];
    }
    case "settings": {
      const externalNodeCidrs = Array.from({ length: random.below(4) }, () =>
        random.pick([...poolCidrs, "10.0.0.112/30", "192.0.2.0/24"]),
      );
      return ["cluster", { kind: "ClusterSettings", externalNodeCidrs }];
    }
  }
}

function empty(): Mutable {
  return { nodes: new Map(), pools: new Map(), blocks: new Map(), settings: new Map() };
}

const places = { node: "nodes", pool: "pools", block: "blocks", settings: "settings" } as const;

function set<K extends Kind>(documents: Mutable, kind: K, name: string, document: Document<DocumentKinds[K]>): void {
  documents[places[kind]].set(name, document as Document<never>);
}

function mutate(random: Random, documents: Mutable): void {
  const kind = random.pick<Kind>(["node", "node", "pool", "block", "block", "settings"]);
  const [name, value] = randomValue(random, kind);
  const source = `${kind}/${name}.json`;
  const choice = random.below(8);
  if (choice === 0) {
    documents[places[kind]].delete(name);
  } else if (choice === 1) {
    set(documents, kind, name, { source, problem: "it is not JSON" });
  } else {
    set(documents, kind, name, { source, value: parseDocument(kind, name, value) });
  }
}

function toDocuments({ settings, ...rest }: Mutable): Documents {
  const read = settings.get("cluster");
  return read ? { ...rest, settings: read } : rest;
}

function shuffle(random: Random, documents: Mutable): Documents {
  return toDocuments({
    nodes: new Map(random.shuffled(documents.nodes)),
    pools: new Map(random.shuffled(documents.pools)),
    blocks: new Map(random.shuffled(documents.blocks)),
    settings: documents.settings,
  });
}

/** Documents that say what is in force. */
function documentsOf(cluster: Cluster): Documents {
  const all = <T>(kind: string, objects: ReadonlyMap<string, T>) =>
    new Map(
      [...objects].map(([name, value]) => [name, { source: `${kind}/${name}.json`, value: structuredClone(value) }]),
    );
  return {
    nodes: all("node", cluster.nodes),
    pools: all("pool", cluster.pools),
    blocks: all("block", cluster.blocks),
    settings: { source: "cluster.json", value: cluster.settings },
  };
}

/** Calls `check` with random documents and a cluster that a life of such documents led to. */
function forEachStep(check: (documents: Mutable, previous: Cluster, random: Random) => void): void {
  for (let life = 0; life < lives; life++) {
    const random = new Random(seed + life);
    const documents = empty();
    let cluster = emptyCluster;
    for (let step = 0; step < steps; step++) {
      for (let changes = 1 + random.below(random.oneIn(4) ? 12 : 2); changes > 0; changes--) {
        mutate(random, documents);
      }
      check(documents, cluster, random);
      cluster = assess(toDocuments(documents), cluster);
    }
  }
}

describe(`assess() with random documents, SEED=${seed}`, () => {
  test("accepts only what does not contradict each other", () => {
    forEachStep((documents, previous) => {
      const { nodes, pools, blocks, settings } = assess(toDocuments(documents), previous);
      const ranges = [...pools.values()].map(({ cidr }) => parseCidr(cidr));
      const addresses = [...nodes.values()].flatMap(({ address, otherAddresses = [] }) => [
        ...new Set([parseLinkAddress(address).address, ...otherAddresses.map(parseAddress)]),
      ]);
      expect(new Set(addresses).size).toBe(addresses.length);
      expect(addresses.filter((address) => ranges.some((range) => containsAddress(range, address)))).toEqual([]);
      expect(ranges.filter((range) => ranges.some((other) => other !== range && overlaps(other, range)))).toEqual([]);
      expect(
        settings.externalNodeCidrs.filter((cidr) => ranges.some((range) => overlaps(range, parseCidr(cidr)))),
      ).toEqual([]);
      for (const { cidr, node } of blocks.values()) {
        const { first, last, prefixLength } = parseCidr(cidr);
        const pool = [...pools.values()].find((one) => containsAddress(parseCidr(one.cidr), first));
        expect(pool).toMatchObject({ blockSize: prefixLength });
        expect(containsAddress(parseCidr(pool?.cidr ?? ""), last)).toBe(true);
        expect(nodes.has(node)).toBe(true);
      }
    });
  });

  test("gives the same cluster in whatever order the documents were read", () => {
    forEachStep((documents, previous, random) => {
      expect(assess(shuffle(random, documents), previous)).toEqual(assess(toDocuments(documents), previous));
    });
  });

  test("changes nothing when the same documents are assessed again", () => {
    forEachStep((documents, previous) => {
      const cluster = assess(toDocuments(documents), previous);
      const again = assess(toDocuments(documents), cluster);
      expect(again).toEqual(cluster);
      expect(diff(cluster, again)).toEqual([]);
    });
  });

  test("accepts documents without contradictions whatever was in force before", () => {
    let earlier = emptyCluster;
    forEachStep((documents, previous) => {
      const cluster = { ...assess(toDocuments(documents), previous), conditions: [] };
      expect(assess(documentsOf(cluster), earlier)).toEqual(cluster);
      earlier = cluster;
    });
  });

  test("keeps every node and pool in force whose document is still there, and every block, also of a removed pool, whose node is", () => {
    forEachStep((documents, previous) => {
      const { nodes, pools, blocks } = assess(toDocuments(documents), previous);
      const missing = (before: ReadonlyMap<string, unknown>, read: ReadonlyMap<string, unknown>) =>
        [...before.keys()].filter((name) => read.has(name));
      expect([...nodes.keys()]).toEqual(expect.arrayContaining(missing(previous.nodes, documents.nodes)));
      expect([...pools.keys()]).toEqual(expect.arrayContaining(missing(previous.pools, documents.pools)));
      const placed = [...previous.blocks.values()].filter(({ cidr }) => {
        const document = documents.blocks.get(blockName(cidr)) as Document<DocumentKinds["block"]> | undefined;
        return document !== undefined && "value" in document && nodes.has(document.value.node);
      });
      expect([...blocks.keys()]).toEqual(expect.arrayContaining(placed.map(({ cidr }) => blockName(cidr))));
    });
  });

  test("gives nothing new from a pool without document, and keeps none without blocks", () => {
    forEachStep((documents, previous) => {
      const { pools, conditions } = assess(toDocuments(documents), previous);
      const removed = [...pools.values()].filter(({ name }) => !documents.pools.has(name));
      expect(removed.filter(({ disabled }) => !disabled)).toEqual([]);
      const inUse = removed.filter((pool) =>
        [...documents.blocks.keys()].some((name) => {
          const [address = "", size] = name.split("-");
          return containsAddress(parseCidr(pool.cidr), parseAddress(address)) && Number(size) === pool.blockSize;
        }),
      );
      expect(inUse).toEqual(removed);
      expect(conditions.map(({ object }) => object)).toEqual(
        expect.arrayContaining(removed.map(({ name }) => `pool/${name}`)),
      );
    });
  });

  test("names every document that is not in force as it was read, every pool that stays without one, and no other", () => {
    forEachStep((documents, previous) => {
      const cluster = assess(toDocuments(documents), previous);
      const inForce = documentsOf(cluster);
      const unlike = (["node", "pool", "block"] as const).flatMap((kind) =>
        [...documents[places[kind]]]
          .filter(([name, document]) => {
            const accepted = inForce[places[kind]].get(name);
            const value = "value" in document ? JSON.stringify(document.value) : undefined;
            return !accepted || !("value" in accepted) || value !== JSON.stringify(accepted.value);
          })
          .map(([name]) => `${kind}/${name}`),
      );
      const removed = [...cluster.pools.keys()].filter((name) => !documents.pools.has(name));
      const expected = [...unlike, ...removed.map((name) => `pool/${name}`)];
      const named = cluster.conditions.map(({ object }) => object).filter((object) => object !== "settings/cluster");
      expect([...new Set(named)].sort()).toEqual([...new Set(expected)].sort());
    });
  });
});
