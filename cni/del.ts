/** DEL: takes back what ADD gave, bottom up. */
import type { Attachment } from "./attachment.ts";
import type { Host } from "./host.ts";
import { hostLinksOf, removeHostLink } from "./host-link.ts";

/**
 * Content when anything is gone already. It goes by the alias on the link, so it needs neither the pod's namespace nor
 * sync, and never touches the link of a newer sandbox of the same pod.
 *
 * The address comes last, and not at all while a link stays: it may be given again as soon as it is free, and by then
 * nothing must lead to the old pod. A runtime that is told of a failure calls again.
 */
export async function del(attachment: Attachment, host: Host): Promise<void> {
  for (const link of await hostLinksOf(host, attachment)) {
    await removeHostLink(host.netlink, link);
  }
  await host.leases.release(attachment);
}
