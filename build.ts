/** Builds everything that is shipped into dist/: native addons, BPF objects, bundles. */
import { chmod, copyFile, mkdir, readdir, rename, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { build, type Plugin } from "esbuild";
import { run } from "./src/exec.ts";

const root = import.meta.dirname;
const dist = join(root, "dist");
const nodeHeaders = join(process.execPath, "../../include/node");

async function buildAddons(): Promise<void> {
  await run({ file: "npm", args: ["run", "--silent", "build", "-w", "libbpf-ts"], cwd: root });
  const built = join(root, "bpf/libbpf-ts/build");
  for (const name of await readdir(built)) {
    await install(join(built, name), name);
  }
  const linuxAddon = join(dist, "linux.node.new");
  await run({
    file: "cc",
    args: [
      ...["-shared", "-fPIC", "-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"],
      ...["-I", nodeHeaders, "-o", linuxAddon, join(root, "src/linux/addon.c")],
    ],
  });
  await rename(linuxAddon, join(dist, "linux.node"));
  await install(join(root, `node_modules/netlink/prebuilds/linux-${process.arch}/node.napi.node`), "netlink.node");
}

/** Beside and renamed: a program that runs from dist/ has its files mapped, and dies when they are overwritten. */
async function install(source: string, name: string): Promise<void> {
  const beside = join(dist, `${name}.new`);
  await copyFile(source, beside);
  await rename(beside, join(dist, name));
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

/** Lets the package "netlink" find its addon beside the bundle instead of in its own folder. */
const netlinkAddon: Plugin = {
  name: "netlink-addon",
  setup(bundler) {
    bundler.onResolve({ filter: /^node-gyp-build$/ }, ({ path }) => ({ path, namespace: "netlink-addon" }));
    bundler.onLoad({ filter: /.*/, namespace: "netlink-addon" }, () => ({
      contents: 'module.exports = () => require("./netlink.node");',
    }));
  },
};

async function bundle(): Promise<void> {
  for (const name of (await readdir(dist)).filter((file) => file.endsWith(".mjs"))) {
    await rm(join(dist, name));
  }
  await build({
    entryPoints: { cli: join(root, "src/cli.ts"), plugin: join(root, "cni/main.ts") },
    outdir: dist,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node24",
    external: ["*.node"],
    plugins: [netlinkAddon],
    // CommonJS packages inside an ES module still use what only CommonJS has.
    banner: {
      js: [
        'import { createRequire as bundledRequire } from "node:module";',
        "const require = bundledRequire(import.meta.url);",
        "const __dirname = import.meta.dirname;",
      ].join(" "),
    },
    logLevel: "warning",
  });
}

async function copyPrograms(): Promise<void> {
  await install(join(root, "src/launcher.sh"), "cni-ipip");
  await chmod(join(dist, "cni-ipip"), 0o755);
  await install(process.execPath, "node");
}

async function main(): Promise<void> {
  await mkdir(dist, { recursive: true });
  await buildAddons();
  await compileBpf();
  await bundle();
  await copyPrograms();
}

await main();
