/** Who may send this node IPIP packets: the other nodes, and what the operator adds. */
import IPCIDR from "ip-cidr";

export interface HostNetNode {
  readonly name: string;
  /** With the prefix length of its network: "172.31.112.2/20". */
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
 */
export function allHostNets(from: {
  readonly nodes: readonly HostNetNode[];
  readonly ownNode: string;
  readonly externalNodeCidrs: readonly string[];
}): HostNets {
  const own = new Set(from.nodes.filter(({ name }) => name === from.ownNode).flatMap(addressesOf));
  const others = from.nodes.filter(({ name }) => name !== from.ownNode).flatMap(addressesOf);
  const external = from.externalNodeCidrs.flatMap((cidr) => subtract(cidr, [...own]));
  const hosts = [...others, ...external.filter(isHost).map(addressOf)];
  return {
    hosts: unique(hosts.filter((address) => !own.has(address))),
    cidrs: unique(external.filter((cidr) => !isHost(cidr))),
  };
}

function addressesOf(node: HostNetNode): string[] {
  return [node.address, ...node.otherAddresses].map(addressOf);
}

function addressOf(addressOrCidr: string): string {
  return addressOrCidr.split("/")[0] ?? "";
}

function isHost(cidr: string): boolean {
  return cidr.endsWith("/32");
}

/** The largest CIDRs that cover all of `cidr` but the addresses. */
function subtract(cidr: string, addresses: readonly string[]): string[] {
  const network = new IPCIDR(cidr);
  const start = network.start<string>();
  const prefixLength = network.address.subnetMask;
  const inside = addresses.filter((address) => network.contains(address));
  if (inside.length === 0) {
    return [`${start}/${prefixLength}`];
  }
  if (prefixLength === 32) {
    return [];
  }
  const [low, high] = [`${start}/${prefixLength + 1}`, `${network.end<string>()}/${prefixLength + 1}`];
  return [low, high].flatMap((half) => subtract(half, inside));
}

function unique(items: readonly string[]): string[] {
  return [...new Set(items)].sort();
}
