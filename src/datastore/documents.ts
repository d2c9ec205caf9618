/** The documents of a datastore: what a node, a pool, a block and the cluster's settings may say. */
import { z } from "zod";
import { containsRange, parseCidr } from "../cidr.ts";
import { type Issue, sentence, show } from "../sentence.ts";
import { blockCidr, hostAddress, network, objectName, part, tunnelEndPoint } from "./fields.ts";
import { type LabelSelector, type Labels, labelSelector, labels } from "./selector.ts";

/** One machine of the cluster. */
export interface Node {
  readonly name: string;
  /** The node's tunnel end point with the prefix of its link, "172.31.112.2/20". */
  readonly address: string;
  /** Further global addresses that the node really has: the kernel may send tunnel packets from any of them. */
  readonly otherAddresses?: readonly string[];
  /** What a pool's node selector goes by. */
  readonly labels?: Labels;
  /** It is down for good, as its owner says: what its pods had may be taken from it at once. */
  readonly outOfService?: boolean;
}

/** Addresses for pods, handed to nodes in blocks. */
export interface Pool {
  readonly name: string;
  readonly cidr: string;
  /** Prefix length of its blocks, 20 to 32. */
  readonly blockSize: number;
  /** When the blocks of the pool are reached through the tunnel, and when directly. */
  readonly ipipMode: IpipMode;
  /** Whether what pods send to outside of all pools leaves with an address of their node. */
  readonly natOutgoing: boolean;
  /** Nothing new is given from it; what was given stays. */
  readonly disabled: boolean;
  /** Which nodes may claim its blocks. */
  readonly nodeSelector: LabelSelector;
  /** Which Kubernetes namespaces' pods get its addresses, unless they ask for it by name. */
  readonly namespaceSelector: LabelSelector;
  /** What its addresses are for: pods, and the nodes' own ends of the tunnel. */
  readonly allowedUses: readonly PoolUse[];
  /** CIDRs in it that are never given. */
  readonly reservedCidrs: readonly string[];
}

/** Always by the tunnel, only between nodes on different subnets, or never. */
export const ipipModes = ["Always", "CrossSubnet", "Never"] as const;
export type IpipMode = (typeof ipipModes)[number];

export const poolUses = ["Workload", "Tunnel"] as const;
export type PoolUse = (typeof poolUses)[number];

/** A part of a pool whose addresses are given to the pods of one node. */
export interface Block {
  readonly cidr: string;
  /** Name of the node. */
  readonly node: string;
  /** The lowest of a node's blocks holds its tunnel address. */
  readonly claimOrder?: number;
  /** Of the node that claimed it, see `nodeInstance`: a node that was installed anew has another. */
  readonly instance?: string;
}

/** Stands once in every datastore; the file kind knows by it that a directory is one. */
export interface ClusterSettings {
  readonly kind: "ClusterSettings";
  /** Tunnel end points outside of the cluster whose packets are let in. */
  readonly externalNodeCidrs: readonly string[];
}

export interface DocumentKinds {
  node: Node;
  pool: Pool;
  block: Block;
  settings: ClusterSettings;
}

export type Kind = keyof DocumentKinds;

/** The settings have no name of their own. */
export const settingsName = "cluster";

/** The name under which a block is stored: "10.100.15.128-26" for 10.100.15.128/26. */
export function blockName(cidr: string): string {
  return cidr.replace("/", "-");
}

/**
 * Checks what was read for the object of this kind and name.
 * Throws a SyntaxError whose message is a problem to be put after the document's source and a colon.
 */
export function parseDocument<K extends Kind>(kind: K, name: string, data: unknown): DocumentKinds[K] {
  const { schema, identity } = rules[kind];
  const result = schema.safeParse(data, { reportInput: true });
  if (!result.success) {
    throw new SyntaxError(sentence(schema, result.error.issues as Issue[]));
  }
  const own = identity(result.data);
  if (own !== name) {
    throw new SyntaxError(`its name is "${name}", but it is the document of "${own}"`);
  }
  return result.data;
}

const pool = z
  .strictObject({
    name: objectName,
    cidr: network,
    blockSize: z.int().min(20).max(32).default(26),
    ipipMode: z.enum(ipipModes).default("Always"),
    natOutgoing: z.boolean().default(false),
    disabled: z.boolean().default(false),
    nodeSelector: labelSelector,
    namespaceSelector: labelSelector,
    allowedUses: z
      .array(z.enum(poolUses))
      .refine((uses) => uses.length > 0, {
        error: `an empty list is not supported, allowed are ${poolUses.map(show).join(", ")}`,
      })
      .default([...poolUses]),
    reservedCidrs: z.array(part).default([]),
  })
  .superRefine(({ cidr, blockSize, reservedCidrs }, context) => {
    const { prefixLength } = parseCidr(cidr);
    if (blockSize < prefixLength) {
      const message = `${blockSize} makes blocks larger than "${cidr}", numbers from ${Math.max(20, prefixLength)} to 32 are allowed`;
      context.addIssue({ code: "custom", message, path: ["blockSize"] });
    }
    for (const [index, reserved] of reservedCidrs.entries()) {
      if (!containsRange(parseCidr(cidr), parseCidr(reserved))) {
        const message = `"${reserved}" is not in "${cidr}", parts of the pool are allowed`;
        context.addIssue({ code: "custom", message, path: ["reservedCidrs", index] });
      }
    }
  });

type Rules = {
  [K in Kind]: {
    schema: z.ZodObject & z.ZodType<DocumentKinds[K]>;
    identity: (value: DocumentKinds[K]) => string;
  };
};

const rules: Rules = {
  node: {
    schema: z.strictObject({
      name: objectName,
      address: tunnelEndPoint,
      otherAddresses: z.exactOptional(z.array(hostAddress)),
      labels: z.exactOptional(labels),
      outOfService: z.exactOptional(z.boolean()),
    }),
    identity: ({ name }) => name,
  },
  pool: { schema: pool, identity: ({ name }) => name },
  block: {
    schema: z.strictObject({
      cidr: blockCidr,
      node: objectName,
      claimOrder: z.exactOptional(z.int().min(0)),
      instance: z.exactOptional(z.string().min(1).max(64)),
    }),
    identity: ({ cidr }) => blockName(cidr),
  },
  settings: {
    schema: z.strictObject({
      kind: z.literal("ClusterSettings"),
      externalNodeCidrs: z.array(network).default([]),
    }),
    identity: () => settingsName,
  },
};
