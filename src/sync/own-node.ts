/** This node as the datastore and its own links describe it. */
import type { Block, Node } from "../datastore/documents.ts";
import { type ClusterBlocks, ownBlocks } from "../ipam/blocks/own-blocks.ts";
import type { Address } from "../netlink/address.ts";
import type { Link } from "../netlink/link.ts";
import { outerHeaderLength } from "../tunnel/device.ts";

export interface OwnNode {
  readonly node: Node;
  /** In the order they were claimed. */
  readonly blocks: readonly Block[];
}

/** @returns undefined when the datastore does not know the node */
export function ownNode(name: string, cluster: ClusterBlocks): OwnNode | undefined {
  const node = cluster.nodes.get(name);
  return node && { node, blocks: ownBlocks(name, cluster).map(({ block }) => block) };
}

/**
 * The link that carries the node's address, whatever its name is at the moment.
 *
 * @throws an error that names the address when no link carries it
 */
export function uplinkOf({ node }: Pick<OwnNode, "node">, links: readonly Link[], addresses: readonly Address[]): Link {
  const [nodeAddress] = node.address.split("/");
  const linkIndex = addresses.find(({ address }) => address === nodeAddress)?.linkIndex;
  const uplink = links.find(({ index }) => index === linkIndex);
  if (!uplink) {
    throw new Error(
      `Cannot find the node's own address "${nodeAddress}" on any link: correct the document of node "${node.name}" or the link`,
    );
  }
  return uplink;
}

/** Bytes: what RFC 791 asks of every link, and what the kernel's IPIP device takes at most (an IPv4 packet, less 20). */
const tunnelMtuLimits = { least: 68, most: 65515 } as const;

/**
 * What fits through the tunnel, in bytes: the MTU of the uplink, less the outer header. A node whose address is on lo
 * (65536) gets the most that there is.
 *
 * @throws an error that names the link when its MTU is too small
 */
export function tunnelMtu(uplink: Link): number {
  const mtu = uplink.mtu - outerHeaderLength;
  if (mtu < tunnelMtuLimits.least) {
    const least = tunnelMtuLimits.least + outerHeaderLength;
    throw new Error(
      `Cannot tunnel over the link "${uplink.name}": its MTU is ${uplink.mtu}, allowed is ${least} or more`,
    );
  }
  return Math.min(mtu, tunnelMtuLimits.most);
}
