/** What the package does to the process it lives in: descriptors, output, shared libraries. */

import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { BpfMap, BpfObject, BpfProgram } from "libbpf-ts";
import { run } from "../../../src/exec.ts";
import { Bpffs } from "./bpffs.ts";
import { compile } from "./compile.ts";
import { refusal } from "./refusal.ts";

/** O_CLOEXEC of asm-generic/fcntl.h. */
const CLOSE_ON_EXEC = 0o2000000;

const child = join(import.meta.dirname, "child.ts");
const build = join(createRequire(import.meta.url).resolve("libbpf-ts"), "../../build");

let bpffs: Bpffs;
let directory: string;
let image: Uint8Array;

beforeAll(async () => {
  bpffs = await Bpffs.mount();
  directory = await mkdtemp(join(tmpdir(), "libbpf-ts-process-"));
  image = await compile("programs");
});

afterAll(async () => {
  await rm(directory, { recursive: true });
  await bpffs.unmount();
});

/** The flags of every BPF descriptor that this process has open. */
function bpfDescriptors(): number[] {
  return readdirSync("/proc/self/fd").flatMap((number) => {
    try {
      const isBpf = readlinkSync(`/proc/self/fd/${number}`).startsWith("anon_inode:bpf");
      return isBpf
        ? [Number.parseInt(/flags:\s+([0-7]+)/.exec(readFileSync(`/proc/self/fdinfo/${number}`, "utf8"))?.[1] ?? "", 8)]
        : [];
    } catch {
      return []; // the one that listed the directory
    }
  });
}

test("every descriptor is closed on exec, and close() leaves none", () => {
  const before = bpfDescriptors();
  const object = BpfObject.open(image, { name: "programs" });
  object.load();
  object.map("table").pin(bpffs.path("table"));
  const pinned = BpfMap.openPinned(bpffs.path("table"));
  const program = BpfProgram.fromId(object.program("first_tc").id);
  const during = bpfDescriptors();
  expect(during).toHaveLength(before.length + object.maps.length + object.programs.length + 2);
  expect(during.filter((flags) => (flags & CLOSE_ON_EXEC) === 0)).toEqual([]);
  object.close();
  pinned.close();
  program.close();
  expect(bpfDescriptors()).toHaveLength(before.length);
});

test("what is refused leaves no descriptor", async () => {
  const refused = await compile("refused");
  const before = bpfDescriptors().length;
  refusal(() => BpfObject.open(refused, { name: "refused" }).load());
  refusal(() => BpfProgram.openPinned(bpffs.path("table")));
  expect(bpfDescriptors()).toHaveLength(before);
});

test("descriptors that nobody closed are closed with the garbage", async () => {
  const { stdout } = await run({
    file: process.execPath,
    args: ["--expose-gc", child, "forget", JSON.stringify({ map: bpffs.path("table") })],
  });
  expect(stdout).toBe("true");
});

test("libbpf writes nothing to standard output or standard error", async () => {
  const object = join(directory, "refused.o");
  await writeFile(object, await compile("refused"));
  const { stdout, stderr } = await run({
    file: process.execPath,
    args: [child, "load", JSON.stringify({ image: object })],
  });
  expect(JSON.parse(stdout).message).toContain("invalid access to packet");
  expect(stderr).toBe("");
});

test("the addon takes the libraries beside itself wherever it lies", async () => {
  const elsewhere = join(directory, "elsewhere");
  await cp(build, elsewhere, { recursive: true });
  const script = `require(${JSON.stringify(join(elsewhere, "libbpf.node"))}); console.log(fs.readFileSync("/proc/self/maps", "utf8"))`;
  const { stdout } = await run({ file: process.execPath, args: ["-e", script] });
  const loaded = new Set(stdout.match(/\/\S*\/lib(?:bpf|elf|z)[.-]\S*/g));
  expect([...loaded].sort()).toEqual(
    ["libbpf.node", "libbpf.so.1", "libelf.so.1", "libz.so.1"].map((name) => join(elsewhere, name)),
  );
});
