import { beforeAll, describe, expect, test } from "@jest/globals";
import { assetPath } from "../../../src/assets.ts";
import { run } from "../../../src/exec.ts";
import {
  decodeAddress,
  decodeCidr,
  decodeConfig,
  decodeCounter,
  encodeAddress,
  encodeCidr,
  encodeConfig,
  encodeTunnelPair,
  encodeUint32,
  modeNumbers,
  structs,
  verdictNumbers,
} from "../../../src/guard/layout.ts";

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
  const object = assetPath("bpf/host_net_guard.bpf.o");
  const { stdout } = await run({ file: "bpftool", args: ["-j", "btf", "dump", "file", object] });
  types = JSON.parse(stdout).types;
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

describe("the compiled object", () => {
  test.each(Object.entries(structs))("has struct %s as layout.ts has it", (name, layout) => {
    const { size, members } = findType("STRUCT", name);
    const offsets = Object.fromEntries(members.map((member) => [member.name, member.bits_offset / 8]));
    expect({ size, offsets }).toEqual(layout);
  });

  test("has every verdict under the number that layout.ts has", () => {
    expect(enumNumbers("verdict", "VERDICT_")).toEqual(verdictNumbers);
  });

  test("has every mode under the number that layout.ts has", () => {
    expect(enumNumbers("guard_mode", "GUARD_MODE_")).toEqual(modeNumbers);
  });
});

// The examples are those of a little-endian machine, as all supported ones are.

test("encodeAddress() writes network order", () => {
  expect([...encodeAddress("172.31.127.252")]).toEqual([172, 31, 127, 252]);
  expect(decodeAddress(encodeAddress("172.31.127.252"))).toBe("172.31.127.252");
});

test("encodeCidr() writes the prefix length in host order, the address in network order", () => {
  expect([...encodeCidr("203.0.113.0/24")]).toEqual([24, 0, 0, 0, 203, 0, 113, 0]);
  expect(decodeCidr(encodeCidr("203.0.113.0/24"))).toBe("203.0.113.0/24");
});

test("encodeTunnelPair() writes local, then remote", () => {
  expect([...encodeTunnelPair({ local: "10.0.0.1", remote: "192.0.2.99" })]).toEqual([10, 0, 0, 1, 192, 0, 2, 99]);
});

test("decodeConfig() reads every number but that of observe as enforce", () => {
  expect(decodeConfig(encodeConfig("observe"))).toBe("observe");
  expect(decodeConfig(encodeConfig("enforce"))).toBe("enforce");
  expect(decodeConfig(encodeUint32(0))).toBe("enforce");
  expect(decodeConfig(encodeUint32(2))).toBe("enforce");
});

test("decodeCounter() reads numbers beyond 32 bits", () => {
  const bytes = Uint8Array.from([1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 128]);
  expect(decodeCounter(bytes)).toEqual({ packets: 2n ** 32n + 1n, bytes: 2n ** 63n + 2n });
});
