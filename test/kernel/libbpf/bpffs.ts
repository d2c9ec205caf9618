/** A bpffs of the test's own, so that nothing is pinned in the machine's. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../../../src/exec.ts";

export class Bpffs {
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
  }

  static async mount(): Promise<Bpffs> {
    // mkdtemp's random part has no dot: the kernel allows none in names below the mount point.
    const directory = await mkdtemp(join(tmpdir(), "libbpf-ts-pins-"));
    await run({ file: "mount", args: ["-t", "bpf", "bpffs", directory] });
    return new Bpffs(directory);
  }

  path(name: string): string {
    return join(this.#directory, name);
  }

  async unmount(): Promise<void> {
    await run({ file: "umount", args: [this.#directory] });
    await rm(this.#directory, { recursive: true });
  }
}
