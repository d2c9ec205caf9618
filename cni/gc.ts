/** GC: takes back what no valid attachment stands for: CNI spec 1.1.0, section "GC". */
import { type CniAttachment, CniError } from "@containernetworking/cni-types-ts";
import { type LeaseOwner, ownerFileName } from "../src/ipam/lease-store.ts";
import { isLater, momentNow } from "../src/linux/moment.ts";
import { type Attachment, ownerOfAlias } from "./attachment.ts";
import { lockContainer } from "./container-lock.ts";
import { del, forgetGoneLinks } from "./del.ts";
import type { Host } from "./host.ts";
import type { Ipam } from "./ipam.ts";

export interface GcRequest {
  readonly network: string;
  /** All others of the network go. */
  readonly valid: readonly CniAttachment[];
  readonly ipam: Ipam;
  readonly signal: AbortSignal;
}

/**
 * Goes on after a failure and reports the first at the end. An attachment that is added while this runs is left alone:
 * the runtime could not yet know of it.
 */
export async function gc({ network, valid, ipam, signal }: GcRequest, host: Host): Promise<void> {
  const began = momentNow();
  const isValid = (owner: LeaseOwner) =>
    valid.some(({ containerID, ifname }) => containerID === owner.containerId && ifname === owner.interfaceName);
  const failures: CniError[] = [];
  for (const attachment of (await attachmentsOf(network, host)).filter((each) => !isValid(each))) {
    try {
      const lock = await lockContainer(host.runDir, attachment.containerId, signal);
      try {
        const endpoint = await host.endpoints.read(attachment);
        if (endpoint === undefined || !isLater(endpoint.began, began)) {
          await del(attachment, ipam, host);
          host.log.info(attachment, "attachment removed: it is not valid any more");
        }
      } finally {
        await lock.release();
      }
    } catch (error) {
      failures.push(CniError.from(error));
    }
  }
  await forgetGoneLinks(host);
  await host.step("remove damaged endpoints", () => host.endpoints.removeDamaged());
  await ipam.gc();
  const [first] = failures;
  if (first !== undefined) {
    throw new CniError(first.code, `Cannot remove ${failures.length} attachments of "${network}": ${first.message}`, {
      cause: first,
    });
  }
}

/** By the endpoints of this run, by the leases, which a reboot does not end, and by the links, which need no file. */
async function attachmentsOf(network: string, { endpoints, leases, netlink }: Host): Promise<Attachment[]> {
  const linked = (await netlink.links()).flatMap(({ alias }) => ownerOfAlias(alias) ?? []);
  const leased = await leases.ownersIn(network);
  const known = (await endpoints.list()).map(({ owner }) => owner);
  const all = [...linked, ...leased, ...known].filter((owner) => owner.network === network);
  return [...new Map(all.map((owner) => [ownerFileName(owner), owner])).values()];
}
