/** The pods of this node as the kernel has them: links that the plugin has signed, and the routes to pods' addresses. */
import { ownerOfAlias } from "../../cni/attachment.ts";
import { isPodLink } from "../guard/links.ts";
import { type LeaseOwner, type LivePod, ownerFileName } from "../ipam/lease-store.ts";
import type { Link } from "../netlink/link.ts";
import type { Netlink } from "../netlink/netlink.ts";
import { ownProtocol } from "../netlink/route.ts";

export interface LivePods {
  /** Of the whole node. */
  readonly links: readonly Link[];
  /** Everyone who has a link here, by its alias. */
  readonly owners: readonly LeaseOwner[];
  /** Those of them with a route, once for each address. */
  readonly pods: readonly LivePod[];
  /** Addresses that lead to a pod's link, whosever it is. */
  readonly addresses: ReadonlySet<string>;
}

export async function livePods(netlink: Netlink): Promise<LivePods> {
  const links = await netlink.links();
  const ours = links.map((link) => ({ link, owner: ownerOfAlias(link.alias) }));
  const byIndex = new Map(
    ours.filter(({ link, owner }) => owner || isPodLink(link)).map(({ link, owner }) => [link.index, owner]),
  );
  const routes = (await netlink.routes()).flatMap(({ destination, protocol, linkIndex = 0 }) => {
    const [address = "", prefixLength] = destination.split("/");
    const isToPod = prefixLength === "32" && protocol === ownProtocol && byIndex.has(linkIndex);
    return isToPod ? [{ address, owner: byIndex.get(linkIndex) }] : [];
  });
  return {
    links,
    owners: ours.flatMap(({ owner }) => owner ?? []),
    pods: routes.flatMap(({ address, owner }) => (owner ? [{ address, owner }] : [])),
    addresses: new Set(routes.map(({ address }) => address)),
  };
}

export function isAmong({ owner, address }: LivePod, { pods }: LivePods): boolean {
  return pods.some((pod) => pod.address === address && ownerFileName(pod.owner) === ownerFileName(owner));
}
