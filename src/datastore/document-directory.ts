/** The documents of one kind: a directory with one file each. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { Condition, Document } from "./cluster.ts";
import { type DocumentFile, readDocumentFile, signatureOf } from "./document-file.ts";
import type { DocumentKinds } from "./documents.ts";
import { isDoubtful } from "./doubt.ts";

const ending = ".json";

/** Files that are looked at in one turn of the event loop: about as many as fit into 5 ms. */
const filesATurn = 500;

/**
 * Deletions that were seen as events are believed at once. What only a listing lacks stays: until it lacks it a second
 * time, for a directory that is copied back is not complete at first, and for good where it lacks much.
 */
export class DocumentDirectory<K extends "node" | "pool" | "block"> {
  readonly path: string;
  readonly #kind: K;
  readonly #confirmationMs: number;
  readonly #files = new Map<string, DocumentFile<DocumentKinds[K]>>();
  /** By name: since when, by performance.now(), listings lack a file of which no deletion was seen. */
  #missing = new Map<string, number>();
  #isDoubted = false;
  #listingProblem: string | undefined;

  /** `confirmationMs`: time between two listings that have to lack a file. */
  constructor(path: string, kind: K, confirmationMs: number) {
    this.path = path;
    this.#kind = kind;
    this.#confirmationMs = confirmationMs;
  }

  get documents(): Map<string, Document<DocumentKinds[K]>> {
    return new Map([...this.#files].map(([name, { document }]) => [name, document]));
  }

  get condition(): Condition | undefined {
    const message = this.#listingProblem ?? this.#doubt();
    return message === undefined ? undefined : { object: `datastore/${this.#kind}s`, message };
  }

  /** Whether the last listing was possible. */
  get isListed(): boolean {
    return this.#listingProblem === undefined;
  }

  /** Whether another listing has to confirm what the last one lacked. */
  get isUncertain(): boolean {
    return this.isListed && !this.#isDoubted && this.#missing.size > 0;
  }

  /** Reads a file again after an event. Returns whether anything may have changed. */
  refresh(fileName: string): boolean {
    const name = documentName(fileName);
    if (name === undefined) {
      return false;
    }
    this.#missing.delete(name);
    return this.#read(name) || this.#files.delete(name);
  }

  /** Looks at all files and reads those that changed. Returns whether anything may have changed. */
  async list(): Promise<boolean> {
    let fileNames: string[];
    try {
      // Asynchronous, as the first touch of storage always is: a share that hangs stops the listing, not the process.
      fileNames = await readdir(this.path);
    } catch (error) {
      this.#listingProblem = this.#problemOf(error as NodeJS.ErrnoException);
      return false;
    }
    this.#listingProblem = undefined;
    const present = new Set<string>();
    let changed = false;
    for (const [index, fileName] of fileNames.entries()) {
      const name = documentName(fileName);
      if (name !== undefined && this.#isUnchanged(name)) {
        present.add(name);
      } else if (name !== undefined && this.#read(name)) {
        present.add(name);
        changed = true;
      }
      if (index % filesATurn === filesATurn - 1) {
        await setImmediate();
      }
    }
    return this.#removeMissing(present) || changed;
  }

  #isUnchanged(name: string): boolean {
    const known = this.#files.get(name)?.signature;
    return known !== undefined && known === signatureOf(this.#pathOf(name));
  }

  /** Returns whether there is such a file. */
  #read(name: string): boolean {
    const file = readDocumentFile(this.#pathOf(name), this.#kind, name);
    if (file) {
      this.#files.set(name, file);
    }
    return file !== undefined;
  }

  #removeMissing(present: ReadonlySet<string>): boolean {
    const now = performance.now();
    const missing = [...this.#files.keys()].filter((name) => !present.has(name));
    this.#missing = new Map(missing.map((name) => [name, this.#missing.get(name) ?? now]));
    this.#isDoubted = isDoubtful(missing.length, this.#files.size);
    if (this.#isDoubted) {
      return false;
    }
    const confirmed = missing.filter((name) => now - (this.#missing.get(name) ?? now) >= this.#confirmationMs);
    for (const name of confirmed) {
      this.#missing.delete(name);
      this.#files.delete(name);
    }
    return confirmed.length > 0;
  }

  #doubt(): string | undefined {
    const [first] = this.#missing.keys();
    return this.#isDoubted && first !== undefined
      ? `Cannot believe "${this.path}": ${this.#missing.size} of ${this.#files.size} documents are missing, "${first}${ending}" among them, and were not seen to be deleted; they stay in force until they are back, or until sync is restarted`
      : undefined;
  }

  #problemOf({ code, message }: NodeJS.ErrnoException): string | undefined {
    if (code !== "ENOENT") {
      return `Cannot list "${this.path}": ${message}; what was read before stays in force`;
    }
    return this.#files.size === 0
      ? undefined
      : `Cannot find "${this.path}": the directory of ${this.#files.size} documents is gone, they stay in force until it is back`;
  }

  #pathOf(name: string): string {
    return join(this.path, `${name}${ending}`);
  }
}

/** Undefined for what is no document: hidden files, and those that a writer is still working on. */
function documentName(fileName: string): string | undefined {
  return fileName.endsWith(ending) && !fileName.startsWith(".") ? fileName.slice(0, -ending.length) : undefined;
}
