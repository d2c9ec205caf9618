/** Builds the small first file system that a stock kernel needs to reach the host's file tree. */
import { chmod, copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { run } from "../../../src/exec.ts";
import type { Kernel } from "./kernels.ts";

/** What stands between a stock kernel and a root file system shared by qemu over 9p. */
const MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/** Writes an initramfs (cpio, uncompressed) to `file`. */
export async function buildInitramfs(kernel: Kernel, file: string): Promise<void> {
  const tree = `${file}.tree`;
  try {
    for (const directory of ["bin", "dev", "lower", "modules", "proc", "root", "upper"]) {
      await mkdir(join(tree, directory), { recursive: true });
    }
    await copyFile("/bin/busybox", join(tree, "bin/busybox"));
    await copyFile(join(import.meta.dirname, "init.sh"), join(tree, "init"));
    await chmod(join(tree, "init"), 0o755);
    const order = loadOrder(await readFile(join(kernel.modules, "modules.dep"), "utf8"), MODULES);
    for (const module of order) {
      await copyModule(join(kernel.modules, module), join(tree, "modules"));
    }
    const names = order.map((module) => basename(module, ".xz"));
    await writeFile(join(tree, "modules/order"), `${names.join("\n")}\n`);
    const entries = await readdir(tree, { recursive: true });
    await run({
      file: "cpio",
      args: ["--quiet", "--create", "--format=newc", `--file=${file}.new`],
      input: [".", ...entries].join("\n"),
      cwd: tree,
    });
    await rename(`${file}.new`, file);
  } finally {
    await rm(tree, { recursive: true, force: true });
  }
}

/**
 * Paths of modules in the order in which to insert them. A line of modules.dep (see modules.dep(5)) names a module
 * and what it needs, the first needed last. A name without a line is built into the kernel.
 */
export function loadOrder(dependencies: string, names: readonly string[]): string[] {
  const lines = dependencies.split("\n").map((line) => line.split(/[: ]+/).filter((path) => path !== ""));
  const order = names.flatMap((name) => {
    const line = lines.find(([path = ""]) => basename(path).replace(/\.ko(\.xz)?$/, "") === name) ?? [];
    return line.toReversed();
  });
  return [...new Set(order)];
}

async function copyModule(path: string, directory: string): Promise<void> {
  const target = join(directory, basename(path));
  await copyFile(path, target);
  if (path.endsWith(".xz")) {
    await run({ file: "busybox", args: ["unxz", target] });
  }
}
