import { describe, expect, test } from "@jest/globals";
import { type Kind, parseDocument } from "../../../src/datastore/documents.ts";

const valid = {
  node: {
    name: "node1",
    address: "172.31.112.2/20",
    otherAddresses: ["192.0.2.7"],
    labels: { rack: "r1" },
    outOfService: true,
  },
  pool: {
    name: "main",
    cidr: "10.100.0.0/16",
    blockSize: 26,
    ipipMode: "CrossSubnet",
    natOutgoing: true,
    disabled: true,
    nodeSelector: { matchLabels: { rack: "r1" }, matchExpressions: [{ key: "gpu", operator: "Exists" }] },
    namespaceSelector: { matchLabels: {}, matchExpressions: [{ key: "team", operator: "In", values: ["a", "b"] }] },
    allowedUses: ["Workload"],
    reservedCidrs: ["10.100.0.0/24", "10.100.255.255/32"],
  },
  block: { cidr: "10.100.15.128/26", node: "node1", claimOrder: 0, instance: "5e0f2c1a-7d3b-4c55-9c58-0a7b4b1d2e3f" },
  settings: { kind: "ClusterSettings", externalNodeCidrs: ["198.51.100.0/24"] },
};

const names = { node: "node1", pool: "main", block: "10.100.15.128-26", settings: "cluster" };

describe.each(["node", "pool", "block", "settings"] as const)("parseDocument() for a %s", (kind) => {
  test("gives a valid document back as it is", () => {
    expect(parseDocument(kind, names[kind], valid[kind])).toEqual(valid[kind]);
  });

  test.each([
    [null, "null is not an object"],
    [[], "[] is not an object"],
    ["x", '"x" is not an object'],
    [7, "7 is not an object"],
  ])("refuses %j", (data, problem) => {
    expect(() => parseDocument(kind, names[kind], data)).toThrow(new SyntaxError(problem));
  });

  test("refuses fields that it does not know, by name", () => {
    const fields = Object.keys(valid[kind]).map((name) => `"${name}"`);
    expect(() => parseDocument(kind, names[kind], { ...valid[kind], surprise: 1, 'odd"': 2 })).toThrow(
      new SyntaxError(`unknown field "surprise", "odd\\"", allowed are ${fields.join(", ")}`),
    );
    const polluting = JSON.parse(JSON.stringify(valid[kind]).replace("{", '{"__proto__":{},'));
    expect(() => parseDocument(kind, names[kind], polluting)).toThrow('unknown field "__proto__"');
  });
});

test.each<[Kind, string, object]>([
  ["node", "node1", { name: "node1", address: "172.31.112.2/20" }],
  ["node", "Node_1.example", { name: "Node_1.example", address: "240.0.0.1/32" }],
  ["node", "node1", { name: "node1", address: "172.31.112.0/31" }],
  ["block", "10.100.15.128-26", { cidr: "10.100.15.128/26", node: "node1" }],
  ["block", "10.100.0.0-20", { cidr: "10.100.0.0/20", node: "node1" }],
  ["block", "10.100.0.7-32", { cidr: "10.100.0.7/32", node: "node1" }],
])("parseDocument() takes a %s %s without its optional fields", (kind, name, data) => {
  expect(parseDocument(kind, name, data)).toEqual(data);
});

test("parseDocument() fills in what a pool does not say, and the external nodes", () => {
  const pool = { name: "main", cidr: "10.100.0.0/16" };
  const everything = { matchLabels: {}, matchExpressions: [] };
  expect(parseDocument("pool", "main", pool)).toEqual({
    ...pool,
    blockSize: 26,
    ipipMode: "Always",
    natOutgoing: false,
    disabled: false,
    nodeSelector: everything,
    namespaceSelector: everything,
    allowedUses: ["Workload", "Tunnel"],
    reservedCidrs: [],
  });
  expect(parseDocument("settings", "cluster", { kind: "ClusterSettings" }).externalNodeCidrs).toEqual([]);
});

test("parseDocument() fills in what a selector does not say", () => {
  const nodeSelector = { matchExpressions: [{ key: "rack", operator: "NotIn", values: ["r9"] }] };
  const pool = parseDocument("pool", "main", { name: "main", cidr: "10.100.0.0/16", nodeSelector });
  expect(pool.nodeSelector).toEqual({ matchLabels: {}, ...nodeSelector });
});

test("parseDocument() names a mistyped field and not the one that is missing for it", () => {
  expect(() => parseDocument("node", "node1", { name: "node1", adress: "172.31.112.2/20" })).toThrow(
    new SyntaxError(
      'unknown field "adress", allowed are "name", "address", "otherAddresses", "labels", "outOfService"',
    ),
  );
});

test.each<[Kind, object, string]>([
  ["node", { name: undefined }, 'field "name": it is missing'],
  ["node", { name: 7 }, 'field "name": 7 is not a text'],
  ["node", { name: "node2" }, 'its name is "node1", but it is the document of "node2"'],
  ...["", "../node1", "a/b", ".node", "node-", "no de", "nöde", "node\n", "x".repeat(254)].map(
    (name): [Kind, object, string] => [
      "node",
      { name },
      `field "name": ${JSON.stringify(name)} is not a name of at most 253 letters, digits, "-", "_" and "." that starts and ends with a letter or digit`,
    ],
  ),
  ["node", { address: undefined }, 'field "address": it is missing'],
  ["node", { address: "" }, 'field "address": "" is not an IPv4 address and a prefix length like "172.31.112.2/20"'],
  [
    "node",
    { address: "172.31.112.2" },
    'field "address": "172.31.112.2" is not an IPv4 address and a prefix length like "172.31.112.2/20"',
  ],
  ["node", { address: "fe80::1/64" }, 'field "address": "fe80::1/64" is IPv6, only IPv4 is supported'],
  [
    "node",
    { address: "172.31.112.2/0" },
    'field "address": "172.31.112.2/0" is not on a link, prefix lengths from 1 to 32 are allowed',
  ],
  [
    "node",
    { address: "172.31.112.0/20" },
    'field "address": "172.31.112.0/20" is the network address of its link, allowed are 172.31.112.1 to 172.31.127.254',
  ],
  [
    "node",
    { address: "172.31.127.255/20" },
    'field "address": "172.31.127.255/20" is the broadcast address of its link, allowed are 172.31.112.1 to 172.31.127.254',
  ],
  [
    "node",
    { address: "0.0.0.0/8" },
    'field "address": "0.0.0.0/8" is not allowed, it reaches into the unspecified network',
  ],
  ["node", { address: "127.0.0.1/8" }, 'field "address": "127.0.0.1/8" is not allowed, it reaches into loopback'],
  [
    "node",
    { address: "169.254.1.1/16" },
    'field "address": "169.254.1.1/16" is not allowed, it reaches into link-local',
  ],
  ["node", { address: "224.0.0.1/24" }, 'field "address": "224.0.0.1/24" is not allowed, it reaches into multicast'],
  [
    "node",
    { address: "255.255.255.255/32" },
    'field "address": "255.255.255.255/32" is not allowed, it reaches into broadcast',
  ],
  ["node", { otherAddresses: "192.0.2.7" }, 'field "otherAddresses": "192.0.2.7" is not a list'],
  ["node", { otherAddresses: null }, 'field "otherAddresses": null is not a list'],
  ["node", { otherAddresses: ["192.0.2.7", 8] }, 'field "otherAddresses[1]": 8 is not a text'],
  [
    "node",
    { otherAddresses: ["192.0.2.7/24"] },
    'field "otherAddresses[0]": "192.0.2.7/24" is not an IPv4 address like "172.31.112.2"',
  ],
  [
    "node",
    { otherAddresses: ["127.0.0.1"] },
    'field "otherAddresses[0]": "127.0.0.1" is not allowed, it reaches into loopback',
  ],
  [
    "node",
    { otherAddresses: ["2001:db8::1"] },
    'field "otherAddresses[0]": "2001:db8::1" is IPv6, only IPv4 is supported',
  ],
  ["node", { labels: ["rack"] }, 'field "labels": ["rack"] is not an object'],
  ["node", { labels: { rack: null } }, 'field "labels.rack": null is not a text'],
  ["node", { labels: { "": "r1" } }, 'field "labels.": its name "" is too short, lengths from 1 on are allowed'],
  ["node", { outOfService: "yes" }, 'field "outOfService": "yes" is not true or false'],

  [
    "pool",
    { cidr: "10.100.0.1/16" },
    'field "cidr": "10.100.0.1/16" has host bits set, its network is "10.100.0.0/16"',
  ],
  ["pool", { cidr: "10.0.0.0/7" }, 'field "cidr": "10.0.0.0/7" is too broad, prefix lengths from 8 to 32 are allowed'],
  ["pool", { cidr: "0.0.0.0/0" }, 'field "cidr": "0.0.0.0/0" is too broad, prefix lengths from 8 to 32 are allowed'],
  ["pool", { cidr: "224.0.0.0/8" }, 'field "cidr": "224.0.0.0/8" is not allowed, it reaches into multicast'],
  ["pool", { cidr: "fd00::/64" }, 'field "cidr": "fd00::/64" is IPv6, only IPv4 is supported'],
  ["pool", { blockSize: 19 }, 'field "blockSize": 19 is too small, numbers from 20 on are allowed'],
  ["pool", { blockSize: 33 }, 'field "blockSize": 33 is too big, numbers up to 32 are allowed'],
  ["pool", { blockSize: 26.5 }, 'field "blockSize": 26.5 is not a whole number'],
  ["pool", { blockSize: "26" }, 'field "blockSize": "26" is not a whole number'],
  [
    "pool",
    { cidr: "10.100.0.0/28", blockSize: 26 },
    'field "blockSize": 26 makes blocks larger than "10.100.0.0/28", numbers from 28 to 32 are allowed',
  ],
  ...["always", "Crosssubnet", "", true].map((ipipMode): [Kind, object, string] => [
    "pool",
    { ipipMode },
    `field "ipipMode": ${JSON.stringify(ipipMode)} is not supported, allowed are "Always", "CrossSubnet", "Never"`,
  ]),
  ["pool", { natOutgoing: "false" }, 'field "natOutgoing": "false" is not true or false'],
  ["pool", { disabled: 1 }, 'field "disabled": 1 is not true or false'],
  [
    "pool",
    { allowedUses: [] },
    'field "allowedUses": an empty list is not supported, allowed are "Workload", "Tunnel"',
  ],
  [
    "pool",
    { allowedUses: ["Tunnel", "LoadBalancer"] },
    'field "allowedUses[1]": "LoadBalancer" is not supported, allowed are "Workload", "Tunnel"',
  ],
  ["pool", { allowedUses: "Workload" }, 'field "allowedUses": "Workload" is not a list'],
  [
    "pool",
    { reservedCidrs: ["10.100.0.0/24", "10.101.0.0/24"] },
    'field "reservedCidrs[1]": "10.101.0.0/24" is not in "10.100.0.0/16", parts of the pool are allowed',
  ],
  [
    "pool",
    { reservedCidrs: ["10.0.0.0/8"] },
    'field "reservedCidrs[0]": "10.0.0.0/8" is not in "10.100.0.0/16", parts of the pool are allowed',
  ],
  [
    "pool",
    { reservedCidrs: ["10.100.0.1/24"] },
    'field "reservedCidrs[0]": "10.100.0.1/24" has host bits set, its network is "10.100.0.0/24"',
  ],
  ["pool", { nodeSelector: null }, 'field "nodeSelector": null is not an object'],
  ["pool", { nodeSelector: "rack == 'r1'" }, 'field "nodeSelector": "rack == \'r1\'" is not an object'],
  [
    "pool",
    { nodeSelector: { matchLabel: {} } },
    'field "nodeSelector": unknown field "matchLabel", allowed are "matchLabels", "matchExpressions"',
  ],
  [
    "pool",
    { namespaceSelector: { matchExpressions: [{ key: "team", operator: "Exists", value: "a" }] } },
    'field "namespaceSelector.matchExpressions[0]": unknown field "value", allowed are "key", "operator", "values"',
  ],
  ["pool", { nodeSelector: { matchLabels: { rack: 1 } } }, 'field "nodeSelector.matchLabels.rack": 1 is not a text'],
  [
    "pool",
    { nodeSelector: { matchExpressions: [{ key: "rack", operator: "Gt", values: ["1"] }] } },
    'field "nodeSelector.matchExpressions[0].operator": "Gt" is not supported, allowed are "In", "NotIn", "Exists", "DoesNotExist"',
  ],
  ...["In", "NotIn"].flatMap((operator) =>
    [{}, { values: [] }].map((values): [Kind, object, string] => [
      "pool",
      { nodeSelector: { matchExpressions: [{ key: "rack", operator, ...values }] } },
      `field "nodeSelector.matchExpressions[0].values": "${operator}" needs at least one value`,
    ]),
  ),
  ...["Exists", "DoesNotExist"].map((operator): [Kind, object, string] => [
    "pool",
    { nodeSelector: { matchExpressions: [{ key: "rack", operator, values: ["r1"] }] } },
    `field "nodeSelector.matchExpressions[0].values": "${operator}" takes no values`,
  ]),
  [
    "pool",
    { nodeSelector: { matchExpressions: [{ operator: "Exists" }] } },
    'field "nodeSelector.matchExpressions[0].key": it is missing',
  ],

  [
    "block",
    { cidr: "10.100.15.130/26" },
    'field "cidr": "10.100.15.130/26" has host bits set, its network is "10.100.15.128/26"',
  ],
  [
    "block",
    { cidr: "10.100.0.0/19" },
    'field "cidr": "10.100.0.0/19" is not a block, prefix lengths from 20 to 32 are allowed',
  ],
  [
    "block",
    { cidr: "10.100.15.192/26" },
    'its name is "10.100.15.128-26", but it is the document of "10.100.15.192-26"',
  ],
  ["block", { node: "" }, 'field "node": "" is not a name'],
  ["block", { node: undefined }, 'field "node": it is missing'],
  ["block", { claimOrder: -1 }, 'field "claimOrder": -1 is too small, numbers from 0 on are allowed'],
  ["block", { claimOrder: 1.5 }, 'field "claimOrder": 1.5 is not a whole number'],
  ["block", { claimOrder: 1e300 }, 'field "claimOrder": 1e+300 is too big'],

  ["block", { instance: "" }, 'field "instance": "" is too short, lengths from 1 on are allowed'],
  [
    "block",
    { instance: "x".repeat(65) },
    `field "instance": "${"x".repeat(65)}" is too long, lengths up to 64 are allowed`,
  ],
  ["block", { instance: 7 }, 'field "instance": 7 is not a text'],

  ["settings", { kind: "Settings" }, 'field "kind": "Settings" is not supported, allowed is "ClusterSettings"'],
  ["settings", { externalNodeCidrs: ["0.0.0.0/0"] }, 'field "externalNodeCidrs[0]": "0.0.0.0/0" is too broad'],
  [
    "settings",
    { externalNodeCidrs: ["128.0.0.0/1"] },
    'field "externalNodeCidrs[0]": "128.0.0.0/1" is too broad, prefix lengths from 8 to 32 are allowed',
  ],
  ["settings", { externalNodeCidrs: ["127.0.0.0/8"] }, 'field "externalNodeCidrs[0]": "127.0.0.0/8" is not allowed'],
  [
    "settings",
    { externalNodeCidrs: ["198.51.100.7"] },
    'field "externalNodeCidrs[0]": "198.51.100.7" is not an IPv4 address and a prefix',
  ],
  ["settings", { externalNodeCidrs: ["198.51.100.7/24"] }, 'its network is "198.51.100.0/24"'],
  ["settings", { externalNodeCidrs: { "198.51.100.0/24": true } }, "is not a list"],
])("parseDocument() refuses a %s with %j", (kind, wrong, problem) => {
  const data = JSON.parse(JSON.stringify({ ...valid[kind], ...wrong }));
  expect(() => parseDocument(kind, names[kind], data)).toThrow(SyntaxError);
  expect(() => parseDocument(kind, names[kind], data)).toThrow(problem);
});

test("parseDocument() cuts a long value, so that its sentence stays one", () => {
  const data = { ...valid.node, otherAddresses: { long: "x".repeat(100_000) } };
  expect(() => parseDocument("node", "node1", data)).toThrow(
    /^field "otherAddresses": \{"long":"x{1,80}… is not a list$/,
  );
});
