/** Custom resources, right and wrong, with what has to refuse them. */

/** What refuses a resource: the schema, unknown fields with it, or the CEL rule with this message. */
type Refusal = "schema" | `rule: ${string}`;

export interface Row {
  readonly kind: string;
  readonly name?: string;
  readonly spec: object;
  readonly refused?: Refusal;
}

const pool = (spec: object, refused?: Refusal): Row => ({
  kind: "IPPool",
  name: "main",
  spec: { cidr: "10.100.0.0/16", ...spec },
  ...(refused && { refused }),
});
const block = (spec: object, refused?: Refusal, name = "10.100.15.128-26"): Row => ({
  kind: "IPBlock",
  name,
  spec: { cidr: "10.100.15.128/26", node: "node1", ...spec },
  ...(refused && { refused }),
});
const settings = (spec: object, refused?: Refusal, name = "cluster"): Row => ({
  kind: "ClusterSettings",
  name,
  spec,
  ...(refused && { refused }),
});

const hostBits = "rule: has host bits set, a CIDR is given by its network address";
const noPodHasIt =
  "rule: reaches into addresses that no pod or node can have (unspecified, loopback, link-local, multicast or broadcast)";
const tooLarge = "rule: blockSize makes blocks larger than the pool";
const notInPool = "rule: reservedCidrs has a CIDR that is not in the pool";
const values = "rule: In and NotIn need at least one value, Exists and DoesNotExist take none";
const name =
  'rule: the name of a block is its CIDR with "-" in place of "/", so that two nodes cannot have the same block';

export const rows: readonly Row[] = [
  pool({}),
  pool({
    blockSize: 32,
    ipipMode: "CrossSubnet",
    natOutgoing: true,
    disabled: true,
    nodeSelector: { matchLabels: { rack: "r1", "cni-ipip.io/empty": "" } },
    namespaceSelector: {
      matchExpressions: [
        { key: "team", operator: "In", values: ["a", "b"] },
        { key: "team", operator: "NotIn", values: ["c"] },
        { key: "team", operator: "Exists" },
        { key: "other", operator: "DoesNotExist", values: [] },
      ],
    },
    allowedUses: ["Tunnel"],
    reservedCidrs: ["10.100.0.0/30", "10.100.255.255/32"],
  }),
  ...["10.0.0.0/8", "240.0.0.0/8", "10.100.15.128/32", "0.0.0.0/8", "169.255.0.0/16", "169.0.0.0/9"].map((cidr) =>
    pool({ cidr, blockSize: 32 }, cidr === "0.0.0.0/8" ? noPodHasIt : undefined),
  ),
  ...["127.0.0.0/8", "127.1.0.0/16", "169.254.0.0/16", "169.0.0.0/8", "169.254.7.0/24", "224.0.0.0/8"].map((cidr) =>
    pool({ cidr, blockSize: 32 }, noPodHasIt),
  ),
  ...["239.1.0.0/16", "255.0.0.0/8", "255.255.255.255/32"].map((cidr) => pool({ cidr, blockSize: 32 }, noPodHasIt)),
  ...["10.100.0.1/16", "10.100.15.129/26"].map((cidr) => pool({ cidr }, hostBits)),
  ...["", "10.100.0.0", "10.100.0.0/", "10.100.0.0/7", "10.100.0.0/33", "10.100.0.0/016", "010.100.0.0/16"].map(
    (cidr) => pool({ cidr }, "schema"),
  ),
  ...["10.100.0/16", "256.0.0.0/16", "fd00::/64", "::ffff:10.100.0.0/112", " 10.100.0.0/16", "10.100.0.0/16\n"].map(
    (cidr) => pool({ cidr }, "schema"),
  ),
  pool({ cidr: undefined }, "schema"),
  pool({ cidr: 10 }, "schema"),
  pool({ cidr: ["10.100.0.0/16"] }, "schema"),
  ...[19, 33, -1, 26.5, "26"].map((blockSize) => pool({ blockSize }, "schema")),
  pool({ cidr: "10.100.0.0/26", blockSize: 26 }),
  pool({ cidr: "10.100.0.0/26", blockSize: 25 }, tooLarge),
  pool({ cidr: "10.100.0.0/27" }, tooLarge),
  ...["always", "", 1].map((ipipMode) => pool({ ipipMode }, "schema")),
  pool({ natOutgoing: "true" }, "schema"),
  pool({ disabled: 0 }, "schema"),
  ...[[], ["Pods"], "Workload"].map((allowedUses) => pool({ allowedUses }, "schema")),
  ...["10.101.0.0/30", "10.0.0.0/8"].map((reserved) => pool({ reservedCidrs: [reserved] }, notInPool)),
  pool({ reservedCidrs: ["10.100.0.1/30"] }, hostBits),
  ...["10.100.0.1", "10.100.0.0/33", 5].map((reserved) => pool({ reservedCidrs: [reserved] }, "schema")),
  pool({ nodeSelector: { matchLabels: { rack: 1 } } }, "schema"),
  pool({ nodeSelector: { matchLabels: { "": "r1" } } }, "rule: a label has a name"),
  pool({ nodeSelector: { matchLabel: { rack: "r1" } } }, "schema"),
  pool({ nodeSelector: { matchExpressions: [{ key: "", operator: "Exists" }] } }, "schema"),
  pool({ nodeSelector: { matchExpressions: [{ key: "rack", operator: "Gt", values: ["1"] }] } }, "schema"),
  pool({ nodeSelector: { matchExpressions: [{ key: "rack", operator: "In" }] } }, values),
  pool({ nodeSelector: { matchExpressions: [{ key: "rack", operator: "NotIn", values: [] }] } }, values),
  pool({ nodeSelector: { matchExpressions: [{ key: "rack", operator: "Exists", values: ["r1"] }] } }, values),
  pool({ blocksize: 26 }, "schema"),

  block({}),
  block({ claimOrder: 0, instance: "0d9d7c6c-3c4c-4be8-a1a4-9ddab2a0d1b3" }),
  block({ claimOrder: Number.MAX_SAFE_INTEGER, node: "Node_1.example" }),
  block({ cidr: "10.100.0.0/20" }, undefined, "10.100.0.0-20"),
  block({ cidr: "10.100.0.1/32" }, undefined, "10.100.0.1-32"),
  block({ cidr: "10.100.0.0/19" }, "schema", "10.100.0.0-19"),
  block({ cidr: "10.100.15.129/26" }, hostBits, "10.100.15.129-26"),
  block({}, name, "10.100.15.192-26"),
  block({}, name, "block1"),
  block({ node: undefined }, "schema"),
  ...["", "-node", "node-", "a/b", "..", "n".repeat(254), 1].map((node) => block({ node }, "schema")),
  ...[-1, 0.5, "0", 2 ** 53].map((claimOrder) => block({ claimOrder }, "schema")),
  ...["", "i".repeat(65), 7].map((instance) => block({ instance }, "schema")),
  block({ owner: "node1" }, "schema"),

  settings({}),
  settings({ externalNodeCidrs: ["192.0.2.0/24", "198.51.100.7/32"] }),
  settings({}, 'rule: the only settings are named "cluster"', "default"),
  settings({ externalNodeCidrs: ["192.0.2.1/24"] }, hostBits),
  settings({ externalNodeCidrs: ["127.0.0.0/8"] }, noPodHasIt),
  ...["0.0.0.0/0", "192.0.2.1", "2001:db8::/32", 1].map((cidr) => settings({ externalNodeCidrs: [cidr] }, "schema")),
  settings({ externalNodeCidrs: "192.0.2.0/24" }, "schema"),
  settings({ externalNodesCidrs: [] }, "schema"),
];
