import { describe, expect, test } from "@jest/globals";
import { assess } from "../../../src/datastore/assess.ts";
import { type Cluster, type Document, type Documents, diff, emptyCluster } from "../../../src/datastore/cluster.ts";
import { blockName, type Kind, parseDocument } from "../../../src/datastore/documents.ts";

const broken = Symbol("a document that is not JSON");

interface Given {
  /** By name: the address, followed by the other addresses. */
  nodes?: Record<string, string | typeof broken>;
  /** By name: the CIDR, followed by the block size, and "disabled". */
  pools?: Record<string, string | typeof broken>;
  /** By CIDR: the node. */
  blocks?: Record<string, string | typeof broken>;
  external?: string[] | typeof broken;
}

function read<T>(kind: Kind, name: string, value: object | typeof broken): Document<T> {
  const source = `${kind}/${name}`;
  return value === broken
    ? { source, problem: "it is not JSON" }
    : { source, value: parseDocument(kind, name, value) as T };
}

function documents({ nodes = {}, pools = {}, blocks = {}, external = [] }: Given): Documents {
  const all = <T>(
    kind: Kind,
    given: Record<string, string | typeof broken>,
    make: (name: string, words: string[]) => object,
    nameOf = (name: string) => name,
  ) =>
    new Map(
      Object.entries(given).map(([name, text]) => {
        const value = typeof text === "string" ? make(name, text.split(" ")) : broken;
        return [nameOf(name), read<T>(kind, nameOf(name), value as object)];
      }),
    );
  return {
    nodes: all("node", nodes, (name, [address, ...otherAddresses]) => ({ name, address, otherAddresses })),
    pools: all("pool", pools, (name, [cidr, size, disabled]) => ({
      name,
      cidr,
      blockSize: Number(size ?? 26),
      disabled: disabled !== undefined,
    })),
    blocks: all("block", blocks, (cidr, [node]) => ({ cidr, node }), blockName),
    settings: read(
      "settings",
      "cluster",
      external === broken ? broken : { kind: "ClusterSettings", externalNodeCidrs: external },
    ),
  };
}

/** What is in force, in the same short form. */
function inForce({ nodes, pools, blocks, settings }: Cluster): Required<Given> {
  return {
    nodes: Object.fromEntries(
      [...nodes].map(([name, { address, otherAddresses = [] }]) => [name, [address, ...otherAddresses].join(" ")]),
    ),
    pools: Object.fromEntries(
      [...pools].map(([name, { cidr, blockSize, disabled }]) => [
        name,
        `${cidr} ${blockSize}${disabled ? " disabled" : ""}`,
      ]),
    ),
    blocks: Object.fromEntries([...blocks.values()].map(({ cidr, node }) => [cidr, node])),
    external: [...settings.externalNodeCidrs],
  };
}

const messages = ({ conditions }: Cluster) =>
  Object.fromEntries(conditions.map(({ object, message }) => [object, message]));

const good = {
  nodes: { node1: "172.31.112.2/20 192.0.2.1", node2: "172.31.127.252/20" },
  pools: { main: "10.100.0.0/16 26" },
  blocks: { "10.100.15.128/26": "node1", "10.100.9.192/26": "node2" },
  external: ["198.51.100.0/24"],
};

/** `given` takes the place of parts of the good documents. */
function clusterWith(given: Given, previous = assess(documents(good))): Cluster {
  return assess(
    documents({
      nodes: { ...good.nodes, ...given.nodes },
      pools: { ...good.pools, ...given.pools },
      blocks: { ...good.blocks, ...given.blocks },
      external: given.external ?? good.external,
    }),
    previous,
  );
}

function without(given: typeof good, place: "nodes" | "pools" | "blocks", name: string): Given {
  return { ...given, [place]: Object.fromEntries(Object.entries(given[place]).filter(([key]) => key !== name)) };
}

test("assess() accepts documents that do not contradict each other", () => {
  const cluster = assess(documents(good));
  expect(inForce(cluster)).toEqual(good);
  expect(cluster.conditions).toEqual([]);
});

test("assess() of nothing is the empty cluster", () => {
  expect(assess({ nodes: new Map(), pools: new Map(), blocks: new Map() })).toEqual(emptyCluster);
});

describe("assess() with a document that cannot be used", () => {
  test("keeps the last accepted version of everything in force", () => {
    const cluster = clusterWith({
      nodes: { node1: broken },
      pools: { main: broken },
      blocks: { "10.100.15.128/26": broken },
      external: broken,
    });
    expect(inForce(cluster)).toEqual(good);
    const stays = "it is not JSON; its last accepted version stays in force";
    expect(messages(cluster)).toEqual({
      "node/node1": `Cannot use "node/node1": ${stays}`,
      "pool/main": `Cannot use "pool/main": ${stays}`,
      "block/10.100.15.128-26": `Cannot use "block/10.100.15.128-26": ${stays}`,
      "settings/cluster": `Cannot use "settings/cluster": ${stays}`,
    });
  });

  test("sets it aside when there is none, and what depends on it with it", () => {
    const cluster = clusterWith({ nodes: { node2: broken } }, emptyCluster);
    expect(inForce(cluster)).toEqual({
      ...good,
      nodes: { node1: good.nodes.node1 },
      blocks: { "10.100.15.128/26": "node1" },
    });
    expect(messages(cluster)).toEqual({
      "node/node2": 'Cannot use "node/node2": it is not JSON; it is set aside',
      "block/10.100.9.192-26":
        'Cannot use "block/10.100.9.192-26": its node "node2" is not among the accepted nodes; it is set aside',
    });
  });
});

describe("assess() with two objects that want the same addresses", () => {
  test("sets a node aside that comes with the address of another one", () => {
    const cluster = clusterWith({ nodes: { node0: "172.31.112.2/24" } });
    expect(inForce(cluster)).toEqual(good);
    expect(messages(cluster)).toEqual({
      "node/node0":
        'Cannot use "node/node0": address "172.31.112.2/24" belongs to node "node1" already, each node needs its own; it is set aside',
    });
  });

  test("keeps the former address of a node that takes one of another node", () => {
    const cluster = clusterWith({ nodes: { node2: "172.31.112.2/20" } });
    expect(inForce(cluster)).toEqual(good);
    expect(messages(cluster)["node/node2"]).toMatch(/; its last accepted version stays in force$/);
  });

  test("lets two nodes swap their addresses", () => {
    const cluster = clusterWith({ nodes: { node1: "172.31.127.252/20", node2: "172.31.112.2/20" } });
    expect(inForce(cluster).nodes).toEqual({ node1: "172.31.127.252/20", node2: "172.31.112.2/20" });
    expect(cluster.conditions).toEqual([]);
  });

  test("decides among newcomers by name", () => {
    const cluster = assess(documents({ nodes: { b: "192.0.2.1/24", a: "192.0.2.1/24", c: "192.0.2.1/24" } }));
    expect([...cluster.nodes.keys()]).toEqual(["a"]);
    expect(Object.keys(messages(cluster))).toEqual(["node/b", "node/c"]);
  });

  test("decides after a restart for the node that has blocks, not for the one with the lower name", () => {
    const cluster = clusterWith({ nodes: { node0: "172.31.112.2/24" } }, emptyCluster);
    expect(inForce(cluster)).toEqual(good);
  });

  test("sets a node aside whose address lies in a pool", () => {
    const cluster = clusterWith({ nodes: { node3: "10.100.77.1/24" } });
    expect(inForce(cluster)).toEqual(good);
    expect(messages(cluster)).toEqual({
      "node/node3":
        'Cannot use "node/node3": address "10.100.77.1/24" lies in pool "main" ("10.100.0.0/16"), addresses outside of every pool are allowed; it is set aside',
    });
    expect(inForce(clusterWith({ nodes: { node3: "10.100.77.1/24" } }, emptyCluster))).toEqual(good);
  });

  test("sets a pool aside that holds the address of a node, also after a restart", () => {
    const pools = { first: "172.31.112.0/24" };
    const cluster = clusterWith({ pools });
    expect(inForce(cluster)).toEqual(good);
    expect(messages(cluster)).toEqual({
      "pool/first":
        'Cannot use "pool/first": "172.31.112.0/24" holds the address "172.31.112.2/20" of node "node1", ranges without node addresses are allowed; it is set aside',
    });
    expect(inForce(clusterWith({ pools }, emptyCluster))).toEqual(good);
  });

  test("sets a pool aside that overlaps another one, also after a restart", () => {
    const pools = { first: "10.100.0.0/20 28" };
    const cluster = clusterWith({ pools });
    expect(inForce(cluster)).toEqual(good);
    expect(messages(cluster)).toEqual({
      "pool/first":
        'Cannot use "pool/first": "10.100.0.0/20" overlaps pool "main" ("10.100.0.0/16"), ranges of its own are allowed; it is set aside',
    });
    expect(inForce(clusterWith({ pools }, emptyCluster))).toEqual(good);
  });
});

describe("assess() with other addresses", () => {
  test("takes from a node what another one has already, and keeps the node", () => {
    const cluster = clusterWith({ nodes: { node2: "172.31.127.252/20 192.0.2.1 192.0.2.2" } });
    expect(inForce(cluster).nodes).toEqual({ ...good.nodes, node2: "172.31.127.252/20 192.0.2.2" });
    expect(messages(cluster)).toEqual({
      "node/node2":
        'Cannot use "node/node2": other address "192.0.2.1" belongs to node "node1" already; "192.0.2.1" is set aside',
    });
  });

  test("gives a tunnel end point to the node that needs it, whoever named it first", () => {
    const cluster = clusterWith({ nodes: { node3: "192.0.2.1/24" } });
    expect(inForce(cluster).nodes).toEqual({ ...good.nodes, node1: "172.31.112.2/20", node3: "192.0.2.1/24" });
    expect(Object.keys(messages(cluster))).toEqual(["node/node1"]);
  });

  test("takes from a node what lies in a pool", () => {
    const cluster = clusterWith({ nodes: { node2: "172.31.127.252/20 10.100.9.192" } });
    expect(inForce(cluster)).toEqual(good);
    expect(messages(cluster)["node/node2"]).toBe(
      'Cannot use "node/node2": other address "10.100.9.192" lies in pool "main" ("10.100.0.0/16"); "10.100.9.192" is set aside',
    );
  });

  test("does not mind a node that names its own address again", () => {
    const nodes = { node2: "172.31.127.252/20 172.31.127.252 192.0.2.9 192.0.2.9" };
    const cluster = clusterWith({ nodes });
    expect(inForce(cluster).nodes).toEqual({ ...good.nodes, ...nodes });
    expect(cluster.conditions).toEqual([]);
  });
});

describe("assess() with blocks", () => {
  test.each([
    ["10.101.0.0/26", '"10.101.0.0/26" lies outside of every accepted pool'],
    ["10.100.1.0/27", '"10.100.1.0/27" is not of the block size of pool "main", prefix length 26 is allowed'],
    ["10.100.0.0/20", '"10.100.0.0/20" is not of the block size of pool "main", prefix length 26 is allowed'],
  ])("sets %s aside", (cidr, problem) => {
    const cluster = clusterWith({ blocks: { [cidr]: "node1" } });
    expect(inForce(cluster)).toEqual(good);
    expect(messages(cluster)).toEqual({
      [`block/${blockName(cidr)}`]: `Cannot use "block/${blockName(cidr)}": ${problem}; it is set aside`,
    });
  });

  test("sets a block aside that is larger than the pool in it", () => {
    const cluster = clusterWith({ pools: { small: "10.101.0.0/26" }, blocks: { "10.101.0.0/24": "node1" } });
    expect(messages(cluster)["block/10.101.0.0-24"]).toMatch(/lies outside of every accepted pool/);
  });

  test("lets a block wait for its node, and takes it out when the node is removed", () => {
    const blocks = { "10.100.20.0/26": "node3" };
    const waiting = clusterWith({ blocks });
    expect(inForce(waiting)).toEqual(good);
    expect(messages(waiting)["block/10.100.20.0-26"]).toBe(
      'Cannot use "block/10.100.20.0-26": its node "node3" is not among the accepted nodes; it is set aside',
    );
    const there = clusterWith({ blocks, nodes: { node3: "172.31.112.3/20" } }, waiting);
    expect(inForce(there).blocks).toEqual({ ...good.blocks, ...blocks });
    expect(inForce(clusterWith({ blocks }, there)).blocks).toEqual(good.blocks);
  });

  test("follows a block to another node", () => {
    const cluster = clusterWith({ blocks: { "10.100.15.128/26": "node2" } });
    expect(inForce(cluster).blocks).toEqual({ "10.100.15.128/26": "node2", "10.100.9.192/26": "node2" });
  });

  test("obeys the removal of a node and a block", () => {
    const previous = assess(documents(good));
    expect(inForce(assess(documents(without(good, "nodes", "node2")), previous)).blocks).toEqual({
      "10.100.15.128/26": "node1",
    });
    expect(inForce(assess(documents(without(good, "blocks", "10.100.9.192/26")), previous)).blocks).toEqual({
      "10.100.15.128/26": "node1",
    });
  });
});

describe("assess() with a pool that changes", () => {
  test.each(["10.100.0.0/21", "10.100.0.0/16 27", "10.200.0.0/16"])(
    "to %s keeps the former one while that has blocks",
    (pool) => {
      const cluster = clusterWith({ pools: { main: pool } });
      expect(inForce(cluster)).toEqual(good);
      expect(messages(cluster)).toEqual({
        "pool/main":
          'Cannot use "pool/main": CIDR and block size of a pool with blocks cannot change, and "10.100.15.128/26" is a block of "10.100.0.0/16" with block size 26; its last accepted version stays in force',
      });
    },
  );

  test("lets it grow around its blocks, and lets another pool take them over", () => {
    const grown = clusterWith({ pools: { main: "10.96.0.0/12" } });
    expect(inForce(grown)).toEqual({ ...good, pools: { main: "10.96.0.0/12 26" } });
    const split = { main: "10.100.0.0/21 26", other: "10.100.8.0/21 26" };
    const cluster = clusterWith({ pools: split });
    expect(inForce(cluster)).toEqual({ ...good, pools: split });
    expect(cluster.conditions).toEqual([]);
  });

  test("lets it change when its blocks are gone", () => {
    const pools = { main: "10.200.0.0/16 27" };
    const cluster = assess(documents({ ...good, pools, blocks: {} }), assess(documents(good)));
    expect(inForce(cluster)).toEqual({ ...good, pools, blocks: {} });
  });
});

describe("assess() with a pool that is removed", () => {
  const removed = without(good, "pools", "main");
  const leaving = { ...good, pools: { main: "10.100.0.0/16 26 disabled" } };

  test("keeps it for its blocks, gives nothing new from it, and says what keeps it", () => {
    const cluster = assess(documents(removed), assess(documents(good)));
    expect(inForce(cluster)).toEqual(leaving);
    expect(messages(cluster)).toEqual({
      "pool/main":
        'Cannot remove pool "main" ("10.100.0.0/16") yet: 2 blocks of it are left, "10.100.15.128/26" of node "node1" among them; nothing new is given from it, and it goes with its last block when the pods that have its addresses are gone',
    });
    expect(assess(documents(removed), cluster)).toEqual(cluster);
  });

  test("removes it with its last block", () => {
    const one = without(removed as typeof good, "blocks", "10.100.9.192/26");
    const shrunk = assess(documents(one), assess(documents(removed), assess(documents(good))));
    expect(inForce(shrunk)).toEqual({ ...leaving, blocks: { "10.100.15.128/26": "node1" } });
    expect(messages(shrunk)["pool/main"]).toMatch(/yet: 1 block of it is left, "10.100.15.128\/26" of node "node1"/);
    const gone = assess(documents({ ...removed, blocks: {} }), shrunk);
    expect(inForce(gone)).toEqual({ ...good, pools: {}, blocks: {} });
    expect(gone.conditions).toEqual([]);
  });

  test("removes a pool without blocks at once", () => {
    const cluster = assess(documents({ ...removed, blocks: {} }), assess(documents({ ...good, blocks: {} })));
    expect(inForce(cluster)).toEqual({ ...good, pools: {}, blocks: {} });
    expect(cluster.conditions).toEqual([]);
  });

  test("keeps it for a block whose document cannot be used, and for one whose node is away", () => {
    const blocks: NonNullable<Given["blocks"]> = { "10.100.15.128/26": broken, "10.100.9.192/26": "node9" };
    const cluster = assess(documents({ ...removed, blocks }), assess(documents(good)));
    expect(inForce(cluster)).toEqual({ ...leaving, blocks: { "10.100.15.128/26": "node1" } });
    expect(messages(cluster)["pool/main"]).toMatch(/yet: 2 blocks of it are left/);
  });

  test("obeys it again when its document is back", () => {
    const back = assess(documents(good), assess(documents(removed), assess(documents(good))));
    expect(inForce(back)).toEqual(good);
    expect(back.conditions).toEqual([]);
  });

  test("keeps it as it was left when its document is back with another CIDR or block size, or is broken", () => {
    const previous = assess(documents(removed), assess(documents(good)));
    const changes: NonNullable<Given["pools"]>[] = [
      { main: "10.200.0.0/16 26" },
      { main: "10.100.0.0/16 27" },
      { main: broken },
    ];
    for (const pools of changes) {
      const cluster = assess(documents({ ...good, pools }), previous);
      expect(inForce(cluster)).toEqual(leaving);
      expect(messages(cluster)["pool/main"]).toMatch(/; its last accepted version stays in force$/);
    }
  });

  test("does not keep it when another pool takes over all of its blocks", () => {
    const pools = { renamed: "10.100.0.0/16 26" };
    for (const previous of [assess(documents(good)), assess(documents(removed), assess(documents(good)))]) {
      const cluster = assess(documents({ ...good, pools }), previous);
      expect(inForce(cluster)).toEqual({ ...good, pools });
      expect(cluster.conditions).toEqual([]);
    }
  });

  test.each([
    ["a pool of another block size", { pools: { other: "10.100.0.0/16 27" } }, "pool/other"],
    ["a pool for some of its blocks only", { pools: { other: "10.100.8.0/22 26" } }, "pool/other"],
    ["a node", { nodes: { ...good.nodes, node3: "10.100.77.1/24" } }, "node/node3"],
    ["external nodes", { external: [...good.external, "10.100.77.0/24"] }, "settings/cluster"],
  ])("refuses %s in its place", (_, newcomer, object) => {
    const cluster = assess(documents({ ...removed, ...newcomer }), assess(documents(good)));
    expect(inForce(cluster)).toEqual(leaving);
    expect(Object.keys(messages(cluster))).toEqual(expect.arrayContaining(["pool/main", object]));
  });

  test("sets its blocks aside where nobody remembers it", () => {
    const cluster = assess(documents(removed));
    expect(inForce(cluster)).toEqual({ ...good, pools: {}, blocks: {} });
    expect(messages(cluster)["block/10.100.9.192-26"]).toBe(
      'Cannot use "block/10.100.9.192-26": "10.100.9.192/26" lies outside of every accepted pool; it is set aside',
    );
  });
});

describe("assess() with a pool that is disabled", () => {
  const pools = { main: "10.100.0.0/16 26 disabled" };

  test("keeps its blocks in force, before a restart and after it", () => {
    for (const previous of [assess(documents(good)), emptyCluster]) {
      const cluster = clusterWith({ pools }, previous);
      expect(inForce(cluster)).toEqual({ ...good, pools });
      expect(cluster.conditions).toEqual([]);
    }
  });

  test("gives from it again when it is enabled", () => {
    expect(inForce(clusterWith({}, clusterWith({ pools })))).toEqual(good);
  });
});

describe("assess() with external nodes", () => {
  test("leaves out those that overlap a pool, and keeps the others", () => {
    const cluster = clusterWith({ external: ["10.100.200.0/24", "203.0.113.0/24", "10.0.0.0/8"] });
    expect(inForce(cluster)).toEqual({ ...good, external: ["203.0.113.0/24"] });
    expect(cluster.conditions.map(({ message }) => message)).toEqual([
      'Cannot use "settings/cluster": "10.0.0.0/8" of the external nodes overlaps pool "main" ("10.100.0.0/16"); "10.0.0.0/8" is set aside',
      'Cannot use "settings/cluster": "10.100.200.0/24" of the external nodes overlaps pool "main" ("10.100.0.0/16"); "10.100.200.0/24" is set aside',
    ]);
  });

  test("refuses a pool that overlaps some which are let in already", () => {
    const cluster = clusterWith({ pools: { late: "198.51.100.128/25" } });
    expect(inForce(cluster)).toEqual(good);
    expect(messages(cluster)).toEqual({
      "pool/late":
        'Cannot use "pool/late": "198.51.100.128/25" overlaps "198.51.100.0/24" of the external nodes, other ranges are allowed; it is set aside',
    });
  });

  test("may hold the addresses of nodes", () => {
    expect(clusterWith({ external: ["172.31.112.0/20"] }).conditions).toEqual([]);
  });
});

describe("diff()", () => {
  test("from nothing gives every object and the settings", () => {
    expect(diff(undefined, emptyCluster)).toEqual([{ kind: "settings", value: emptyCluster.settings }]);
    expect(diff(undefined, assess(documents(good)))).toHaveLength(6);
  });

  test("gives what is new, changed and gone", () => {
    const previous = assess(documents(good));
    const next = assess(
      documents({
        nodes: { node1: good.nodes.node1, node3: "172.31.112.3/20" },
        pools: good.pools,
        blocks: { "10.100.15.128/26": "node3" },
        external: [],
      }),
      previous,
    );
    expect(diff(previous, next)).toEqual([
      { kind: "node", name: "node3", value: next.nodes.get("node3") },
      { kind: "node", name: "node2", value: undefined },
      { kind: "block", name: "10.100.15.128-26", value: { cidr: "10.100.15.128/26", node: "node3" } },
      { kind: "block", name: "10.100.9.192-26", value: undefined },
      { kind: "settings", value: { kind: "ClusterSettings", externalNodeCidrs: [] } },
    ]);
  });

  test("is empty when documents were read again that say the same", () => {
    const previous = assess(documents(good));
    expect(diff(previous, assess(documents(good)))).toEqual([]);
    expect(diff(previous, assess(documents(good), previous))).toEqual([]);
  });
});
