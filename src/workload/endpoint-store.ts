/**
 * The endpoints of this node, one small file each in the run directory, which a reboot empties like the kernel. An
 * endpoint is written before anything of it is made and removed after everything of it is gone, so that whatever a
 * killed ADD or DEL left can be found.
 */
import { readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { readText, writeAtomically } from "../atomic-file.ts";
import { type LeaseOwner, ownerFileName } from "../ipam/lease-store.ts";
import { type WorkloadEndpoint, workloadEndpoint } from "./endpoint.ts";

export class EndpointStore {
  readonly #directory: string;

  constructor(runDir: string) {
    this.#directory = join(runDir, "endpoints");
  }

  /** What cannot be read as an endpoint is left out. */
  async list(): Promise<WorkloadEndpoint[]> {
    const endpoints = await Promise.all((await this.#files()).map((path) => readEndpoint(path)));
    return endpoints.filter((endpoint) => endpoint !== undefined);
  }

  /** Nobody can tell whose they were. */
  async removeDamaged(): Promise<void> {
    for (const path of await this.#files()) {
      if ((await readEndpoint(path)) === undefined) {
        await rm(path, { force: true });
      }
    }
  }

  read(owner: LeaseOwner): Promise<WorkloadEndpoint | undefined> {
    return readEndpoint(this.#path(owner));
  }

  /** One writer an owner at a time. */
  save(endpoint: WorkloadEndpoint): Promise<void> {
    return writeAtomically(this.#path(endpoint.owner), JSON.stringify(endpoint));
  }

  /** Content when it is gone already. */
  async remove(owner: LeaseOwner): Promise<void> {
    const path = this.#path(owner);
    await rm(join(dirname(path), `.${basename(path)}.new`), { force: true }); // of a writer that was killed
    await rm(path, { force: true });
  }

  async #files(): Promise<string[]> {
    const found = (await readdir(this.#directory, { withFileTypes: true }).catch(noneWhenMissing)) ?? [];
    const files = found.filter((entry) => entry.isFile() && !entry.name.startsWith("."));
    return files.map(({ name }) => join(this.#directory, name));
  }

  #path(owner: LeaseOwner): string {
    return join(this.#directory, ownerFileName(owner));
  }
}

async function readEndpoint(path: string): Promise<WorkloadEndpoint | undefined> {
  const text = await readText(path);
  try {
    return text === undefined ? undefined : workloadEndpoint.parse(JSON.parse(text));
  } catch {
    return undefined; // damaged: only a repeated ADD needs what it said, and that makes everything anew
  }
}

function noneWhenMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") {
    throw error;
  }
}
