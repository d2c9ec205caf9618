/** Both sides of the shared structs agree: what clang made of bpf/shared.h, and src/guard/layout.ts. */
import { beforeAll, expect, test } from "@jest/globals";
import { assetPath } from "../../../src/assets.ts";
import { run } from "../../../src/exec.ts";
import { modeNumbers, podDropNumbers, structs, verdictNumbers } from "../../../src/guard/layout.ts";

interface BtfType {
  readonly kind: string;
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly members: readonly { readonly name: string; readonly bits_offset: number }[];
  readonly values: readonly { readonly name: string; readonly val: number }[];
}

let types: readonly BtfType[];

beforeAll(async () => {
  const dumps = ["host_net_guard", "workload_guard"].map(async (name) => {
    const file = assetPath(`bpf/${name}.bpf.o`);
    const { stdout } = await run({ file: "bpftool", args: ["-j", "btf", "dump", "file", file] });
    return JSON.parse(stdout).types;
  });
  types = (await Promise.all(dumps)).flat();
});

function findType(kind: "STRUCT" | "ENUM", name: string): BtfType {
  const found = types.find((type) => type.kind === kind && type.name === name);
  if (found === undefined) {
    throw new Error(`Cannot find ${kind} "${name}" in the BTF of the object`);
  }
  return found;
}

/** `VERDICT_NOT_MEMBER: 10` as `"not-member": 10` */
function enumNumbers(name: string, prefix: string): Record<string, number> {
  const { values } = findType("ENUM", name);
  return Object.fromEntries(
    values.map(({ name, val }) => [name.replace(prefix, "").toLowerCase().replaceAll("_", "-"), val]),
  );
}

test.each(Object.entries(structs))("the compiled object has struct %s as layout.ts has it", (name, layout) => {
  const { size, members } = findType("STRUCT", name);
  const offsets = Object.fromEntries(members.map((member) => [member.name, member.bits_offset / 8]));
  expect({ size, offsets }).toEqual(layout);
});

test("the compiled object has every verdict under the number that layout.ts has", () => {
  expect(enumNumbers("verdict", "VERDICT_")).toEqual(verdictNumbers);
});

test("the compiled object has every mode under the number that layout.ts has", () => {
  expect(enumNumbers("guard_mode", "GUARD_MODE_")).toEqual(modeNumbers);
});

test("the compiled object has every reason to drop a pod's packet under the number that layout.ts has", () => {
  expect(enumNumbers("pod_drop", "POD_DROP_")).toEqual(podDropNumbers);
});
