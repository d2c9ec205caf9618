/** Gives the file of a lease back to who has the address already: the kernel knows of a pod what the disk has lost. */
import { join } from "node:path";
import type { LeaseFiles } from "./lease-files.ts";
import type { Lease } from "./lease-store.ts";
import { formatLease, parseLease } from "./lease-text.ts";

interface Place {
  readonly files: LeaseFiles;
  /** Of the lease's owner, who has no lease. */
  readonly ownerPath: string;
  /** Of the addresses' names: the block's, or what becomes it. */
  readonly directory: string;
}

/**
 * What cannot be read in the place of the lease is set aside. Under the block's lock.
 *
 * @returns the lease that the address has now: this one, or another owner's, which stays
 */
export async function adoptLease(lease: Lease, { files, ownerPath, directory }: Place): Promise<Lease> {
  const path = join(directory, lease.address);
  const found = await files.read(path);
  const present = found && parseLease(found.text);
  if (typeof present === "object" && present.address === lease.address && present.block === lease.block) {
    return present;
  }
  if (found) {
    await files.setAside(path);
  }
  await files.writeBeside(ownerPath, formatLease(lease), { synced: true });
  try {
    await files.operations.link(ownerPath, path);
  } catch (error) {
    await files.remove(ownerPath);
    throw error; // also when an ADD asked for just this address and was faster: the next look finds its lease
  }
  return lease;
}
