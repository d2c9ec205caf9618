import { readFile } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "@jest/globals";
import { BpfMap, BpfObject, type Entry } from "libbpf-ts";
import { Bpffs } from "./bpffs.ts";
import { toNumber, u32, u64 } from "./bytes.ts";
import { compile } from "./compile.ts";
import { refusal } from "./refusal.ts";

const PACKET = { data: new Uint8Array(60) };

let bpffs: Bpffs;
let image: Uint8Array;
let object: BpfObject;

beforeAll(async () => {
  bpffs = await Bpffs.mount();
  image = await compile("programs");
});

afterAll(() => bpffs.unmount());

beforeEach(() => {
  object = load();
});

afterEach(() => object.close());

function load({ tableEntries = 4 }: { tableEntries?: number } = {}): BpfObject {
  const loaded = BpfObject.open(image, { name: "programs" });
  loaded.map("table").setMaxEntries(tableEntries);
  loaded.load();
  return loaded;
}

/** An LPM key for IPv4: prefix length in machine order, then the address. */
function prefix(length: number, ...address: number[]): Uint8Array {
  return Uint8Array.from([...u32(length), ...address]);
}

function numbers(entries: Iterable<Entry>): (number | undefined)[][] {
  return [...entries].map((entry) => entry.map(toNumber)).sort();
}

function entry(number: number): Entry {
  return [u32(number), u64(number * 10)];
}

test("a value that was set is got, changed and deleted", () => {
  const table = object.map("table");
  expect(table.get(u32(1))).toBeUndefined();
  table.set(u32(1), u64(10));
  expect(table.get(u32(1))).toEqual(u64(10));
  table.set(u32(1), u64(11));
  expect(table.get(u32(1))).toEqual(u64(11));
  expect(table.delete(u32(1))).toBe(true);
  expect(table.delete(u32(1))).toBe(false);
  expect(table.get(u32(1))).toBeUndefined();
});

test('mode "create" refuses a key that is there, mode "update" one that is not', () => {
  const table = object.map("table");
  table.set(u32(1), u64(10), { mode: "create" });
  expect(refusal(() => table.set(u32(1), u64(11), { mode: "create" })).code).toBe("EEXIST");
  table.set(u32(1), u64(12), { mode: "update" });
  expect(refusal(() => table.set(u32(2), u64(20), { mode: "update" })).code).toBe("ENOENT");
  expect(numbers(table.entries())).toEqual([[1, 12]]);
});

test("keys and values of a wrong length are refused before the kernel is asked", () => {
  const table = object.map("table");
  const message = 'Cannot use a key of 3 bytes in map "table": it must have 4 bytes';
  expect(() => table.get(new Uint8Array(3))).toThrow(new RangeError(message));
  expect(() => table.set(new Uint8Array(3), u64(1))).toThrow(RangeError);
  expect(() => table.set(u32(1), u32(1))).toThrow(RangeError);
  expect(() => table.delete(u64(1))).toThrow(RangeError);
  expect(() => table.setBatch([entry(1), [u32(2), u32(2)]])).toThrow(RangeError);
  expect(() => table.deleteBatch([u64(1)])).toThrow(RangeError);
  expect([...table.keys()]).toEqual([]);
});

test("a full map refuses one more entry with its name and limit", () => {
  const table = object.map("table");
  table.setBatch([1, 2, 3, 4].map(entry));
  const error = refusal(() => table.set(...entry(5)));
  expect(error.code).toBe("E2BIG");
  expect(error.message).toContain('Cannot store an entry in map "table"');
  expect(error.message).toContain("the map holds at most 4 entries");
});

test("setBatch() that does not fit says how many stored, and they are there", () => {
  using small = load({ tableEntries: 4096 });
  const table = small.map("table");
  const error = refusal(() => table.setBatch(Array.from({ length: 5000 }, (_, number) => entry(number))));
  expect(error.code).toBe("E2BIG");
  expect(error.message).toContain("4096 stored; the map holds at most 4096 entries");
  expect([...table.keys()]).toHaveLength(4096);
});

test("a full prefix map refuses a batch with ENOSPC", () => {
  const prefixes = object.map("prefixes");
  const error = refusal(() =>
    prefixes.setBatch([1, 2, 3, 4, 5].map((last) => [prefix(32, 10, 0, 0, last), u32(last)])),
  );
  expect(error.code).toBe("ENOSPC");
  expect(error.message).toContain("4 stored; the map holds at most 4 entries");
});

test("a prefix map answers the longest match", () => {
  const prefixes = object.map("prefixes");
  prefixes.setBatch([
    [prefix(8, 10, 0, 0, 0), u32(8)],
    [prefix(24, 10, 1, 1, 0), u32(24)],
  ]);
  expect(prefixes.get(prefix(32, 10, 1, 1, 7))).toEqual(u32(24));
  expect(prefixes.get(prefix(32, 10, 2, 1, 7))).toEqual(u32(8));
  expect(prefixes.get(prefix(32, 11, 2, 1, 7))).toBeUndefined();
  expect([...prefixes.keys()]).toHaveLength(2);
});

test("deleteBatch() passes over absent keys and counts the others", () => {
  const table = object.map("table");
  table.setBatch([1, 2, 3, 4].map(entry));
  expect(table.deleteBatch([9, 1, 8, 1, 3, 7].map(u32))).toBe(2);
  expect(numbers(table.entries())).toEqual([
    [2, 20],
    [4, 40],
  ]);
});

test("empty batches change nothing", () => {
  object.map("table").setBatch([]);
  expect(object.map("table").deleteBatch([])).toBe(0);
});

test("batches work on a map type for which the kernel has no batch operation", () => {
  const tailCalls = object.map("tail_calls");
  const program = u32(object.program("first_tc").fd);
  tailCalls.setBatch([
    [u32(0), program],
    [u32(2), program],
  ]);
  expect(toNumber(tailCalls.get(u32(2)))).toBe(object.program("first_tc").id);
  expect(tailCalls.deleteBatch([0, 1, 2].map(u32))).toBe(2);
  expect(tailCalls.get(u32(2))).toBeUndefined();
  const error = refusal(() => tailCalls.setBatch([3, 4].map((slot) => [u32(slot), program])));
  expect(error).toMatchObject({ code: "E2BIG" });
  expect(error.message).toContain("1 stored");
});

test("keys() gives every key once while each is deleted as it comes", () => {
  using large = load({ tableEntries: 1000 });
  const table = large.map("table");
  const all = Array.from({ length: 1000 }, (_, number) => number);
  table.setBatch(all.map(entry));
  const seen: (number | undefined)[] = [];
  for (const key of table.keys()) {
    seen.push(toNumber(key));
    table.delete(key);
  }
  expect(seen.sort((a, b) => Number(a) - Number(b))).toEqual(all);
  expect([...table.keys()]).toEqual([]);
});

test("keys() gives the keys that stay once each while those next in line are deleted", () => {
  using large = load({ tableEntries: 1000 });
  const table = large.map("table");
  table.setBatch(Array.from({ length: 1000 }, (_, number) => entry(number)));
  const order = [...table.keys()].map(toNumber).map(Number);
  const isLeaving = (number: number) => number % 50 === 0;
  const seen: number[] = [];
  for (const key of table.keys()) {
    const number = Number(toNumber(key));
    seen.push(number);
    const position = order.indexOf(number);
    table.deleteBatch(
      order
        .slice(position + 1, position + 2)
        .filter(isLeaving)
        .map(u32),
    );
  }
  expect(new Set(seen).size).toBe(seen.length);
  expect([...table.keys()].length).toBeLessThan(985);
  expect(seen.filter((number) => !isLeaving(number))).toHaveLength(980);
});

test("entries() leaves out what is deleted before its turn", () => {
  const table = object.map("table");
  table.setBatch([1, 2, 3, 4].map(entry));
  const entries = table.entries();
  expect(entries.next().done).toBe(false);
  table.deleteBatch([1, 2, 3, 4].map(u32));
  expect(entries.next().done).toBe(true);
});

test("a per-CPU map has one value for each possible CPU", async () => {
  const perCpu = object.map("per_cpu");
  const possible = (await readFile("/sys/devices/system/cpu/possible", "utf8")).trim();
  const cpus = Number(possible.split("-").at(-1)) + 1;
  perCpu.set(u32(0), u32(5));
  expect(perCpu.getPerCpu(u32(0))).toEqual(Array.from({ length: cpus }, () => u32(5)));

  object.program("count_in_table").testRun({ ...PACKET, repeat: 3 });
  const values = perCpu.getPerCpu(u32(0)).map((value) => Number(toNumber(value)));
  expect(values.reduce((sum, value) => sum + value)).toBe(5 * cpus + 3);
  expect(Math.max(...values)).toBe(8);
  expect(perCpu.getPerCpu(u32(2))).toEqual([]);
});

test("setBatch() stores a per-CPU value for every CPU", () => {
  const perCpu = object.map("per_cpu");
  perCpu.setBatch([0, 1].map((slot) => [u32(slot), u32(slot + 7)]));
  expect(new Set(perCpu.getPerCpu(u32(1)).map(toNumber))).toEqual(new Set([8]));
  expect(new Set(perCpu.getPerCpu(u32(0)).map(toNumber))).toEqual(new Set([7]));
});

test("get() of a per-CPU map and getPerCpu() of another are refused", () => {
  expect(() => object.map("per_cpu").get(u32(0))).toThrow(TypeError);
  expect(() => object.map("table").getPerCpu(u32(0))).toThrow(TypeError);
});

test("a pinned map outlives its object, and unpin() ends it", () => {
  const path = bpffs.path("table");
  object.map("table").set(...entry(1));
  object.map("table").pin(path);
  expect(refusal(() => object.map("prefixes").pin(path)).code).toBe("EEXIST");
  object.close();

  const pinned = BpfMap.openPinned(path);
  expect(pinned).toMatchObject({ name: "table", type: "hash", keySize: 4, valueSize: 8, maxEntries: 4 });
  expect(numbers(pinned.entries())).toEqual([[1, 10]]);
  pinned.unpin();
  pinned.unpin();
  expect(pinned.get(u32(1))).toEqual(u64(10));
  pinned.close();
  expect(refusal(() => BpfMap.openPinned(path)).code).toBe("ENOENT");
});

test("pin() outside a bpffs and openPinned() of something else are refused", () => {
  expect(refusal(() => object.map("table").pin("/tmp/no-bpffs")).message).toContain(
    'Cannot pin map "table" at "/tmp/no-bpffs"',
  );
  object.program("first_tc").pin(bpffs.path("a_program"));
  const error = refusal(() => BpfMap.openPinned(bpffs.path("a_program")));
  expect(error.code).toBe("EINVAL");
  expect(error.message).toContain('"anon_inode:bpf-prog" is pinned there');
});
