/** Ends what killed processes left half done in the lease directory, and sets aside what does not belong there. */
import { join } from "node:path";
import type { BlockDirectory } from "./block-directory.ts";
import { blockOfDirectory } from "./block-name.ts";
import { besideName, type FoundFile, isSameFile, type LeaseFiles } from "./lease-files.ts";
import { describeOwner, type Lease, ownerFileName, type Recovery } from "./lease-store.ts";
import { parseLease } from "./lease-text.ts";

export interface LeaseDirectory {
  readonly files: LeaseFiles;
  /** Directory of the owners' files. */
  readonly owners: string;
  /** Directory of the blocks' directories. */
  readonly blocks: string;
  readonly block: (cidr: string) => BlockDirectory;
}

/** An ADD takes no longer from its intention to its lease: what is older was left. */
const intentionAgeMs = 60_000;

/** @param ours CIDRs of the node's blocks */
export async function recoverLeases(
  directory: LeaseDirectory,
  { ours, now }: { readonly ours: readonly string[]; readonly now: Date },
): Promise<Recovery> {
  const { files } = directory;
  await files.makeDirectory(directory.blocks);
  await files.makeDirectory(directory.owners);
  const found = await blocksIn(directory);
  const reopened: string[] = [];
  const removed: string[] = [];
  for (const cidr of found.closed) {
    const isRemoved = await directory.block(cidr).forgetUnless(ours.includes(cidr));
    (isRemoved ? removed : reopened).push(cidr);
  }
  const damaged: string[] = [];
  for (const cidr of new Set([...found.open, ...reopened])) {
    damaged.push(...(await recoverBlock(directory, cidr, now)));
  }
  await recoverOwners(directory, now);
  return { reopened, removed, damaged, setAside: await files.brokenFiles() };
}

async function blocksIn({ files, blocks }: LeaseDirectory): Promise<{ open: string[]; closed: string[] }> {
  const open: string[] = [];
  const closed: string[] = [];
  for (const name of (await files.names(blocks)) ?? []) {
    const block = blockOfDirectory(name);
    if (block === undefined) {
      await files.setAside(join(blocks, name));
    } else if (await files.hasDirectory(join(blocks, name))) {
      (block.isClosed ? closed : open).push(block.cidr);
    }
  }
  return { open, closed };
}

/** @returns what is damaged, in a sentence each */
async function recoverBlock(directory: LeaseDirectory, cidr: string, now: Date): Promise<string[]> {
  const block = directory.block(cidr);
  await block.tidy(now);
  const damaged: string[] = [];
  for (const address of (await block.taken()) ?? []) {
    const path = block.pathOf(address);
    const file = await directory.files.read(path);
    const lease = file && parseLease(file.text);
    const problem = file && lease && (await problemOf(directory, { path, address, cidr }, file, lease));
    if (problem !== undefined) {
      damaged.push(`Cannot read "${path}" as a lease: ${problem}`);
    }
  }
  return damaged;
}

async function problemOf(
  directory: LeaseDirectory,
  { path, address, cidr }: { path: string; address: string; cidr: string },
  file: FoundFile,
  lease: Lease | string,
): Promise<string | undefined> {
  if (typeof lease === "string") {
    return lease;
  }
  if (lease.address !== address || lease.block !== cidr) {
    return `it is the lease of ${lease.address} in ${lease.block}`;
  }
  return giveOwnerFile(directory, path, file, lease);
}

/** The owner finds its lease by the file's other name, which a foreign hand or a copy of the directory can have cut off. */
async function giveOwnerFile(
  { files, owners, block }: LeaseDirectory,
  path: string,
  file: FoundFile,
  lease: Lease,
): Promise<string | undefined> {
  const ownerPath = join(owners, ownerFileName(lease.owner));
  const own = await files.read(ownerPath);
  if (isSameFile(own?.identity, file.identity)) {
    return undefined;
  }
  const other = own && parseLease(own.text);
  if (own && typeof other === "object" && (await block(other.block).has(other.address, own.identity))) {
    return `${describeOwner(lease.owner)} has ${other.address}`;
  }
  if (typeof other === "string") {
    await files.setAside(ownerPath);
  }
  await files.remove(besideName(ownerPath));
  await files.operations.link(path, besideName(ownerPath));
  await files.operations.rename(besideName(ownerPath), ownerPath);
  return undefined;
}

/** What leads to no lease goes; where an owner is at work on it, it stays. */
async function recoverOwners({ files, owners, block }: LeaseDirectory, now: Date): Promise<void> {
  for (const name of (await files.names(owners)) ?? []) {
    const path = join(owners, name);
    const file = await files.read(path);
    const lease = parseLease(file?.text);
    const isOld = file !== undefined && now.getTime() - file.changedMs > intentionAgeMs;
    if (name.startsWith(".")) {
      await (isOld ? files.remove(path) : undefined);
    } else if (typeof lease === "string" || ownerFileName(lease.owner) !== name) {
      await files.setAside(path);
    } else if (isOld && !(await block(lease.block).has(lease.address, file.identity))) {
      await files.remove(path);
    }
  }
}
