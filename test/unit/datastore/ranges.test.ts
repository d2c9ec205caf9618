import { expect, test } from "@jest/globals";
import { Ranges } from "../../../src/datastore/ranges.ts";
import { Random } from "./random.ts";

const range = (first: number, last: number) => ({ first, last });

test("overlapping() finds an owner from its first address to its last", () => {
  const ranges = new Ranges();
  const owner = range(10, 20);
  ranges.add(owner);
  ranges.add(range(30, 40));
  expect([9, 10, 15, 20, 21].map((address) => ranges.overlapping(range(address, address)))).toEqual([
    undefined,
    owner,
    owner,
    owner,
    undefined,
  ]);
  expect(ranges.overlapping(range(0, 100))).toBe(owner);
  expect(ranges.overlapping(range(21, 29))).toBeUndefined();
});

test("add() refuses a range of which an address has an owner", () => {
  const ranges = new Ranges();
  ranges.add(range(10, 20));
  expect(() => ranges.add(range(20, 25))).toThrow(new RangeError("Cannot add range 20-25: 10-20 is there"));
});

test("clear() removes every owner in a range, and no other", () => {
  const ranges = new Ranges();
  const owners = [range(1, 1), range(10, 20), range(25, 25), range(30, 40), range(50, 60)];
  for (const owner of owners) {
    ranges.add(owner);
  }
  expect(ranges.clear(range(20, 30))).toEqual(owners.slice(1, 4));
  expect(ranges.clear(range(20, 30))).toEqual([]);
  expect(ranges.overlapping(range(2, 49))).toBeUndefined();
  expect([ranges.overlapping(range(0, 9)), ranges.overlapping(range(50, 50))]).toEqual([owners[0], owners[4]]);
});

const seed = Number(process.env.SEED ?? Date.now() % 2 ** 32);

test(`ranges answer as a plain list would, SEED=${seed}`, () => {
  const random = new Random(seed);
  const ranges = new Ranges();
  let list: { first: number; last: number }[] = [];
  for (let step = 0; step < 5000; step++) {
    const first = random.below(200);
    const one = range(first, first + random.below(4));
    const inTheWay = list.filter((other) => other.first <= one.last && one.first <= other.last);
    expect(ranges.overlapping(one) !== undefined).toBe(inTheWay.length > 0);
    expect(ranges.clear(one)).toEqual(inTheWay.toSorted((a, b) => a.first - b.first));
    ranges.add(one);
    list = [...list.filter((other) => !inTheWay.includes(other)), one];
  }
});
