import { expect, test } from "@jest/globals";
import { z } from "zod";
import { type Issue, parseJson, sentence, show } from "../../src/sentence.ts";

const schema = z.strictObject({
  text: z.string().min(2).max(4).default("abc"),
  number: z.int().min(1).max(9).default(1),
  flag: z.boolean().default(false),
  list: z
    .array(z.strictObject({ key: z.string() }))
    .min(1)
    .max(2)
    .readonly()
    .default([{ key: "a" }]),
  labels: z.record(z.string().min(1), z.string()).default({}),
  inner: z
    .strictObject({
      deep: z
        .strictObject({ way: z.enum(["in", "out"]).default("in") })
        .readonly()
        .prefault({}),
    })
    .prefault({}),
});

function problemOf(value: unknown): string {
  const { error } = schema.safeParse(value, { reportInput: true });
  return sentence(schema, (error?.issues ?? []) as Issue[]);
}

test.each<[unknown, string]>([
  ["x", '"x" is not an object'],
  [{ texts: "abc" }, 'unknown field "texts", allowed are "text", "number", "flag", "list", "labels", "inner"'],
  [{ text: 7 }, 'field "text": 7 is not a text'],
  [{ text: "" }, 'field "text": "" is too short, lengths from 2 on are allowed'],
  [{ text: "abcde" }, 'field "text": "abcde" is too long, lengths up to 4 are allowed'],
  [{ number: 0 }, 'field "number": 0 is too small, numbers from 1 on are allowed'],
  [{ number: 10 }, 'field "number": 10 is too big, numbers up to 9 are allowed'],
  [{ number: 1.5 }, 'field "number": 1.5 is not a whole number'],
  [{ flag: "true" }, 'field "flag": "true" is not true or false'],
  [{ list: [] }, 'field "list": [] is too short, lengths from 1 on are allowed'],
  [{ list: [{ key: "a" }, { kee: "b" }] }, 'field "list[1]": unknown field "kee", allowed are "key"'],
  [{ list: [{}] }, 'field "list[0].key": it is missing'],
  [{ labels: [] }, 'field "labels": [] is not an object'],
  [{ labels: { "": "a" } }, 'field "labels.": its name "" is too short, lengths from 1 on are allowed'],
  [{ labels: { a: null } }, 'field "labels.a": null is not a text'],
  [{ inner: { deep: { wey: "in" } } }, 'field "inner.deep": unknown field "wey", allowed are "way"'],
  [
    { inner: { deep: { way: "through" } } },
    'field "inner.deep.way": "through" is not supported, allowed are "in", "out"',
  ],
])("sentence() says of %j what is wrong and what is allowed", (value, expected) => {
  expect(problemOf(value)).toBe(expected);
});

test("sentence() without an issue is a mistake of the caller", () => {
  expect(() => problemOf({})).toThrow(new RangeError("Cannot say what is wrong: no issue was given"));
});

test("show() cuts what is long", () => {
  expect(show("x".repeat(100))).toBe(`"${"x".repeat(79)}…`);
  expect(show(undefined)).toBe("undefined");
});

test.each([
  ["", "it is empty"],
  ["{", /^it is not JSON, /],
])("parseJson() says of %j that it is none", (text, expected) => {
  expect(() => parseJson(text)).toThrow(expected);
});
