/** DEL: takes back what ADD gave, bottom up. Whatever a killed ADD or DEL left of it, too. */
import type { Link } from "../src/netlink/link.ts";
import type { WorkloadEndpoint } from "../src/workload/endpoint.ts";
import type { Attachment } from "./attachment.ts";
import { ownIpam } from "./config.ts";
import type { Host } from "./host.ts";
import { hostLinksOf, removeHostLink } from "./host-link.ts";
import type { Ipam } from "./ipam.ts";

/**
 * Content when anything is gone already. It goes by what is written on the link and in the endpoint, so it needs neither
 * the pod's namespace nor sync, and never touches the link of a newer sandbox of the same pod.
 *
 * The address comes last, and not at all while a link stays: it may be given again as soon as it is free, and by then
 * nothing must lead to the old pod. A runtime that is told of a failure calls again.
 */
export async function del(attachment: Attachment, ipam: Ipam, host: Host): Promise<void> {
  const { endpoints, leases, log, netlink, step } = host;
  const endpoint = await endpoints.read(attachment);
  if (endpoint) {
    await step("begin the endpoint's end", () => markEnding(endpoint, host));
  }
  if (endpoint && ![ownIpam, ipam.type].includes(endpoint.ipam)) {
    const { ipam: plugin } = endpoint;
    log.warn(
      { ...attachment, plugin },
      "The address stays with the IPAM plugin that gave it: the configuration names another",
    );
  }
  const links = await netlink.links();
  for (const link of hostLinksOf(attachment, endpoint, links)) {
    await removeHostLink(host, link);
  }
  await forgetLinkOf(endpoint, links, host);
  if (ipam.type !== ownIpam) {
    // The configuration may have named ours when the address was given.
    await step("release the node's own addresses", () => leases.release(attachment));
  }
  await step("release the addresses", () => ipam.release(attachment));
  await step("forget the endpoint", () => endpoints.remove(attachment));
}

/** Helps only whoever finds the endpoint after a kill: a full disk must not keep a pod from being removed. */
async function markEnding(endpoint: WorkloadEndpoint, { endpoints, log }: Host): Promise<void> {
  try {
    await endpoints.save({ ...endpoint, isEnding: true });
  } catch (error) {
    log.warn({ ...endpoint.owner, error: (error as Error).message }, "Cannot note that DEL has begun");
  }
}

/**
 * The link may have gone without us, with the container's namespace or before a DEL was killed.
 *
 * @param links those of the node, listed after the endpoint was read
 */
export async function forgetLinkOf(
  endpoint: WorkloadEndpoint | undefined,
  links: readonly Link[],
  host: Host,
): Promise<void> {
  if (endpoint?.attached === undefined) {
    await forgetGoneLinks(host);
    return;
  }
  const { index } = endpoint.attached.hostLink;
  // A link of this number is ours, and forgotten with its removal, or another one by now, which keeps its guard.
  if (links.some((link) => link.index === index)) {
    return;
  }
  await host.step("make the guard forget the endpoint's link", () => host.guard?.forget(index));
}

/** Where nobody knows which link a container had, the guard may remember one that went with the container. */
export async function forgetGoneLinks({
  guard,
  netlink,
  step,
}: Pick<Host, "guard" | "netlink" | "step">): Promise<void> {
  const known = guard?.linkIndexes() ?? []; // first: a link that comes later is not mistaken for one that is gone
  const present = new Set((await netlink.links()).map(({ index }) => index));
  for (const index of known.filter((each) => !present.has(each))) {
    await step("make the guard forget a link that is gone", () => guard?.forget(index));
  }
}
