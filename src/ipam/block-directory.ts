/** One block on the disk: a directory with a name for each address in use, and which are free, in `.free`. */
import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { isIPv4 } from "node:net";
import { basename, join } from "node:path";
import { type Cidr, containsAddress, formatAddress, parseAddress, parseCidr } from "../cidr.ts";
import { lockName } from "../linux/lock.ts";
import { closedName, directoryName } from "./block-name.ts";
import { FreeRing, headerBytes, ringBytes, ringTime } from "./free-ring.ts";
import { besideName, type FileIdentity, isSameFile, type LeaseFiles, missingAsUndefined } from "./lease-files.ts";
import type { Choice } from "./lease-store.ts";

/** An address to try: the ring is a hint, the address's name in the directory decides. */
type Hint =
  | { readonly kind: "try"; readonly address: string }
  | { readonly kind: "resting"; readonly since: number }
  | { readonly kind: "full" | "closed" };

/** Longer than anybody who lives holds the lock, by far. */
const lockTimeoutMs = 30_000;

/** One look at each is cheaper up to here, one listing from here on. */
const fewAddresses = 32;

export class BlockDirectory {
  readonly path: string;
  readonly #cidr: Cidr;
  readonly #size: number;
  readonly #files: LeaseFiles;
  readonly #closedPath: string;
  readonly #ringPath: string;
  readonly #lockPath: string;

  /** @param parent the directory of all blocks; beside it the file that holds the locks of all */
  constructor(parent: string, cidr: string, files: LeaseFiles) {
    this.#cidr = parseCidr(cidr);
    this.#size = this.#cidr.last - this.#cidr.first + 1;
    this.#files = files;
    this.path = join(parent, directoryName(cidr));
    this.#closedPath = join(parent, closedName(cidr));
    this.#ringPath = join(this.path, ringName);
    this.#lockPath = `${parent}.lock`;
  }

  pathOf(address: string): string {
    return join(this.path, address);
  }

  isAddress(name: string): boolean {
    return isIPv4(name) && containsAddress(this.#cidr, parseAddress(name));
  }

  /** The addresses that have a name; undefined when the block is not open. */
  async taken(): Promise<Set<string> | undefined> {
    const names = await this.#files.names(this.path);
    return names && new Set(names.filter((name) => this.isAddress(name)));
  }

  /**
   * @param prepare is given the directory with the addresses' names: as long as nobody can lease from it, where it was not
   *   open before
   */
  open(prepare: (directory: string) => Promise<void> = async () => {}): Promise<void> {
    return this.#locked(async () => {
      if (await this.#files.hasDirectory(this.path)) {
        return prepare(this.path);
      }
      await this.#files.makeDirectory(this.#closedPath);
      await prepare(this.#closedPath);
      if ((await this.#files.names(this.#closedPath))?.length === 0) {
        await this.#writeRing(FreeRing.of(this.#size, this.#offsets(), 0), this.#closedPath);
      }
      await this.#files.operations.rename(this.#closedPath, this.path);
    });
  }

  /** Does the work while nobody closes the block or releases an address of it. @returns undefined when it is not open */
  whileOpen<Result>(work: (directory: string) => Promise<Result>): Promise<Result | undefined> {
    return this.#locked(async () => ((await this.#files.hasDirectory(this.path)) ? work(this.path) : undefined));
  }

  /** The rename decides: whoever leases by link(2) is before it, and seen, or behind it, and finds no directory. */
  close(): Promise<boolean> {
    return this.#locked(async () => {
      const { rename } = this.#files.operations;
      if ((await this.taken())?.size !== 0) {
        return false;
      }
      await rename(this.path, this.#closedPath);
      const isEmpty = !(await this.#files.names(this.#closedPath))?.some((name) => this.isAddress(name));
      if (!isEmpty) {
        await rename(this.#closedPath, this.path);
      }
      return isEmpty;
    });
  }

  /** @returns false when the block is open again, since it is ours or has leases */
  async forgetUnless(isOurs: boolean): Promise<boolean> {
    const names = (await this.#files.names(this.#closedPath)) ?? [];
    if (isOurs || names.some((name) => this.isAddress(name))) {
      await this.open();
      await this.#files.setAside(this.#closedPath); // is still there only if somebody has made the block's directory anew
      return false;
    }
    await this.#setAsideForeign(this.#closedPath, names);
    for (const name of names.filter(isOwnName)) {
      await this.#files.remove(join(this.#closedPath, name));
    }
    await missingAsUndefined(this.#files.operations.rmdir(this.#closedPath));
    return true;
  }

  /** Takes the next free address out of the ring. */
  async next({ now, mayGive, isRested }: Choice): Promise<Hint> {
    const time = ringTime(now);
    const mayGiveOffset = (offset: number) => mayGive(this.#cidr.first + offset);
    const hint = await this.#changeRing(now, async (ring): Promise<Hint> => {
      let next = ring.next(mayGiveOffset);
      if (next === undefined || !isRested(next.releasedAt)) {
        await this.#settle(ring, time);
        next = ring.next(mayGiveOffset);
      }
      if (next === undefined) {
        return { kind: "full" };
      }
      if (!isRested(next.releasedAt)) {
        return { kind: "resting", since: next.releasedAt };
      }
      ring.take(next.offset, time);
      return { kind: "try", address: formatAddress(this.#cidr.first + next.offset) };
    });
    return hint ?? { kind: "closed" };
  }

  /** An address that was leased without being the next. */
  async takeOut(address: string, now: Date): Promise<void> {
    await this.#changeRing(now, async (ring) => ring.take(this.#offset(address), ringTime(now)));
  }

  /** Frees the address if the file is the one that has it. Content when the block is not open. */
  async release(address: string, file: FileIdentity, now: Date): Promise<void> {
    await this.#locked(async () => {
      // In a block that a killed process left half closed or half open, too.
      const names = [this.path, this.#closedPath].map((directory) => join(directory, address));
      let isHeld = false;
      for (const name of names) {
        if (isSameFile(await this.#files.identity(name), file)) {
          await this.#files.remove(name);
          isHeld = true;
        }
      }
      const offset = this.#offset(address);
      await this.#changeRingLocked(now, async (ring) => {
        if (isHeld) {
          ring.put(offset, ringTime(now));
        } else if (ring.isSettled(offset)) {
          ring.take(offset, ringTime(now)); // a killed release may have got no further than to the removal
        }
      }).catch(() => this.#files.remove(this.#ringPath)); // full disk: it is found out anew
    });
  }

  /** Whether the address's name is that file, also while the block is half closed. */
  async has(address: string, file: FileIdentity): Promise<boolean> {
    const isHeld = async () => isSameFile(await this.#files.identity(this.pathOf(address)), file);
    return (await isHeld()) || (await this.#locked(isHeld));
  }

  /** Compares the ring with the names, and sets aside what is no name of ours. */
  async tidy(now: Date): Promise<void> {
    await this.#locked(async () => {
      await this.#setAsideForeign(this.path, (await this.#files.names(this.path)) ?? []);
      await this.#files.remove(besideName(this.#ringPath));
      await this.#changeRingLocked(now, async (ring) => {
        const taken = (await this.taken()) ?? new Set();
        const free = new Set(ring.free);
        for (const offset of this.#offsets()) {
          const isTaken = taken.has(formatAddress(this.#cidr.first + offset));
          if (isTaken && !ring.isSettled(offset)) {
            ring.settle(offset);
          } else if (!isTaken && !free.has(offset)) {
            ring.put(offset, ringTime(now));
          }
        }
      });
    });
  }

  /** Of those that were taken out: whoever took them out was killed or is at work, or they are leased by now. */
  async #settle(ring: FreeRing, time: number): Promise<void> {
    const unsettled = ring.unsettled();
    const names = unsettled.length > fewAddresses ? await this.taken() : undefined;
    for (const offset of unsettled) {
      const address = formatAddress(this.#cidr.first + offset);
      const isTaken = names?.has(address) ?? (await this.#files.identity(this.pathOf(address))) !== undefined;
      if (isTaken) {
        ring.settle(offset);
      } else {
        ring.put(offset, time);
      }
    }
  }

  /** @returns undefined when the block is not open */
  #changeRing<Result>(now: Date, change: (ring: FreeRing) => Promise<Result>): Promise<Result | undefined> {
    return missingAsUndefined(this.#locked(() => this.#changeRingLocked(now, change)));
  }

  async #changeRingLocked<Result>(now: Date, change: (ring: FreeRing) => Promise<Result>): Promise<Result | undefined> {
    const opened = (await this.#openRing()) ?? ((await this.#findOutFree(now)) ? await this.#openRing() : undefined);
    if (opened === undefined) {
      return undefined;
    }
    const { ring, file } = opened;
    try {
      const result = await change(ring);
      if (ring.isChanged) {
        // The header last: without it the rest says what it said before.
        await file.write(ring.bytes, headerBytes, undefined, headerBytes);
        await file.write(ring.bytes, 0, headerBytes, 0);
      }
      return result;
    } finally {
      await file.close();
    }
  }

  async #openRing(): Promise<{ readonly ring: FreeRing; readonly file: FileHandle } | undefined> {
    const file = await this.#files.openRegular(this.#ringPath, constants.O_RDWR);
    if (file === undefined) {
      return undefined;
    }
    let ring: FreeRing | undefined;
    try {
      const bytes = Buffer.alloc(ringBytes(this.#size) + 1); // one more tells that the file is too long
      const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
      ring = FreeRing.decode(bytes.subarray(0, bytesRead), this.#size);
      return ring && { ring, file };
    } finally {
      if (ring === undefined) {
        await file.close();
      }
    }
  }

  /** Nobody knows in which order they were released: all might have been just now. @returns false when the block is not open */
  async #findOutFree(now: Date): Promise<boolean> {
    const taken = await this.taken();
    if (taken === undefined) {
      return false;
    }
    if ((await this.#files.identity(this.#ringPath)) !== undefined) {
      await this.#files.setAside(this.#ringPath);
    }
    const free = [...this.#offsets()].filter((offset) => !taken.has(formatAddress(this.#cidr.first + offset)));
    await this.#writeRing(FreeRing.of(this.#size, free, ringTime(now)));
    return true;
  }

  #writeRing(ring: FreeRing, directory = this.path): Promise<void> {
    return this.#files.writeBeside(join(directory, ringName), ring.bytes, { synced: false });
  }

  async #setAsideForeign(directory: string, names: readonly string[]): Promise<void> {
    for (const name of names.filter((each) => !isOwnName(each) && !this.isAddress(each))) {
      await this.#files.setAside(join(directory, name));
    }
  }

  async #locked<Result>(work: () => Promise<Result>): Promise<Result> {
    const limits = { timeoutMs: lockTimeoutMs, signal: new AbortController().signal };
    const lock = await lockName(this.#lockPath, this.#cidr.text, limits);
    if (lock === undefined) {
      throw new Error(`another process holds the lock of ${this.#cidr.text} for ${lockTimeoutMs / 1000} s`);
    }
    try {
      return await work();
    } finally {
      await lock.release();
    }
  }

  #offset(address: string): number {
    return parseAddress(address) - this.#cidr.first;
  }

  #offsets(): Iterable<number> {
    return Array(this.#size).keys();
  }
}

const ringName = ".free";

function isOwnName(name: string): boolean {
  return name === ringName || name === basename(besideName(ringName));
}
