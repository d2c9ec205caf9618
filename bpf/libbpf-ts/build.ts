/** Builds build/libbpf.node and puts libbpf and what it needs beside it, so that a host needs none of them. */
// biome-ignore lint/style/noRestrictedImports: the package stands alone
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, realpathSync, renameSync } from "node:fs";
import { isAbsolute, join } from "node:path";

const here = import.meta.dirname;
const source = join(here, "src/native");
const target = join(here, "build");
const nodeHeaders = join(process.execPath, "../../include/node");

function compile(args: readonly string[]): string {
  return execFileSync("cc", args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim();
}

/** Running processes may have the old file mapped: it is replaced by a rename, never written to. */
function publish(name: string, write: (path: string) => void): void {
  const path = join(target, name);
  const draft = `${path}.${process.pid}`;
  write(draft);
  renameSync(draft, path);
}

function buildAddon(path: string): void {
  compile([
    ...["-shared", "-fPIC", "-O2", "-s", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I", nodeHeaders, "-o", path],
    ...readdirSync(source)
      .filter((name) => name.endsWith(".c"))
      .map((name) => join(source, name)),
    // DT_RPATH (not DT_RUNPATH) also holds for what libbpf.so.1 needs itself, and LD_LIBRARY_PATH does not override it.
    ...["-Wl,--disable-new-dtags,-rpath,$ORIGIN", "-lbpf"],
  ]);
}

function locateLibrary(name: string): string {
  const found = compile([`-print-file-name=${name}`]);
  if (!isAbsolute(found)) {
    throw new Error(`Cannot find "${name}": the development files of libbpf, libelf and zlib must be installed`);
  }
  return realpathSync(found);
}

mkdirSync(target, { recursive: true });
publish("libbpf.node", buildAddon);
for (const name of ["libbpf.so.1", "libelf.so.1", "libz.so.1"]) {
  publish(name, (path) => copyFileSync(locateLibrary(name), path));
}
