import { expect, test } from "@jest/globals";
import fc from "fast-check";
import { FreeRing, headerBytes, ringBytes, ringTime } from "../../../src/ipam/free-ring.ts";

const any = () => true;

function ring(size = 4, free: Iterable<number> = Array(size).keys()): FreeRing {
  return FreeRing.of(size, free, 0);
}

function takeAll(from: FreeRing): number[] {
  const taken: number[] = [];
  for (let next = from.next(any); next; next = from.next(any)) {
    from.take(next.offset, 1);
    taken.push(next.offset);
  }
  return taken;
}

test("a ring gives what was put in first, with its time", () => {
  const some = ring(4, [2, 0]);
  some.put(3, 77);
  expect(some.next(any)).toEqual({ offset: 2, releasedAt: 0 });
  expect(some.next((offset) => offset === 3)).toEqual({ offset: 3, releasedAt: 77 });
  expect(some.next((offset) => offset === 1)).toBeUndefined();
  expect(takeAll(some)).toEqual([2, 0, 3]);
});

test("put() moves an entry that is there to the end", () => {
  const some = ring();
  some.put(1, 9);
  expect(takeAll(some)).toEqual([0, 2, 3, 1]);
});

test("take() takes an entry out of the middle, and notes also one that is not there", () => {
  const some = ring();
  some.take(2, 5);
  some.take(2, 6);
  expect(some.free).toEqual([0, 1, 3]);
  expect(some.unsettled()).toEqual([2]);
  some.settle(2);
  expect(some.unsettled()).toEqual([]);
  expect(some.isSettled(2)).toBe(true);
  expect(some.isSettled(0)).toBe(false);
});

test("a ring survives its bytes", () => {
  const some = ring(8);
  takeAll(some);
  for (const offset of [5, 1, 7]) {
    some.put(offset, 100 + offset);
  }
  const again = FreeRing.decode(some.bytes, 8);
  expect(again?.free).toEqual([5, 1, 7]);
  expect(again?.next(any)).toEqual({ offset: 5, releasedAt: 105 });
  expect(again?.unsettled()).toEqual([0, 2, 3, 4, 6]);
  expect(again?.isChanged).toBe(false);
});

/** The bytes of a good ring with one 32-bit word exchanged. */
function withWord(index: number, word: number): Uint8Array {
  const bytes = Uint8Array.from(ring().bytes);
  new DataView(bytes.buffer).setUint32(index * 4, word, true);
  return bytes;
}

const slot = headerBytes / 4;

test.each<[string, Uint8Array]>([
  ["nothing", new Uint8Array()],
  ["zeros", new Uint8Array(ringBytes(4))],
  ["ones", new Uint8Array(ringBytes(4)).fill(255)],
  ["a ring that was cut off", ring().bytes.slice(0, -1)],
  ["a ring with something behind it", Uint8Array.of(...ring().bytes, 0)],
  ["a ring of another size", ring(5).bytes],
  ["another version", withWord(1, 2)],
  ["another size in the header", withWord(2, 5)],
  ["a head outside of it", withWord(3, 4)],
  ["more entries than addresses", withWord(4, 5)],
  ["an entry outside of the block", withWord(slot, 4)],
  ["an entry that is there twice", withWord(slot, 1)],
])("decode() takes no ring from %s", (_, bytes) => {
  expect(FreeRing.decode(bytes, 4)).toBeUndefined();
});

test("decode() ignores what stands in slots that are not used", () => {
  const some = ring();
  some.take(0, 1);
  const bytes = Uint8Array.from(some.bytes);
  new DataView(bytes.buffer).setUint32(slot * 4, 0xffffffff, true);
  expect(FreeRing.decode(bytes, 4)?.free).toEqual([1, 2, 3]);
});

const offsets = [0, 1, 2, 3, 4, 5, 6, 7];

test("a write that is cut off before the header leaves a ring that gives what is free, or none", () => {
  const step = fc.record({ put: fc.boolean(), offset: fc.nat(7) });
  const property = fc.property(fc.array(step, { minLength: 1 }), fc.nat(ringBytes(8) - headerBytes), (steps, cut) => {
    const some = ring(8);
    for (const { put, offset } of steps.slice(0, -1)) {
      put ? some.put(offset, 3) : some.take(offset, 3);
    }
    const before = Uint8Array.from(some.bytes);
    const last = steps.at(-1) ?? { put: true, offset: 0 };
    last.put ? some.put(last.offset, 4) : some.take(last.offset, 4);
    const torn = Uint8Array.from(before);
    torn.set(some.bytes.subarray(headerBytes, headerBytes + cut), headerBytes);
    const healed = FreeRing.decode(torn, 8);
    // An address that is in neither state is one that somebody looks after.
    const known = new Set([...(healed?.free ?? []), ...(healed?.unsettled() ?? [])]);
    const whole = FreeRing.decode(before, 8);
    return healed === undefined || offsets.every((offset) => known.has(offset) || whole?.isSettled(offset));
  });
  fc.assert(property, { numRuns: 1000 });
});

test("a ring gives what a list would give, whatever happens to it", () => {
  const step = fc.record({ kind: fc.constantFrom("put", "take", "next", "reload"), offset: fc.nat(6) });
  const property = fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
    let some = ring(7);
    let list = [0, 1, 2, 3, 4, 5, 6];
    for (const { kind, offset } of steps) {
      if (kind === "put") {
        some.put(offset, 8);
        list = [...list.filter((each) => each !== offset), offset];
      } else if (kind === "take") {
        some.take(offset, 9);
        list = list.filter((each) => each !== offset);
      } else if (kind === "reload") {
        some = FreeRing.decode(some.bytes, 7) ?? ring(7, []);
      }
      expect(some.free).toEqual(list);
      expect(some.next((each) => each >= offset)?.offset).toBe(list.find((each) => each >= offset));
    }
  });
  fc.assert(property, { numRuns: 300 });
});

test.each([
  ["before 1970", new Date(-5_000), 1],
  ["in 1970", new Date(0), 1],
  ["today", new Date(1_800_000_000_999), 1_800_000_000],
  ["behind 2106", new Date(8_640_000_000_000_000), 0xffffffff],
])("ringTime() of a clock that stands %s fits in a word, and is not the time of never", (_, now, time) => {
  expect(ringTime(now)).toBe(time);
});
