/** The documents of a datastore: what a node, a pool, a block and the cluster's settings may say. */
import { z } from "zod";
import { type AddressRange, formatAddress, overlaps, parseAddress, parseCidr, parseLinkAddress } from "../cidr.ts";
import { type Issue, sentence } from "../sentence.ts";

/** One machine of the cluster. */
export interface Node {
  readonly name: string;
  /** The node's tunnel end point with the prefix of its link, "172.31.112.2/20". */
  readonly address: string;
  /** Further global addresses that the node really has: the kernel may send tunnel packets from any of them. */
  readonly otherAddresses?: readonly string[];
}

/** Addresses for pods, handed to nodes in blocks. */
export interface Pool {
  readonly name: string;
  readonly cidr: string;
  /** Prefix length of its blocks, 20 to 32. */
  readonly blockSize: number;
  /** Every block of the pool is reached through the tunnel; unless given, "Always". */
  readonly ipipMode: "Always";
}

/** A part of a pool whose addresses are given to the pods of one node. */
export interface Block {
  readonly cidr: string;
  /** Name of the node. */
  readonly node: string;
  /** The lowest of a node's blocks holds its tunnel address. */
  readonly claimOrder?: number;
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

// RFC 6890 and, for broadcast, RFC 919. 240.0.0.0/4 is not among them: Linux routes it, and clouds use it.
const reserved: readonly [string, AddressRange][] = [
  ["the unspecified network", parseCidr("0.0.0.0/8")],
  ["loopback", parseCidr("127.0.0.0/8")],
  ["link-local", parseCidr("169.254.0.0/16")],
  ["multicast", parseCidr("224.0.0.0/4")],
  ["broadcast", parseCidr("255.255.255.255/32")],
];

const shortestPrefix = 8;

/** A text that `check` accepts: it throws the reason if it does not. */
function text(check: (value: string) => void) {
  return z.string().superRefine((value, context) => {
    try {
      check(value);
    } catch (error) {
      // The field is named by its path already, which makes "Cannot use address: " of a parser superfluous.
      const message = (error as Error).message.replace(/^Cannot use \w+: /, "");
      // Checks of the whole document are for documents whose fields are right.
      context.addIssue({ code: "custom", message, continue: false });
    }
  });
}

function refuseReserved(value: string, range: AddressRange): void {
  const found = reserved.find(([, other]) => overlaps(range, other));
  if (found) {
    throw new RangeError(`"${value}" is not allowed, it reaches into ${found[0]} addresses`);
  }
}

function checkName(value: string): void {
  // Linux host names and Kubernetes names; also a file name that cannot leave its directory.
  if (!/^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$/i.test(value) || value.length > 253) {
    throw new SyntaxError(
      `${JSON.stringify(value)} is not a name of at most 253 letters, digits, "-", "_" and "." that starts and ends with a letter or digit`,
    );
  }
}

function checkTunnelEndPoint(value: string): void {
  const { address, network } = parseLinkAddress(value);
  refuseReserved(value, { first: address, last: address });
  if (network.prefixLength === 0) {
    throw new RangeError(`"${value}" is not on a link, prefix lengths from 1 to 32 are allowed`);
  }
  if (network.prefixLength <= 30 && (address === network.first || address === network.last)) {
    const role = address === network.first ? "network" : "broadcast";
    throw new RangeError(
      `"${value}" is the ${role} address of its link, allowed are ${formatAddress(network.first + 1)} to ${formatAddress(network.last - 1)}`,
    );
  }
}

function checkOtherAddress(value: string): void {
  const address = parseAddress(value);
  refuseReserved(value, { first: address, last: address });
}

function checkNetwork(value: string): void {
  const cidr = parseCidr(value);
  if (cidr.prefixLength < shortestPrefix) {
    throw new RangeError(`"${value}" is too broad, prefix lengths from ${shortestPrefix} to 32 are allowed`);
  }
  refuseReserved(value, cidr);
}

function checkBlock(value: string): void {
  const { prefixLength } = parseCidr(value);
  if (prefixLength < 20) {
    throw new RangeError(`"${value}" is not a block, prefix lengths from 20 to 32 are allowed`);
  }
}

/** Of a node or a pool. */
export const objectName = text(checkName);

const pool = z
  .strictObject({
    name: objectName,
    cidr: text(checkNetwork),
    blockSize: z.int().min(20).max(32).default(26),
    ipipMode: z.literal("Always").default("Always"),
  })
  .superRefine(({ cidr, blockSize }, context) => {
    const { prefixLength } = parseCidr(cidr);
    if (blockSize < prefixLength) {
      const message = `${blockSize} makes blocks larger than "${cidr}", numbers from ${Math.max(20, prefixLength)} to 32 are allowed`;
      context.addIssue({ code: "custom", message, path: ["blockSize"] });
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
      address: text(checkTunnelEndPoint),
      otherAddresses: z.exactOptional(z.array(text(checkOtherAddress))),
    }),
    identity: ({ name }) => name,
  },
  pool: { schema: pool, identity: ({ name }) => name },
  block: {
    schema: z.strictObject({
      cidr: text(checkBlock),
      node: objectName,
      claimOrder: z.exactOptional(z.int().min(0)),
    }),
    identity: ({ cidr }) => blockName(cidr),
  },
  settings: {
    schema: z.strictObject({
      kind: z.literal("ClusterSettings"),
      externalNodeCidrs: z.array(text(checkNetwork)).default([]),
    }),
    identity: () => settingsName,
  },
};
