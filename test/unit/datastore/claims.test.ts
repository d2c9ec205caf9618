import { expect, test } from "@jest/globals";
import { type Claim, settle } from "../../../src/datastore/claims.ts";

const claim = (object: string, first: number, last = first): Claim => ({ object, first, last });

function settled(wanted: Claim[], standing: Claim[] = []) {
  const { granted, refused } = settle(wanted, new Map(standing.map((one) => [one.object, one])));
  return {
    granted: Object.fromEntries([...granted].map(([object, { first, last }]) => [object, [first, last]])),
    refused: Object.fromEntries([...refused].map(([object, { object: by }]) => [object, by])),
  };
}

test("settle() serves newcomers in their order", () => {
  expect(settled([claim("b", 1), claim("a", 1), claim("c", 2)])).toEqual({
    granted: { b: [1, 1], c: [2, 2] },
    refused: { a: "b" },
  });
});

test("settle() serves what stands before any newcomer", () => {
  expect(settled([claim("new", 1, 9), claim("old", 5)], [claim("old", 5)])).toEqual({
    granted: { old: [5, 5] },
    refused: { new: "old" },
  });
});

test("settle() gives an object back what it had when what it wants is taken, also from a newcomer that was quicker", () => {
  const standing = [claim("mover", 1), claim("owner", 2)];
  expect(settled([claim("quick", 1), claim("mover", 2), claim("owner", 2)], standing)).toEqual({
    granted: { mover: [1, 1], owner: [2, 2] },
    refused: { mover: "owner", quick: "mover" },
  });
});

test("settle() lets a whole row move up, and nobody when the last one cannot", () => {
  const standing = [claim("a", 1), claim("b", 2), claim("c", 3)];
  const moved = [claim("a", 2), claim("b", 3), claim("c", 4)];
  expect(settled(moved, standing)).toEqual({ granted: { a: [2, 2], b: [3, 3], c: [4, 4] }, refused: {} });
  expect(settled([...moved, claim("d", 4)], [...standing, claim("d", 4)])).toEqual({
    granted: { a: [1, 1], b: [2, 2], c: [3, 3], d: [4, 4] },
    refused: { a: "b", b: "c", c: "d" },
  });
});

test("settle() comes to an end when what stands contradicts itself", () => {
  const { granted } = settled([claim("a", 1, 5), claim("b", 5, 9)], [claim("a", 1, 5), claim("b", 5, 9)]);
  expect(Object.keys(granted)).toHaveLength(1);
});
