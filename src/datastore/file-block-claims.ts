/** Block claims in the file kind of datastore: one document a block, made by link(2), which fails where one is. */
import { randomUUID } from "node:crypto";
import { link, lstat, mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { writeSynced } from "../atomic-file.ts";
import { lockName, tryLockName } from "../linux/lock.ts";
import type { BlockClaims } from "./block-claims.ts";
import { readDocumentFile, signatureOf } from "./document-file.ts";
import { type Block, blockName } from "./documents.ts";

/** Milliseconds that a change waits for another one of the same block, which takes a few. */
const lockTimeoutMs = 5000;

export class FileBlockClaims implements BlockClaims {
  readonly #path: string;
  readonly #directory: string;
  readonly #lockFile: string;
  #isTidied = false;

  /** @param path the directory of the datastore */
  constructor(path: string) {
    this.#path = path;
    this.#directory = join(path, "blocks");
    this.#lockFile = join(path, ".claims.lock");
  }

  claim(block: Block): Promise<boolean> {
    return this.#change("claim", block.cidr, async () => {
      if (signatureOf(this.#pathOf(block.cidr)) !== undefined) {
        return false; // as most races end: without a file written for nothing
      }
      // Not by rename: programs that know nothing of our lock may have made the document meanwhile.
      return this.#withBeside(block, (beside) => linkUnlessTaken(beside, this.#pathOf(block.cidr)));
    });
  }

  replace(expected: Block, next: Block): Promise<boolean> {
    return this.#change("replace", expected.cidr, async () => {
      if (!this.#isAsExpected(expected)) {
        return false;
      }
      await this.#withBeside(next, (beside) => rename(beside, this.#pathOf(expected.cidr)));
      return true;
    });
  }

  giveBack(expected: Block): Promise<boolean> {
    return this.#change("give back", expected.cidr, async () => {
      if (!this.#isAsExpected(expected)) {
        return false;
      }
      await rm(this.#pathOf(expected.cidr));
      return true;
    });
  }

  async read(cidr: string): Promise<Block | undefined> {
    const action = `Cannot read the block "${cidr}"`;
    await this.#checkMarker(action);
    const document = readDocumentFile(this.#pathOf(cidr), "block", blockName(cidr))?.document;
    if (document && "problem" in document) {
      throw new Error(`${action}: "${document.source}" is no block, ${document.problem}`);
    }
    return document?.value;
  }

  async hasNode(name: string): Promise<boolean> {
    const action = `Cannot look for the node "${name}"`;
    await this.#checkMarker(action);
    try {
      return (await readdir(join(this.#path, "nodes"))).includes(`${name}.json`);
    } catch (error) {
      throw new Error(`${action}: ${(error as Error).message}`, { cause: error });
    }
  }

  /** One change of a block at a time, among all processes that share the directory. */
  async #change(verb: string, cidr: string, work: () => Promise<boolean>): Promise<boolean> {
    const action = `Cannot ${verb} the block "${cidr}"`;
    await this.#checkMarker(action);
    try {
      await mkdir(this.#directory, { recursive: true });
      await this.#tidy();
      const limits = { timeoutMs: lockTimeoutMs, signal: new AbortController().signal };
      const lock = await lockName(this.#lockFile, blockName(cidr), limits);
      if (lock === undefined) {
        throw new Error(`somebody else changes it, after ${lockTimeoutMs} ms, the limit, still`);
      }
      try {
        const isChanged = await work();
        if (isChanged) {
          // A claim that a power cut takes back would be somebody else's after it, with pods of ours in it.
          await syncDirectory(this.#directory);
        }
        return isChanged;
      } finally {
        await lock.release();
      }
    } catch (error) {
      throw new Error(`${action} in "${this.#directory}": ${(error as Error).message}`, { cause: error });
    }
  }

  /** Where a share is not mounted its empty directory must not take any claim. */
  async #checkMarker(action: string): Promise<void> {
    const marker = join(this.#path, "cluster.json");
    await lstat(marker).catch(({ message }: Error) => {
      throw new Error(`${action}: no datastore is in "${this.#path}", ${message}`);
    });
  }

  #isAsExpected(expected: Block): boolean {
    const document = readDocumentFile(this.#pathOf(expected.cidr), "block", blockName(expected.cidr))?.document;
    return document !== undefined && "value" in document && isDeepStrictEqual(document.value, expected);
  }

  /** The new document under a hidden name, which no reader takes for a document and no two writers share. */
  async #withBeside<Result>(block: Block, use: (beside: string) => Promise<Result>): Promise<Result> {
    const beside = join(this.#directory, `${besidePrefix}${blockName(block.cidr)}.${randomUUID()}`);
    try {
      await writeSynced(beside, `${JSON.stringify(block, undefined, 2)}\n`, 0o644);
      return await use(beside);
    } finally {
      await rm(beside, { force: true });
    }
  }

  /** Once: removes what writers left that were killed. Those of a block that nobody is at work on are left over. */
  async #tidy(): Promise<void> {
    if (this.#isTidied) {
      return;
    }
    this.#isTidied = true;
    const leftOver = (await readdir(this.#directory)).filter((name) => name.startsWith(besidePrefix));
    for (const [name, file] of leftOver.map((each) => [blockOfBeside(each), each] as const)) {
      const lock = await tryLockName(this.#lockFile, name);
      if (lock) {
        await rm(join(this.#directory, file), { force: true }).finally(() => lock.release());
      }
    }
  }

  #pathOf(cidr: string): string {
    return join(this.#directory, `${blockName(cidr)}.json`);
  }
}

const besidePrefix = ".claim-";

/** ".claim-10.100.15.128-26.<uuid>" is of "10.100.15.128-26". */
function blockOfBeside(name: string): string {
  return name.slice(besidePrefix.length, name.lastIndexOf("."));
}

async function linkUnlessTaken(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") {
      return false;
    }
    throw error;
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
