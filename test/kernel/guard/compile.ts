/** Compiles BPF programs that only these tests need. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../../../src/exec.ts";

const repository = join(import.meta.dirname, "../../..");

/** The guard as another version might be: it decides the same with other instructions, so that its tag differs. */
export function compileOtherGuard(): Promise<Uint8Array> {
  return compile(join(repository, "bpf/host_net_guard.bpf.c"), "v1");
}

export function compileForeign(): Promise<Uint8Array> {
  return compile(join(import.meta.dirname, "foreign.bpf.c"), "v2");
}

async function compile(source: string, instructions: "v1" | "v2"): Promise<Uint8Array> {
  const directory = await mkdtemp(join(tmpdir(), "guard-test-"));
  try {
    const multiarch = (await run({ file: "cc", args: ["-print-multiarch"] })).stdout.trim();
    const object = join(directory, "object.o");
    const target = ["-target", "bpf", `-mcpu=${instructions}`, "-O2", "-g"];
    await run({ file: "clang", args: [...target, "-I", `/usr/include/${multiarch}`, "-c", source, "-o", object] });
    return await readFile(object);
  } finally {
    await rm(directory, { recursive: true });
  }
}
