/** Reads one document from its file. */
import { closeSync, constants, fstatSync, openSync, readFileSync, statSync } from "node:fs";
import { parseJson } from "../sentence.ts";
import type { Document } from "./cluster.ts";
import { type DocumentKinds, type Kind, parseDocument } from "./documents.ts";

export interface DocumentFile<T> {
  /** Differs when the file was written or replaced; undefined for a file that cannot be read. */
  readonly signature: string | undefined;
  readonly document: Document<T>;
}

/** Bytes. The list of a node's addresses stays far below; a file that somebody misplaced may not. */
const largestDocument = 1024 * 1024;

/** Undefined when there is no file, or none that can be read. */
export function signatureOf(path: string): string | undefined {
  try {
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
    return stats && signature(stats);
  } catch {
    return undefined;
  }
}

/** Undefined when there is no file. A file that cannot be read or says something wrong is a document with a problem. */
export function readDocumentFile<K extends Kind>(
  path: string,
  kind: K,
  name: string,
): DocumentFile<DocumentKinds[K]> | undefined {
  let read: { signature: string; text: string };
  try {
    read = readText(path);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") {
      return undefined;
    }
    return { signature: undefined, document: { source: path, problem: `it cannot be read, ${message}` } };
  }
  try {
    const value = parseDocument(kind, name, parseJson(read.text));
    return { signature: read.signature, document: { source: path, value } };
  } catch (error) {
    return { signature: read.signature, document: { source: path, problem: (error as Error).message } };
  }
}

function readText(path: string): { signature: string; text: string } {
  // Without O_NONBLOCK a named pipe in place of a document would stop the whole process.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(file, { bigint: true });
    if (!stats.isFile()) {
      throw new TypeError("it is not a regular file");
    }
    if (stats.size > largestDocument) {
      throw new RangeError(`its size is ${stats.size} bytes, up to ${largestDocument} are allowed`);
    }
    return { signature: signature(stats), text: readFileSync(file, "utf8") };
  } finally {
    closeSync(file);
  }
}

function signature(stats: { dev: bigint; ino: bigint; size: bigint; mtimeNs: bigint; ctimeNs: bigint }): string {
  return `${stats.dev}:${stats.ino}:${stats.size}:${stats.mtimeNs}:${stats.ctimeNs}`;
}
