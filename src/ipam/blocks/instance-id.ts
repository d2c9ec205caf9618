/** What tells this installation of a node from another one under the same name: a random id on the node's disk. */
import { randomUUID } from "node:crypto";
import { link, mkdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { readText, writeSynced } from "../../atomic-file.ts";

export interface NodeInstance {
  readonly id: string;
  /** Nothing on this disk tells of an older one. */
  readonly isNew: boolean;
  /** Where something that was no id was put. */
  readonly setAside?: string;
}

const content = z.uuid();

/**
 * Makes it when there is none: once, also by two processes at the same time. A file that is no id is set aside, since a
 * node with a new id is as good as one that was installed anew, and one that does not start is not.
 *
 * @throws an error that names the file when it cannot be read or made
 */
export async function nodeInstance(stateDir: string): Promise<NodeInstance> {
  const path = join(stateDir, "instance-id");
  try {
    const found = (await readText(path))?.trim();
    const isDamaged = found !== undefined && !content.safeParse(found).success;
    if (found !== undefined && !isDamaged) {
      return { id: found, isNew: false };
    }
    const id = randomUUID();
    const setAside = isDamaged ? { setAside: `${path}.broken-${id}` } : {};
    if (isDamaged) {
      await rename(path, `${path}.broken-${id}`);
    }
    const isMade = await createOnce(path, id);
    return isMade ? { id, isNew: true, ...setAside } : await nodeInstance(stateDir);
  } catch (error) {
    throw new Error(`Cannot use the instance id "${path}": ${(error as Error).message}`, { cause: error });
  }
}

/** @returns false when somebody else was faster */
async function createOnce(path: string, id: string): Promise<boolean> {
  const beside = `${path}.${id}`;
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  try {
    await writeSynced(beside, `${id}\n`, 0o600);
    await link(beside, path);
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
