/** The host's end of a pod's veth pair, and the route to the pod through it. */
import { existsSync } from "node:fs";
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { describeOwner } from "../src/ipam/lease-store.ts";
import { isLater } from "../src/linux/moment.ts";
import type { Link } from "../src/netlink/link.ts";
import { mainTable, ownProtocol, type Route } from "../src/netlink/route.ts";
import { NetlinkError } from "../src/netlink/socket.ts";
import type { WorkloadEndpoint } from "../src/workload/endpoint.ts";
import { type Attachment, hostLinkName, linkAlias, ownerOfAlias, unsignedLinkName } from "./attachment.ts";
import type { Host } from "./host.ts";

/** The same on every host link: pods keep their neighbour entry when they meet another link. */
export const hostMac = "ee:ee:ee:ee:ee:ee";

interface Pair {
  readonly mtu: number;
  /** Of the end in the pod; without it the kernel makes one up. */
  readonly podMac: string | undefined;
  readonly podNamespaceFd: number;
}

/**
 * Makes the pair, its other end in the pod's namespace under the pod's name, and signs the host's end. Both ends are
 * still down.
 */
export async function createPair({ netlink, step }: Host, attachment: Attachment, pair: Pair): Promise<Link> {
  const { mtu, podMac, podNamespaceFd: namespaceFd } = pair;
  const name = unsignedLinkName(attachment);
  const peer = { name: attachment.interfaceName, mtu, namespaceFd, ...(podMac === undefined ? {} : { mac: podMac }) };
  await step("create the pair", () => netlink.createVeth({ name, mac: hostMac, mtu, peer }));
  const link = await netlink.linkByName(name);
  if (link === undefined) {
    throw new Error(`Cannot use the link "${name}": it is gone`);
  }
  const alias = linkAlias(attachment);
  await step("sign the host link", () => netlink.setLink(link.index, { alias }));
  return { ...link, alias };
}

/** Gives the host's end, still down, its name, and makes the host route and answer for what the pod sends there. */
export async function configureHostLink(host: Host, link: Link, sandbox: Sandbox): Promise<Link> {
  const { step, setSysctl } = host;
  const name = hostLinkName(sandbox.owner);
  await takeName(host, link, name, sandbox);
  for (const [key, value] of hostLinkSettings(name)) {
    await step(`set ${key}`, () => setSysctl(key, value));
  }
  return { ...link, name };
}

/** Settings below /proc/sys/net of a host link, as far as this kernel has them. */
export function hostLinkSettings(name: string): [key: string, value: number][] {
  const settings: [string, number][] = [
    [`ipv4/conf/${name}/proxy_arp`, 1],
    [`ipv4/neigh/${name}/proxy_delay`, 0], // otherwise each answer waits up to 0.8 s
    [`ipv4/conf/${name}/forwarding`, 1],
    // The guard checks sources, by all links of the pod. The kernel would drop what does not lead back by the same link,
    // also in loose mode, since the link has no address; many systems have 1 or 2 as default.
    [`ipv4/conf/${name}/rp_filter`, 0],
    [`ipv6/conf/${name}/accept_ra`, 0], // a pod must not give the host a route
  ];
  // All of IPv6 is missing where the kernel was started without it.
  return settings.filter(([key]) => existsSync(`/proc/sys/net/${key}`));
}

type Sandbox = Pick<WorkloadEndpoint, "owner" | "began">;

/**
 * Takes the name over from an older sandbox of the same pod.
 *
 * @throws CniError with `Conflict` when the link is not one, or belongs to a newer one
 */
async function takeName(host: Host, link: Link, name: string, sandbox: Sandbox): Promise<void> {
  for (;;) {
    try {
      await host.step("name the host link", () => host.netlink.setLink(link.index, { name }));
      return;
    } catch (error) {
      if (!isCode(error, "EEXIST")) {
        throw error;
      }
    }
    // Each round removes a link that is older than ours, so there is an end also where several take over at once.
    await removeOlderHostLink(host, name, sandbox);
  }
}

async function removeOlderHostLink(host: Host, name: string, { owner, began }: Sandbox): Promise<void> {
  const link = await host.netlink.linkByName(name);
  if (link === undefined) {
    return;
  }
  const refuse = (holder: string, allowed: string) =>
    conflict(`Cannot create the link "${name}": ${holder}, allowed is ${allowed}`);
  if (link.name !== name) {
    throw refuse(`"${link.name}" has it as another name`, "a name that is free");
  }
  const other = ownerOfAlias(link.alias);
  if (other === undefined) {
    const alias = link.alias === undefined ? "no alias" : `the alias "${link.alias}"`;
    throw refuse(`one with ${alias} exists`, "one that this plugin made");
  }
  const holder = `it is ${describeOwner(other)} in the network "${other.network}"`;
  if (other.containerId === owner.containerId) {
    throw refuse(holder, "one network an interface");
  }
  const known = await host.endpoints.read(other);
  if (known && isLater(known.began, began)) {
    throw refuse(`${holder}, which was added later`, "to replace an older sandbox of the pod");
  }
  await removeHostLink(host, link);
}

/** The route to a pod's address. */
export function hostRoute(address: string, linkIndex: number): Route {
  return {
    destination: `${address}/32`,
    linkIndex,
    type: "unicast",
    scope: "link",
    protocol: ownProtocol,
    table: mainTable,
    metric: 0,
    onlink: false,
  };
}

/**
 * @param isGone whether the owner of the link that has the route is gone, so that the route is taken over
 * @throws CniError with `Conflict`, naming the link that the address leads to already
 */
export async function addHostRoute(
  host: Host,
  link: Link,
  address: string,
  isGone: (owner: Attachment) => Promise<boolean>,
): Promise<void> {
  const route = hostRoute(address, link.index);
  const addRoute = () => host.step(`add the route to ${address}`, () => host.netlink.addRoute(route));
  try {
    await addRoute();
  } catch (error) {
    if (!isCode(error, "EEXIST")) {
      throw error;
    }
    const holder = await holderOfRoute(host, route);
    const owner = ownerOfAlias(holder?.alias);
    if (holder === undefined || owner === undefined || !(await isGone(owner))) {
      const whose = owner ? ` of the container "${owner.containerId}"` : "";
      throw conflict(
        `Cannot add the route ${route.destination} to "${link.name}": it leads to "${holder?.name ?? "nowhere"}"${whose} already, allowed is one link an address`,
      );
    }
    await removeHostLink(host, holder);
    await addRoute();
  }
}

async function holderOfRoute({ netlink }: Host, { destination, table }: Route): Promise<Link | undefined> {
  const routes = await netlink.routes();
  const other = routes.find((route) => route.destination === destination && route.table === table);
  return (await netlink.links()).find(({ index }) => index === other?.linkIndex);
}

/**
 * @returns the links that belong to the attachment, under whatever name, also one that is not signed yet, and the one that
 *   the endpoint knows, where somebody has written another alias on it
 */
export function hostLinksOf(
  attachment: Attachment,
  endpoint: WorkloadEndpoint | undefined,
  links: readonly Link[],
): Link[] {
  const alias = linkAlias(attachment);
  const unsigned = unsignedLinkName(attachment);
  const known = endpoint?.attached?.hostLink;
  return links.filter((link) => {
    const isKnown = link.index === known?.index && link.name === known.name && link.kind === "veth";
    const isForeign = ownerOfAlias(link.alias) === undefined;
    return link.alias === alias || link.name === unsigned || (isKnown && isForeign);
  });
}

/**
 * Removes both ends, and with them the kernel removes their addresses and routes. Content when it is gone already. What
 * the pod sends is stopped first, and the guard forgets the link last: at no time is it there unguarded.
 */
export async function removeHostLink({ netlink, guard, step }: Host, { index }: Pick<Link, "index">): Promise<void> {
  await step("silence the pod", () => guard?.silence(index));
  await step("remove the link", async () => {
    try {
      await netlink.removeLink(index);
    } catch (error) {
      if (!isCode(error, "ENODEV")) {
        throw error;
      }
    }
  });
  await step("make the guard forget the link", () => guard?.forget(index));
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof NetlinkError && error.code === code;
}

function conflict(message: string): CniError {
  return new CniError(CniCode.Conflict, message);
}
