/** Compiles the BPF programs of these tests. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../../../src/exec.ts";

/** The object of `<name>.bpf.c` beside this file. */
export async function compile(name: "programs" | "refused" | "wider"): Promise<Uint8Array> {
  const directory = await mkdtemp(join(tmpdir(), "libbpf-ts-"));
  try {
    const multiarch = (await run({ file: "cc", args: ["-print-multiarch"] })).stdout.trim();
    const object = join(directory, "object.o");
    await run({
      file: "clang",
      args: [
        ...["-target", "bpf", "-mcpu=v2", "-O2", "-g", "-Wall", "-Werror", "-I", `/usr/include/${multiarch}`],
        ...["-c", join(import.meta.dirname, `${name}.bpf.c`), "-o", object],
      ],
    });
    return await readFile(object);
  } finally {
    await rm(directory, { recursive: true });
  }
}
