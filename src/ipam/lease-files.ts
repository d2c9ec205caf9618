/** Files that are safe to read whatever stands in their place, and safe to write whenever the process may be killed. */
import { randomUUID } from "node:crypto";
import { type BigIntStats, constants } from "node:fs";
import * as filesOfNode from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** What is called of node:fs/promises. */
export type FileOperations = Pick<
  typeof filesOfNode,
  "link" | "lstat" | "mkdir" | "open" | "readdir" | "rename" | "rmdir" | "unlink"
>;

/** Two names with the same identity are one file. */
export interface FileIdentity {
  readonly device: bigint;
  readonly inode: bigint;
}

export interface FoundFile {
  readonly identity: FileIdentity;
  /** When its content changed last: milliseconds since 1970. */
  readonly changedMs: number;
  /** Undefined when it is no regular file, or too large to be one of ours. */
  readonly text: string | undefined;
}

/** Bytes: owners' names are the longest that is in our files, and no runtime makes them that long. */
const largestText = 65_536;

export class LeaseFiles {
  readonly operations: FileOperations;
  readonly #brokenDirectory: string;

  /** @param brokenDirectory where foreign and damaged files go; made with the first */
  constructor(brokenDirectory: string, operations: FileOperations = filesOfNode) {
    this.#brokenDirectory = brokenDirectory;
    this.operations = operations;
  }

  /** @returns undefined when nothing is there */
  async read(path: string): Promise<FoundFile | undefined> {
    const file = await this.openRegular(path, constants.O_RDONLY);
    if (file === undefined) {
      const found = await missingAsUndefined(this.operations.lstat(path, { bigint: true }));
      // A regular file came between the two calls.
      return found?.isFile() ? this.read(path) : found && describe(found, undefined);
    }
    try {
      const found = await file.stat({ bigint: true });
      return describe(found, found.size <= largestText ? await file.readFile("utf8") : undefined);
    } finally {
      await file.close();
    }
  }

  /** @returns undefined when nothing is there; of a symbolic link its own */
  async identity(path: string): Promise<FileIdentity | undefined> {
    const found = await missingAsUndefined(this.operations.lstat(path, { bigint: true }));
    return found && describe(found, undefined).identity;
  }

  /** Never waits, as a FIFO would make it. @returns undefined when it is no regular file, or none is there */
  async openRegular(path: string, flags: number): Promise<filesOfNode.FileHandle | undefined> {
    const file = await this.operations
      .open(path, flags | constants.O_NONBLOCK | constants.O_NOFOLLOW)
      .catch((error) => noneWhen(["ENOENT", "ENOTDIR", "EISDIR", "ELOOP", "ENXIO"], error));
    if (file === undefined || (await file.stat()).isFile()) {
      return file;
    }
    await file.close();
    return undefined;
  }

  /** Overwrites what a killed writer left; on a full disk nothing is left. */
  async writeBeside(path: string, content: string | Uint8Array, { synced }: { synced: boolean }): Promise<void> {
    const beside = besideName(path);
    try {
      const file = await this.operations.open(beside, "w", 0o600);
      try {
        await file.writeFile(content);
        if (synced) {
          await file.sync();
        }
      } finally {
        await file.close();
      }
      await this.operations.rename(beside, path);
    } catch (error) {
      await this.remove(beside).catch(() => {}); // the first error is the one to report
      throw error;
    }
  }

  /** Content when it is gone. */
  async remove(path: string): Promise<void> {
    await missingAsUndefined(this.operations.unlink(path));
  }

  /** Names in a directory; undefined when it is not there, or no directory. */
  async names(path: string): Promise<string[] | undefined> {
    return missingAsUndefined(this.operations.readdir(path));
  }

  /** Makes a directory, also instead of what stands in its place. */
  async makeDirectory(path: string): Promise<void> {
    if (!(await this.hasDirectory(path))) {
      await this.operations.mkdir(path, { recursive: true, mode: 0o700 });
    }
  }

  /** Whether a directory is there. Anything else is set aside. */
  async hasDirectory(path: string): Promise<boolean> {
    const found = await missingAsUndefined(this.operations.lstat(path));
    if (found !== undefined && !found.isDirectory()) {
      await this.setAside(path);
    }
    return found?.isDirectory() === true;
  }

  /** Gives a file that is not what its name says another name, under which it does no harm and somebody can look at it. */
  async setAside(path: string): Promise<void> {
    await this.makeDirectory(this.#brokenDirectory);
    const name = `${basename(dirname(path))}-${basename(path)}.${randomUUID().slice(0, 8)}`;
    await missingAsUndefined(this.operations.rename(path, join(this.#brokenDirectory, name)));
  }

  async brokenFiles(): Promise<string[]> {
    const names = (await this.names(this.#brokenDirectory)) ?? [];
    return names.map((name) => join(this.#brokenDirectory, name)).sort();
  }
}

/** Where `writeBeside` writes: a name that is never read. */
export function besideName(path: string): string {
  return join(dirname(path), `.${basename(path)}.new`);
}

function describe({ dev, ino, mtimeMs }: BigIntStats, text: string | undefined): FoundFile {
  return { identity: { device: dev, inode: ino }, changedMs: Number(mtimeMs), text };
}

export function isSameFile(one: FileIdentity | undefined, other: FileIdentity | undefined): boolean {
  return one !== undefined && one.inode === other?.inode && one.device === other.device;
}

export function missingAsUndefined<Value>(promise: Promise<Value>): Promise<Value | undefined> {
  return promise.catch((error) => noneWhen(["ENOENT", "ENOTDIR"], error));
}

function noneWhen(codes: readonly string[], error: unknown): undefined {
  if (!codes.includes((error as NodeJS.ErrnoException).code ?? "")) {
    throw error;
  }
  return undefined;
}
