import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { BpfMap, BpfObject } from "libbpf-ts";
import { Bpffs } from "./bpffs.ts";
import { toNumber, u32, u64 } from "./bytes.ts";
import { compile } from "./compile.ts";
import { refusal } from "./refusal.ts";

let bpffs: Bpffs;
let image: Uint8Array;

beforeAll(async () => {
  bpffs = await Bpffs.mount();
  image = await compile("programs");
});

afterAll(() => bpffs.unmount());

test("open() refuses bytes that are no ELF image, with libbpf's words", () => {
  const error = refusal(() => BpfObject.open(Buffer.from("garbage"), { name: "garbage" }));
  expect(error).toMatchObject({ name: "BpfError", errno: 4001, code: "LIBBPF_FORMAT" });
  expect(error.message).toMatch(/^Cannot open BPF object "garbage": .*\nlibbpf: elf: 'garbage' is not a proper ELF/);
});

test("open() refuses an empty image", () => {
  expect(refusal(() => BpfObject.open(new Uint8Array(0), { name: "nothing" })).code).toBe("EINVAL");
});

test("an opened object says what is in it before anything is loaded", () => {
  using object = BpfObject.open(image, { name: "programs" });
  expect(object.maps.map(({ name, type }) => [name, type]).sort()).toEqual([
    ["echoes", "array"],
    ["per_cpu", "percpu_array"],
    ["prefixes", "lpm_trie"],
    ["table", "hash"],
    ["tail_calls", "prog_array"],
  ]);
  expect(object.map("table")).toMatchObject({ keySize: 4, valueSize: 8, maxEntries: 4 });
  expect(object.program("first_xdp").type).toBe("xdp");
  expect(object.program("first_tc").type).toBe("sched_cls");
});

test("a map or program that the object does not have is refused with the names that it has", () => {
  using object = BpfObject.open(image, { name: "programs" });
  const error = refusal(() => object.map("tables"));
  expect(error.code).toBe("ENOENT");
  expect(error.message).toContain('Cannot find map "tables" in BPF object "programs"');
  expect(error.message).toMatch(/it has .*"table"/);
  expect(refusal(() => object.program("first")).message).toContain('"first_tc"');
});

test("maps and programs of an object that is not loaded are refused, not used", () => {
  using object = BpfObject.open(image, { name: "programs" });
  const error = refusal(() => object.map("table").get(u32(1)));
  expect(error).toMatchObject({ code: "EBADF" });
  expect(error.message).toContain('Cannot use map "table"');
  expect(error.message).toContain("its object is not loaded");
  expect(refusal(() => object.program("first_tc").id).message).toContain("its object is not loaded");
});

test("load() of a program that the verifier refuses throws with the verifier's log", async () => {
  using object = BpfObject.open(await compile("refused"), { name: "refused" });
  const error = refusal(() => object.load());
  expect(error).toMatchObject({ errno: 13, code: "EACCES" });
  expect(error.message).toMatch(/^Cannot load BPF object "refused": EACCES, Permission denied/);
  expect(error.message).toMatch(/invalid access to packet/);
  expect(error.log).toMatch(/^libbpf: prog 'unchecked'.*BEGIN PROG LOAD LOG.*END PROG LOAD LOG/s);
});

test("an error has only the log of its own operation", async () => {
  using refused = BpfObject.open(await compile("refused"), { name: "refused" });
  refusal(() => refused.load());
  const error = refusal(() => BpfObject.open(Buffer.from("garbage"), { name: "garbage" }));
  expect(error.log).not.toContain("unchecked");
});

test("load() is refused a second time", () => {
  using object = BpfObject.open(image, { name: "programs" });
  object.load();
  const error = refusal(() => object.load());
  expect(error.code).toBe("EBUSY");
  expect(error.message).toContain("it was loaded or closed before");
});

test("close() may be called twice, and what came from the object is then refused", () => {
  const object = BpfObject.open(image, { name: "programs" });
  object.load();
  const table = object.map("table");
  const program = object.program("first_tc");
  object.close();
  object.close();
  table.close();
  expect(refusal(() => table.set(u32(1), u64(1))).message).toContain("it is closed");
  expect(refusal(() => [...table.keys()]).code).toBe("EBADF");
  expect(refusal(() => table.pin(bpffs.path("closed"))).code).toBe("EBADF");
  expect(refusal(() => program.testRun({ data: new Uint8Array(60) })).code).toBe("EBADF");
  expect(refusal(() => object.load()).code).toBe("EBUSY");
  expect(refusal(() => table.setMaxEntries(8)).code).toBe("EBUSY");
});

test("setMaxEntries() before the load changes the limit of the map", () => {
  using object = BpfObject.open(image, { name: "programs" });
  object.map("table").setMaxEntries(7);
  object.load();
  object.map("table").pin(bpffs.path("seven"));
  using pinned = BpfMap.openPinned(bpffs.path("seven"));
  expect(pinned.maxEntries).toBe(7);
  expect(object.map("table").maxEntries).toBe(7);
  expect(() => object.map("table").setMaxEntries(0)).toThrow(RangeError);
  expect(refusal(() => object.map("table").setMaxEntries(8)).code).toBe("EBUSY");
});

test("two objects share a map that one pinned and the other reuses", () => {
  using first = BpfObject.open(image, { name: "first" });
  first.load();
  first.map("table").set(u32(1), u64(0));
  first.map("table").pin(bpffs.path("shared"));
  first.program("count_in_table").testRun({ data: new Uint8Array(60), repeat: 3 });

  using second = BpfObject.open(image, { name: "second" });
  second.map("table").reusePinned(bpffs.path("shared"));
  second.load();
  second.program("count_in_table").testRun({ data: new Uint8Array(60), repeat: 4 });

  expect(second.map("table").id).toBe(first.map("table").id);
  expect(toNumber(first.map("table").get(u32(1)))).toBe(7);
  expect(second.map("echoes").id).not.toBe(first.map("echoes").id);
});

test("reusePinned() refuses a map of another shape and names the difference", async () => {
  using object = BpfObject.open(image, { name: "programs" });
  object.load();
  object.map("table").pin(bpffs.path("narrow"));

  using wider = BpfObject.open(await compile("wider"), { name: "wider" });
  const error = refusal(() => wider.map("table").reusePinned(bpffs.path("narrow")));
  expect(error.code).toBe("EINVAL");
  expect(error.message).toContain("its valueSize is 8, it must be 16");

  using larger = BpfObject.open(image, { name: "larger" });
  larger.map("table").setMaxEntries(5);
  expect(refusal(() => larger.map("table").reusePinned(bpffs.path("narrow"))).message).toContain(
    "its maxEntries is 4, it must be 5",
  );
});

test("reusePinned() of a path where nothing is pinned is refused with ENOENT", () => {
  using object = BpfObject.open(image, { name: "programs" });
  expect(refusal(() => object.map("table").reusePinned(bpffs.path("nothing"))).code).toBe("ENOENT");
});
