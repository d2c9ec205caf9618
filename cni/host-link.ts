/** The host's end of a pod's veth pair, and the route to the pod through it. */
import { existsSync } from "node:fs";
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { ensureSysctl } from "../src/linux/sysctl.ts";
import type { Link } from "../src/netlink/link.ts";
import { mainTable, ownProtocol } from "../src/netlink/route.ts";
import { NetlinkError } from "../src/netlink/socket.ts";
import { type Attachment, hostLinkName, linkAlias, ownerOfAlias } from "./attachment.ts";
import type { Host } from "./host.ts";

/** The same on every host link: pods keep their neighbour entry when they meet another link. */
export const hostMac = "ee:ee:ee:ee:ee:ee";

/**
 * Removes what an earlier sandbox of the same pod left under the name that this attachment needs.
 *
 * @throws CniError with `Conflict`, naming the owner, when the link is not a leftover
 */
export async function removeStaleHostLink({ netlink }: Host, attachment: Attachment): Promise<void> {
  const name = hostLinkName(attachment);
  const link = await netlink.linkByName(name);
  if (link === undefined) {
    return;
  }
  const owner = ownerOfAlias(link.alias);
  if (owner === undefined && !isHalfMade(link)) {
    const alias = link.alias === undefined ? "no alias" : `the alias "${link.alias}"`;
    throw conflict(`Cannot create the link "${name}": one with ${alias} exists, allowed is one that this plugin made`);
  }
  if (owner?.containerId === attachment.containerId && owner.interfaceName !== attachment.interfaceName) {
    throw conflict(
      `Cannot create the link "${name}": it belongs to "${owner.interfaceName}" of the same container, allowed is one interface a pod`,
    );
  }
  await removeHostLink(netlink, link);
}

/** Makes the pair, its other end in the pod's namespace under the pod's name. Both ends are still down. */
export async function createPair(
  { netlink }: Host,
  attachment: Attachment,
  namespaceFd: number,
  mtu: number,
): Promise<void> {
  const peer = { name: attachment.interfaceName, mtu, namespaceFd };
  await netlink.createVeth({ name: hostLinkName(attachment), mac: hostMac, mtu, peer });
}

/** Signs the host's end, makes the host route and answer for what the pod sends there, and brings it up. */
export async function configureHostLink({ netlink }: Host, attachment: Attachment): Promise<Link> {
  const name = hostLinkName(attachment);
  const link = await netlink.linkByName(name);
  if (link === undefined) {
    throw new Error(`Cannot configure the link "${name}": it is gone`);
  }
  // The kernel takes an alias only for a link that exists, not with its creation.
  await netlink.setLink(link.index, { alias: linkAlias(attachment) });
  ensureSysctl(`ipv4/conf/${name}/proxy_arp`, 1);
  ensureSysctl(`ipv4/neigh/${name}/proxy_delay`, 0); // otherwise each answer waits up to 0.8 s
  ensureSysctl(`ipv4/conf/${name}/forwarding`, 1);
  // All of it is missing where the kernel was started without IPv6.
  if (existsSync(`/proc/sys/net/ipv6/conf/${name}`)) {
    ensureSysctl(`ipv6/conf/${name}/accept_ra`, 0); // a pod must not give the host a route
  }
  await netlink.setLink(link.index, { up: true });
  return link;
}

/** @throws CniError with `Conflict`, naming the link that the address leads to already */
export async function addHostRoute({ netlink }: Host, link: Link, address: string): Promise<void> {
  const destination = `${address}/32`;
  try {
    await netlink.addRoute({
      destination,
      linkIndex: link.index,
      type: "unicast",
      scope: "link",
      protocol: ownProtocol,
      table: mainTable,
      metric: 0,
      onlink: false,
    });
  } catch (error) {
    if (!(error instanceof NetlinkError && error.code === "EEXIST")) {
      throw error;
    }
    const routes = await netlink.routes();
    const other = routes.find((route) => route.destination === destination && route.table === mainTable);
    if (other?.linkIndex !== link.index) {
      const holder = (await netlink.links()).find(({ index }) => index === other?.linkIndex);
      const owner = ownerOfAlias(holder?.alias);
      const whose = owner ? ` of the container "${owner.containerId}"` : "";
      throw conflict(
        `Cannot add the route ${destination} to "${link.name}": it leads to "${holder?.name ?? "nowhere"}"${whose} already, allowed is one link an address`,
      );
    }
  }
}

/** @returns the links that belong to the attachment, under whatever name */
export async function hostLinksOf({ netlink }: Host, attachment: Attachment): Promise<Link[]> {
  const alias = linkAlias(attachment);
  return (await netlink.links()).filter((link) => link.alias === alias);
}

/** Removes both ends, and with them the kernel removes their addresses and routes. Content when it is gone already. */
export async function removeHostLink(netlink: Host["netlink"], { index }: Link): Promise<void> {
  try {
    await netlink.removeLink(index);
  } catch (error) {
    if (!(error instanceof NetlinkError && error.code === "ENODEV")) {
      throw error;
    }
  }
}

/** An ADD that was killed between creating and signing its link leaves one that was never up. */
function isHalfMade({ kind, mac, alias, up }: Link): boolean {
  return kind === "veth" && mac === hostMac && alias === undefined && !up;
}

function conflict(message: string): CniError {
  return new CniError(CniCode.Conflict, message);
}
