/** Builds everything that is shipped into dist/: native addons, BPF objects, bundles. */
import { copyFile, mkdir, readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { run } from "./src/exec.ts";

const root = import.meta.dirname;
const dist = join(root, "dist");
const nodeHeaders = join(process.execPath, "../../include/node");

async function buildAddons(): Promise<void> {
  await run({ file: "npm", args: ["run", "--silent", "build", "-w", "libbpf-ts"], cwd: root });
  const built = join(root, "bpf/libbpf-ts/build");
  for (const name of await readdir(built)) {
    await copyFile(join(built, name), join(dist, name));
  }
  await run({
    file: "cc",
    args: [
      ...["-shared", "-fPIC", "-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"],
      ...["-I", nodeHeaders, "-o", join(dist, "linux.node"), join(root, "src/linux/addon.c")],
    ],
  });
  await copyFile(
    join(root, `node_modules/netlink/prebuilds/linux-${process.arch}/node.napi.node`),
    join(dist, "netlink.node"),
  );
}

async function compileBpf(): Promise<void> {
  const source = join(root, "bpf");
  const target = join(dist, "bpf");
  await mkdir(target, { recursive: true });
  const multiarch = (await run({ file: "cc", args: ["-print-multiarch"] })).stdout.trim();
  for (const file of (await readdir(source)).filter((name) => name.endsWith(".bpf.c"))) {
    const object = join(target, `${basename(file, ".c")}.o`);
    await run({
      file: "clang",
      args: [
        // v2 instructions: 5.10 is the oldest kernel, its verifier follows 32-bit bounds of v3 less well.
        ...["-target", "bpf", "-mcpu=v2", "-O2", "-g", "-Wall", "-Wextra", "-Werror"],
        ...["-I", `/usr/include/${multiarch}`, "-c", join(source, file), "-o", object],
      ],
    });
    await run({ file: "llvm-strip", args: ["-g", object] });
  }
}

async function main(): Promise<void> {
  await mkdir(dist, { recursive: true });
  await buildAddons();
  await compileBpf();
}

await main();
