import { parseArguments } from "@containernetworking/cni-types-ts";
import { expect, test } from "@jest/globals";

test("parseArguments() gives the known keys and drops others when IgnoreUnknown allows them", () => {
  const known = ["POD", "EMPTY"];
  expect(parseArguments("IgnoreUnknown=1;POD=a=b;EMPTY=;OTHER=x;", known)).toEqual({ POD: "a=b", EMPTY: "" });
  expect(parseArguments("POD=a;ignored=1;IgnoreUnknown=TRUE", known)).toEqual({ POD: "a" });
  expect(parseArguments("", known)).toEqual({});
});

test.each(["POD=a;OTHER=x;MORE=y", "IgnoreUnknown=0;OTHER=x;MORE=y", "IgnoreUnknown=false;OTHER=x;MORE=y"])(
  "parseArguments() refuses unknown keys in %j by name",
  (text) => {
    expect(() => parseArguments(text, ["POD"])).toThrow(
      expect.objectContaining({
        code: 4,
        message: 'Cannot use CNI_ARGS: unknown keys "OTHER", "MORE", allowed are "POD", or any with IgnoreUnknown=1',
      }),
    );
  },
);

test.each([
  ["POD", '"POD"'],
  ["=a", '"=a"'],
  ["POD=a;nonsense", '"nonsense"'],
  ["POD=a; ;", '" "'],
  ["a\nb", '"a\\nb"'],
  ["x".repeat(100_000), `"${"x".repeat(80)}…"`],
])("parseArguments() refuses the pair in row %#", (text, shown) => {
  expect(() => parseArguments(text, ["POD"])).toThrow(
    expect.objectContaining({ code: 4, message: `Cannot use CNI_ARGS: ${shown}, allowed is KEY=VALUE;KEY=VALUE` }),
  );
});

test.each(["yes", "", "2", "tru", " true"])("parseArguments() refuses IgnoreUnknown=%s", (flag) => {
  expect(() => parseArguments(`POD=a;IgnoreUnknown=${flag}`, ["POD"])).toThrow(
    expect.objectContaining({
      code: 4,
      message: `Cannot use CNI_ARGS: IgnoreUnknown is "${flag}", allowed are 1, true, 0 and false`,
    }),
  );
});

test.each(["1", "true", "True", "TRUE"])("parseArguments() drops unknown keys with IgnoreUnknown=%s", (flag) => {
  expect(parseArguments(`X=1;IgnoreUnknown=${flag};POD=a`, ["POD"])).toEqual({ POD: "a" });
});

test("parseArguments() tells upper from lower case and takes the last of a key that comes twice", () => {
  expect(parseArguments("POD=a;POD=b;IgnoreUnknown=1;pod=c", ["POD"])).toEqual({ POD: "b" });
  expect(() => parseArguments("ignoreunknown=1", ["POD"])).toThrow('unknown keys "ignoreunknown", allowed are "POD"');
});

test("parseArguments() shows of unknown keys neither values nor more than fits into a sentence", () => {
  const keys = Array.from({ length: 10_000 }, (_, index) => `KEY${index}=token`);
  const call = () => parseArguments(keys.join(";"), ["POD"]);
  expect(call).toThrow(
    /^Cannot use CNI_ARGS: unknown keys "KEY0", .{72}…, allowed are "POD", or any with IgnoreUnknown=1$/,
  );
  expect(call).not.toThrow("token");
});

test("parseArguments() does not take __proto__ for more than an unknown key", () => {
  expect(parseArguments("__proto__=x;IgnoreUnknown=1", ["POD"])).toEqual({});
});
