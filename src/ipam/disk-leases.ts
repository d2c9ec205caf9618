/**
 * Leases on the node's own disk. A lease is one file with two names: `owners/<owner>` finds it, and
 * `blocks/10-100-15-128-26/10.100.15.130` is the claim on the address. The first alone is an intention, which binds nobody.
 */
import type { Dirent } from "node:fs";
import { join } from "node:path";
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { containsAddress, parseAddress, parseCidr } from "../cidr.ts";
import { adoptLease } from "./adopt-lease.ts";
import { BlockDirectory } from "./block-directory.ts";
import { blockOfDirectory } from "./block-name.ts";
import { besideName, type FileIdentity, type FileOperations, LeaseFiles, missingAsUndefined } from "./lease-files.ts";
import {
  type Answer,
  type Choice,
  isSameOwner,
  type Lease,
  type LeaseOwner,
  type LeaseStore,
  type LivePod,
  type Offer,
  ownerFileName,
  type Recovery,
} from "./lease-store.ts";
import { formatLease, parseLease } from "./lease-text.ts";
import { recoverLeases } from "./recover-leases.ts";

export class DiskLeases implements LeaseStore {
  readonly place: string;
  readonly #files: LeaseFiles;
  readonly #blocks: string;
  readonly #owners: string;

  /** @param directory made with the first block */
  constructor(directory: string, operations?: FileOperations) {
    this.place = directory;
    this.#files = new LeaseFiles(join(directory, "broken"), operations);
    this.#blocks = join(directory, "blocks");
    this.#owners = join(directory, "owners");
  }

  openBlock(cidr: string, live: readonly LivePod[] = [], now = new Date()): Promise<void> {
    return this.#attempt(`open the block ${cidr}`, async () => {
      await this.#files.makeDirectory(this.#blocks);
      await this.#files.makeDirectory(this.#owners);
      const lost = new Map<string, Lease>(); // one an owner
      for (const { owner, address } of live) {
        if ((await this.leaseOf(owner)) === undefined) {
          lost.set(ownerFileName(owner), newLease(owner, cidr, address, now));
        }
      }
      await this.#block(cidr).open(async (directory) => {
        for (const lease of lost.values()) {
          await this.#adoptIn(directory, lease);
        }
      });
    });
  }

  adopt({ owner, address }: LivePod, block: string, now: Date): Promise<Lease | undefined> {
    return this.#attempt("adopt a lease", async () => {
      const lease = newLease(owner, block, address, now);
      const own = await this.leaseOf(owner);
      return own ?? this.#block(block).whileOpen((directory) => this.#adoptIn(directory, lease));
    });
  }

  closeBlock(cidr: string): Promise<boolean> {
    return this.#attempt(`close the block ${cidr}`, async () => {
      return (await this.blocks()).includes(cidr) && this.#block(cidr).close();
    });
  }

  forgetBlock(cidr: string): Promise<void> {
    return this.#attempt(`forget the block ${cidr}`, async () => {
      await this.#block(cidr).forgetUnless(false);
    });
  }

  async blocks(): Promise<string[]> {
    return (await this.#directories()).filter(({ isClosed }) => !isClosed).map(({ cidr }) => cidr);
  }

  recover(ours: readonly string[], now = new Date()): Promise<Recovery> {
    return this.#attempt("recover the leases", () => {
      const block = (cidr: string) => this.#block(cidr);
      return recoverLeases({ files: this.#files, owners: this.#owners, blocks: this.#blocks, block }, { ours, now });
    });
  }

  reserve(owner: LeaseOwner, block: string, choice: Choice): Promise<Offer> {
    return this.#attempt("write a lease", async (): Promise<Offer> => {
      await this.#endIntention(owner, choice.now);
      const directory = this.#block(block);
      for (;;) {
        const hint = await directory.next(choice);
        if (hint.kind !== "try") {
          return hint;
        }
        const answer = await this.#claim(newLease(owner, block, hint.address, choice.now));
        if (answer.kind !== "taken") {
          return answer;
        }
      }
    });
  }

  reserveAddress(owner: LeaseOwner, block: string, address: string, now: Date): Promise<Answer> {
    return this.#attempt("write a lease", async () => {
      await this.#endIntention(owner, now);
      const answer = await this.#claim(newLease(owner, block, address, now));
      if (answer.kind === "lease") {
        await this.#block(block).takeOut(address, now);
      }
      return answer;
    });
  }

  release(owner: LeaseOwner, now: Date): Promise<void> {
    return this.#attempt("release a lease", async () => {
      const path = this.#ownerPath(owner);
      const found = await this.#ownFile(owner);
      if (found) {
        await this.#block(found.lease.block).release(found.lease.address, found.identity, now);
      }
      await this.#files.remove(besideName(path));
      await this.#files.remove(path);
    });
  }

  leaseOf(owner: LeaseOwner): Promise<Lease | undefined> {
    return this.#attempt("read a lease", async () => {
      const found = await this.#ownFile(owner);
      const isHeld = found && (await this.#block(found.lease.block).has(found.lease.address, found.identity));
      return isHeld ? found.lease : undefined;
    });
  }

  leaseAt(address: string): Promise<Lease | "damaged" | undefined> {
    return this.#attempt("read a lease", async () => {
      const block = (await this.blocks()).find((cidr) => containsAddress(parseCidr(cidr), parseAddress(address)));
      return block === undefined ? undefined : this.#readLease(block, address);
    });
  }

  owners(others: readonly LeaseOwner[] = []): Promise<LeaseOwner[]> {
    return this.#attempt("list the leases", async () => {
      const names = (await this.#files.names(this.#owners)) ?? [];
      const unread = new Set(others.map(ownerFileName));
      const files = names.filter((name) => !name.startsWith(".") && !unread.has(name));
      const leases = await Promise.all(
        files.map(async (name) => parseLease((await this.#files.read(join(this.#owners, name)))?.text)),
      );
      return leases.filter((lease) => typeof lease !== "string").map(({ owner }) => owner);
    });
  }

  list(): Promise<Lease[]> {
    return this.#attempt("list the leases", async () => {
      const leases: Lease[] = [];
      for (const block of await this.blocks()) {
        const addresses = [...((await this.taken(block)) ?? [])];
        const found = await Promise.all(addresses.map((address) => this.#readLease(block, address)));
        leases.push(...found.filter((lease) => lease !== undefined && lease !== "damaged"));
      }
      return leases;
    });
  }

  taken(block: string): Promise<ReadonlySet<string> | undefined> {
    return this.#attempt("list the leases", () => this.#block(block).taken());
  }

  /** What a killed call of the owner left leads to an address that may be nobody's, and would not be known any more. */
  async #endIntention(owner: LeaseOwner, now: Date): Promise<void> {
    if (await this.#ownFile(owner)) {
      await this.release(owner, now);
    }
  }

  /** The file of the owner is written first, and says which address it wants; the second name of that file is the claim. */
  async #claim(lease: Lease): Promise<Answer> {
    const path = this.#ownerPath(lease.owner);
    try {
      await this.#files.writeBeside(path, formatLease(lease), { synced: true });
      await this.#files.operations.link(path, this.#block(lease.block).pathOf(lease.address));
      return { kind: "lease", lease };
    } catch (error) {
      await this.#files.remove(path);
      switch ((error as NodeJS.ErrnoException).code) {
        case "EEXIST":
          return { kind: "taken" };
        case "ENOENT":
        case "ENOTDIR":
          return { kind: "closed" };
        default:
          throw error;
      }
    }
  }

  #adoptIn(directory: string, lease: Lease): Promise<Lease> {
    return adoptLease(lease, { files: this.#files, ownerPath: this.#ownerPath(lease.owner), directory });
  }

  /** What the owner's file says, whether it holds the address or not. */
  async #ownFile(owner: LeaseOwner): Promise<{ lease: Lease; identity: FileIdentity } | undefined> {
    const path = this.#ownerPath(owner);
    const file = await this.#files.read(path);
    if (file === undefined) {
      return undefined;
    }
    const lease = parseLease(file.text);
    if (typeof lease !== "string" && isSameOwner(lease.owner, owner)) {
      return { lease, identity: file.identity };
    }
    await this.#files.setAside(path);
    const other = (await this.list()).find((each) => isSameOwner(each.owner, owner));
    if (other === undefined) {
      return undefined;
    }
    await this.#files.operations.link(this.#block(other.block).pathOf(other.address), path);
    return this.#ownFile(owner);
  }

  async #readLease(block: string, address: string): Promise<Lease | "damaged" | undefined> {
    const file = await this.#files.read(this.#block(block).pathOf(address));
    const lease = file && parseLease(file.text);
    const isInPlace = typeof lease === "object" && lease.address === address && lease.block === block;
    return lease === undefined || isInPlace ? lease : "damaged";
  }

  async #directories(): Promise<{ cidr: string; isClosed: boolean }[]> {
    const entries = await missingAsUndefined(
      this.#files.operations.readdir(this.#blocks, { withFileTypes: true }) as Promise<Dirent[]>,
    );
    return (entries ?? [])
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => blockOfDirectory(name))
      .filter((block) => block !== undefined);
  }

  #block(cidr: string): BlockDirectory {
    return new BlockDirectory(this.#blocks, cidr, this.#files);
  }

  #ownerPath(owner: LeaseOwner): string {
    return join(this.#owners, ownerFileName(owner));
  }

  async #attempt<Result>(action: string, work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof CniError) {
        throw error;
      }
      throw new CniError(CniCode.IoFailure, `Cannot ${action} in "${this.place}": ${(error as Error).message}`, {
        cause: error,
      });
    }
  }
}

function newLease(owner: LeaseOwner, block: string, address: string, now: Date): Lease {
  return { address, block, owner, time: now.toISOString() };
}
