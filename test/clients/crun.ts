/** The low-level runtime below containerd and podman. */
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";

/**
 * Without cgroups: which kind a machine has, and whether it may be written, differs, and no network depends on it.
 *
 * @returns path of a program that takes the arguments of crun
 */
export async function writeLauncher(directory: string): Promise<string> {
  const file = join(directory, "crun");
  await writeFile(file, '#!/bin/sh\nexec /usr/bin/crun --cgroup-manager=disabled "$@"\n');
  await chmod(file, 0o755);
  return file;
}
