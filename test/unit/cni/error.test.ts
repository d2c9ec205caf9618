import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { expect, test } from "@jest/globals";

test("CniError.from() keeps a CniError and makes anything else internal with its cause", () => {
  const error = new CniError(CniCode.PoolExhausted, "Cannot reserve");
  expect(CniError.from(error)).toBe(error);
  const cause = new Error("Cannot open", { cause: new Error("EMFILE") });
  expect(CniError.from(cause)).toMatchObject({ code: 999, message: "Cannot open", details: "EMFILE", cause });
  expect(CniError.from("text")).toMatchObject({ code: 999, message: "text" });
});

test("a CniError reports the caller's version, and details where they say more than the message", () => {
  const plain = new CniError(CniCode.TryAgainLater, "Cannot add yet");
  expect(plain.toResult("0.4.0")).toEqual({ cniVersion: "0.4.0", code: 11, msg: "Cannot add yet" });
  const caused = new CniError(CniCode.IoFailure, "Cannot write", { cause: new Error("ENOSPC") });
  expect(caused.toResult("1.0.0")).toEqual({ cniVersion: "1.0.0", code: 5, msg: "Cannot write", details: "ENOSPC" });
  expect(CniError.from(new Error("same")).toResult("1.0.0")).toEqual({ cniVersion: "1.0.0", code: 999, msg: "same" });
});

test("CniCode has the codes of the specification, and ours from 100 on", () => {
  expect(Object.values(CniCode)).toEqual([1, 2, 3, 4, 5, 6, 7, 11, 50, 51, 100, 101, 102, 999]);
});

test.each([
  { code: 7, msg: "no address left", details: "range 10.0.0.0/30" },
  { code: 0, msg: "" },
  { code: 110, msg: "same", details: "same" },
  { code: 999, msg: "with empty details", details: "" },
])("CniError.fromResult() hands %j through unchanged", (printed) => {
  const error = CniError.fromResult({ cniVersion: "0.4.0", ...printed });
  expect(error).toBeInstanceOf(CniError);
  expect(error?.toResult("1.1.0")).toEqual({ cniVersion: "1.1.0", ...printed });
});

test("CniError.fromResult() reads what toResult() wrote", () => {
  const error = new CniError(CniCode.CheckFailed, "Cannot confirm", { details: "the route is gone" });
  expect(CniError.fromResult(error.toResult("0.1.0"))).toEqual(error);
});

test("CniError.fromResult() takes details of null for none", () => {
  expect(CniError.fromResult({ cniVersion: null, code: 7, msg: "text", details: null })).toEqual(
    new CniError(7, "text"),
  );
});

test.each([
  [undefined],
  [null],
  ["failed"],
  [7],
  [[]],
  [{}],
  [{ code: 7 }],
  [{ msg: "text" }],
  [{ code: "7", msg: "text" }],
  [{ code: 7.5, msg: "text" }],
  [{ code: -1, msg: "text" }],
  [{ code: 7, msg: null }],
  [{ code: 7, msg: "text", details: { a: 1 } }],
  [{ cniVersion: "1.0.0", ips: [{ address: "10.0.0.1/8" }] }],
])("CniError.fromResult() does not take %j for an error", (value) => {
  expect(CniError.fromResult(value)).toBeUndefined();
});
