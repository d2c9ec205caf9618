/** Who may send this node IPIP packets: the other nodes, and what the operator adds. */
import { type Cidr, containsAddress, formatAddress, parseAddress, parseCidr } from "../cidr.ts";

export interface HostNetNode {
  readonly name: string;
  /** With the prefix length of its link: "172.31.112.2/20". */
  readonly address: string;
  /** Every further global address of the node: the kernel picks the outer source by route. */
  readonly otherAddresses: readonly string[];
}

/** Sorted, canonical and without duplicates. */
export interface HostNets {
  readonly hosts: readonly string[];
  /** Never of length 32: those are hosts. */
  readonly cidrs: readonly string[];
}

/**
 * Every address of every node but the own one, and `externalNodeCidrs`. The own addresses are no members in any case:
 * a packet that comes in from outside with one as its source is forged. A CIDR that covers them is split around them.
 *
 * @throws SyntaxError when an address or CIDR is not one
 */
export function allHostNets(from: {
  readonly nodes: readonly HostNetNode[];
  readonly ownNode: string;
  readonly externalNodeCidrs: readonly string[];
}): HostNets {
  const own = from.nodes.filter(({ name }) => name === from.ownNode).flatMap(addressesOf);
  const others = from.nodes.filter(({ name }) => name !== from.ownNode).flatMap(addressesOf);
  const external = from.externalNodeCidrs.map(parseCidr).flatMap((cidr) => subtract(cidr, own));
  const hosts = [...others.filter((address) => !own.includes(address)), ...external.filter(isHost).map(firstOf)];
  return {
    hosts: unique(hosts.map(formatAddress)),
    cidrs: unique(external.filter((cidr) => !isHost(cidr)).map(({ text }) => text)),
  };
}

function addressesOf(node: HostNetNode): number[] {
  return [node.address, ...node.otherAddresses].map((text) => parseAddress(text.split("/")[0] ?? ""));
}

function isHost(cidr: Cidr): boolean {
  return cidr.prefixLength === 32;
}

function firstOf(cidr: Cidr): number {
  return cidr.first;
}

/** The largest CIDRs that cover all of `cidr` but the addresses. */
function subtract(cidr: Cidr, addresses: readonly number[]): Cidr[] {
  const inside = addresses.filter((address) => containsAddress(cidr, address));
  if (inside.length === 0) {
    return [cidr];
  }
  if (isHost(cidr)) {
    return [];
  }
  const prefixLength = cidr.prefixLength + 1;
  const middle = cidr.first + 2 ** (32 - prefixLength);
  const halves = [cidr.first, middle].map((first) => parseCidr(`${formatAddress(first)}/${prefixLength}`));
  return halves.flatMap((half) => subtract(half, inside));
}

function unique(items: readonly string[]): string[] {
  return [...new Set(items)].sort();
}
