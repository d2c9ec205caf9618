/** Leases on the node's own disk: one file an address, `<directory>/10-100-15-128-26/10.100.15.130`. */
import { link, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { isIPv4 } from "node:net";
import { basename, join } from "node:path";
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { z } from "zod";
import { writeSynced } from "../atomic-file.ts";
import { type Lease, type LeaseOwner, type LeaseStore, leaseOwner, ownerFileName } from "./lease-store.ts";

const leaseFile = z.object({
  address: z.ipv4(),
  block: z.cidrv4(),
  owner: leaseOwner,
  time: z.string(),
});

/** Holds the address given last; like every dot-file it is never a lease. */
const lastGivenFile = ".last-given";

export class DiskLeases implements LeaseStore {
  readonly #directory: string;

  /** @param directory made with the first lease */
  constructor(directory: string) {
    this.#directory = directory;
  }

  async list(): Promise<Lease[]> {
    const blocks = await entries(this.#directory);
    const leases = await Promise.all(blocks.map((name) => readBlock(join(this.#directory, name))));
    return leases.flat();
  }

  async taken(block: string): Promise<ReadonlySet<string>> {
    return new Set(await entries(this.#blockDirectory(block)));
  }

  async create(lease: Lease): Promise<boolean> {
    const directory = this.#blockDirectory(lease.block);
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      // First: when this fails nothing is claimed yet. Only a hint where to look next, so it may be torn by a crash.
      await writeFile(join(directory, lastGivenFile), lease.address, { mode: 0o600 });
      return await createWithContent(directory, lease);
    } catch (error) {
      throw new CniError(CniCode.IoFailure, `Cannot write a lease in "${directory}": ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  async remove({ block, address }: Lease): Promise<void> {
    await rm(join(this.#blockDirectory(block), address), { force: true });
  }

  async tidy(owner: LeaseOwner): Promise<void> {
    for (const block of await entries(this.#directory)) {
      const unfinished = join(this.#directory, block, unfinishedName(owner));
      await rm(unfinished, { force: true }).catch((error) => noneWhen(["ENOTDIR"], error));
    }
  }

  async lastGiven(block: string): Promise<string | undefined> {
    return readOrUndefined(join(this.#blockDirectory(block), lastGivenFile));
  }

  #blockDirectory(block: string): string {
    return join(this.#directory, directoryName(block));
  }
}

/** link(2) gives the finished file its name and fails when the name is taken: the claim and its content are one step. */
async function createWithContent(directory: string, lease: Lease): Promise<boolean> {
  const beside = join(directory, unfinishedName(lease.owner));
  try {
    await writeSynced(beside, `${JSON.stringify(lease)}\n`, 0o600);
    await link(beside, join(directory, lease.address));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") {
      return false;
    }
    throw error;
  } finally {
    await rm(beside, { force: true });
  }
}

/** The same for every try of an owner, so that what a killed one left is overwritten or found. */
function unfinishedName(owner: LeaseOwner): string {
  return `.new-${ownerFileName(owner)}`;
}

async function readBlock(directory: string): Promise<Lease[]> {
  const names = (await entries(directory)).filter((name) => isIPv4(name));
  const leases = await Promise.all(names.map((name) => readLease(directory, name)));
  return leases.filter((lease) => lease !== undefined);
}

async function readLease(directory: string, name: string): Promise<Lease | undefined> {
  try {
    const lease = leaseFile.parse(JSON.parse((await readOrUndefined(join(directory, name))) ?? ""));
    const isInPlace = lease.address === name && directoryName(lease.block) === basename(directory);
    return isInPlace ? lease : undefined;
  } catch {
    return undefined; // foreign or damaged: nobody's lease, yet the address stays taken
  }
}

function directoryName(block: string): string {
  return block.replaceAll(/[./]/g, "-");
}

/** Names in a directory without dot-files; none when it is not there or not a directory. */
async function entries(directory: string): Promise<string[]> {
  try {
    return (await readdir(directory)).filter((name) => !name.startsWith("."));
  } catch (error) {
    return noneWhen(["ENOENT", "ENOTDIR"], error) ?? [];
  }
}

async function readOrUndefined(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    return noneWhen(["ENOENT", "ENOTDIR", "EISDIR"], error);
  }
}

function noneWhen(codes: readonly string[], error: unknown): undefined {
  if (!codes.includes((error as NodeJS.ErrnoException).code ?? "")) {
    throw error;
  }
  return undefined;
}
