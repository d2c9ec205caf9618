/** Files that others read while they are written: seen whole, in the old version or the new one, also after a power cut. */
import { randomUUID } from "node:crypto";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** Makes the directory too. Leaves nothing beside the file when it fails. */
export async function writeAtomically(path: string, text: string): Promise<void> {
  const directory = dirname(path);
  await mkdir(directory, { recursive: true });
  const beside = join(directory, `.${basename(path)}.${randomUUID()}`);
  try {
    await writeSynced(beside, text, 0o644);
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
}

/** @throws an error with code EEXIST when the file is there already */
export async function writeSynced(path: string, text: string, mode: number): Promise<void> {
  const file = await open(path, "wx", mode);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}
