/** DEL: takes back what ADD gave, bottom up. */
import type { Attachment } from "./attachment.ts";
import type { Host } from "./host.ts";
import { hostLinksOf, removeHostLink } from "./host-link.ts";

/**
 * Content when anything is gone already. It goes by the alias on the link, so it needs neither the pod's namespace nor
 * sync, and never touches the link of a newer sandbox of the same pod.
 *
 * @throws the first error, after every step was tried
 */
export async function del(attachment: Attachment, host: Host): Promise<void> {
  const errors: unknown[] = [];
  // The address last: it may be given again as soon as it is free, and by then nothing must lead to the old pod.
  for (const step of [removeLinks, releaseLeases]) {
    try {
      await step(attachment, host);
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) {
    throw errors[0];
  }
}

async function removeLinks(attachment: Attachment, host: Host): Promise<void> {
  for (const link of await hostLinksOf(host, attachment)) {
    await removeHostLink(host.netlink, link);
  }
}

async function releaseLeases(attachment: Attachment, host: Host): Promise<void> {
  await host.leases.release(attachment);
}
