import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { BpfObject, BpfProgram } from "libbpf-ts";
import { Bpffs } from "./bpffs.ts";
import { u32 } from "./bytes.ts";
import { compile } from "./compile.ts";
import { refusal } from "./refusal.ts";

/** Of `struct __sk_buff` in linux/bpf.h, in bytes. */
const MARK_OFFSET = 8;
const SK_BUFF_SIZE = 192;

const XDP_TX = 3;

let bpffs: Bpffs;
let object: BpfObject;

beforeAll(async () => {
  bpffs = await Bpffs.mount();
  object = BpfObject.open(await compile("programs"), { name: "programs" });
  object.load();
});

afterAll(async () => {
  object.close();
  await bpffs.unmount();
});

test("testRun() answers the verdict as a signed number and the unchanged packet", () => {
  const data = Uint8Array.from({ length: 60 }, (_, index) => index);
  const result = object.program("first_tc").testRun({ data });
  expect(result.returnValue).toBe(-1);
  expect(result.data).toEqual(data);
});

test("testRun() answers a packet that the program made longer", () => {
  const data = new Uint8Array(60).fill(7);
  const result = object.program("lengthen").testRun({ data });
  expect(result.returnValue).toBe(XDP_TX);
  expect(result.data).toHaveLength(80);
  expect(result.data.subarray(20)).toEqual(data);
});

test("testRun() hands the context to the program", () => {
  const context = new Uint8Array(SK_BUFF_SIZE);
  context.set(u32(42), MARK_OFFSET);
  expect(object.program("answer_mark").testRun({ data: new Uint8Array(60), context }).returnValue).toBe(42);
});

test("testRun() measures the mean of its repetitions", () => {
  const { durationNs } = object.program("first_tc").testRun({ data: new Uint8Array(60), repeat: 10_000 });
  expect(durationNs).toBeGreaterThan(0);
  expect(durationNs).toBeLessThan(100_000);
  expect(() => object.program("first_tc").testRun({ data: new Uint8Array(60), repeat: 0 })).toThrow(RangeError);
});

test("testRun() of a packet shorter than an Ethernet header is refused", () => {
  const error = refusal(() => object.program("first_tc").testRun({ data: new Uint8Array(13) }));
  expect(error.code).toBe("EINVAL");
  expect(error.message).toContain('Cannot run program "first_tc" on a packet of 13 bytes');
});

test("a path with a null byte is refused, not pinned elsewhere", () => {
  expect(() => object.program("first_tc").pin(bpffs.path("cut\0off"))).toThrow("without null bytes");
  expect(refusal(() => BpfProgram.openPinned(bpffs.path("cut"))).code).toBe("ENOENT");
});

test("the tag is the instructions' hash, the id the program's own", () => {
  const first = object.program("first_tc");
  expect(first.tag).toMatch(/^[0-9a-f]{16}$/);
  expect(object.program("second_tc").tag).not.toBe(first.tag);
  expect(object.program("second_tc").id).not.toBe(first.id);
});

test("fromId() opens a loaded program, and none for an id that nobody has", () => {
  const first = object.program("first_tc");
  using same = BpfProgram.fromId(first.id);
  expect(same).toMatchObject({ id: first.id, tag: first.tag, name: "first_tc", type: "sched_cls" });
  expect(refusal(() => BpfProgram.fromId(0x7fffffff)).code).toBe("ENOENT");
});

test("a pinned program is opened under its path, and nothing else is", () => {
  const program = object.program("first_tc");
  program.pin(bpffs.path("first"));
  using pinned = BpfProgram.openPinned(bpffs.path("first"));
  expect(pinned.id).toBe(program.id);
  object.map("table").pin(bpffs.path("a_map"));
  expect(refusal(() => BpfProgram.openPinned(bpffs.path("a_map"))).message).toContain("anon_inode:bpf-map");
  program.unpin();
  expect(refusal(() => BpfProgram.openPinned(bpffs.path("first"))).code).toBe("ENOENT");
});

test("a pin with a dot in its name is refused", () => {
  expect(refusal(() => object.program("first_tc").pin(bpffs.path("first.old"))).code).toBe("EPERM");
});
