import { CniCode, CniError, type CniResult, convertResult, parseResult } from "@containernetworking/cni-types-ts";
import { expect, test } from "@jest/globals";

const full: CniResult = {
  cniVersion: "1.1.0",
  interfaces: [
    { name: "cali0", mac: "ee:ee:ee:ee:ee:ee" },
    { name: "eth0", mac: "02:00:00:00:00:01", mtu: 1480, sandbox: "/run/netns/pod", socketPath: "/s", pciID: "1" },
  ],
  ips: [
    { address: "10.0.0.1/32", interface: 1 },
    { address: "2001:db8::1/128", gateway: "fe80::1", interface: 1 },
  ],
  routes: [{ dst: "0.0.0.0/0", gw: "169.254.1.1", mtu: 1400, advmss: 1360, priority: 5, table: 10, scope: 253 }],
  dns: { nameservers: ["10.96.0.10"] },
};

test("convertResult() leaves the newest shape as it is", () => {
  expect(convertResult(full, "1.1.0")).toEqual(full);
});

test("convertResult() leaves out of 1.0.0 what came with 1.1.0", () => {
  expect(convertResult(full, "1.0.0")).toEqual({
    cniVersion: "1.0.0",
    interfaces: [full.interfaces[0], { name: "eth0", mac: "02:00:00:00:00:01", sandbox: "/run/netns/pod" }],
    ips: full.ips,
    routes: [{ dst: "0.0.0.0/0", gw: "169.254.1.1" }],
    dns: full.dns,
  });
});

test.each(["0.3.0", "0.3.1", "0.4.0"] as const)("convertResult() tells each address's family to %s", (cniVersion) => {
  expect(convertResult(full, cniVersion)).toEqual({
    ...convertResult(full, "1.0.0"),
    cniVersion,
    ips: [
      { version: "4", address: "10.0.0.1/32", interface: 1 },
      { version: "6", address: "2001:db8::1/128", gateway: "fe80::1", interface: 1 },
    ],
  });
});

test.each(["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const)(
  "parseResult() reads what convertResult() wrote for %s, less what that version cannot say",
  (cniVersion) => {
    const written = convertResult(full, cniVersion);
    expect(convertResult(parseResult(written), cniVersion)).toEqual(written);
  },
);

test("parseResult() drops the family, which newer versions do not have, from an older result", () => {
  const { ips } = parseResult({ cniVersion: "0.4.0", ips: [{ version: "4", address: "10.0.0.1/24" }] });
  expect(ips).toEqual([{ address: "10.0.0.1/24" }]);
});

test("parseResult() keeps fields that are not the specification's", () => {
  expect(parseResult({ cniVersion: "1.0.0", ips: [{ address: "10.0.0.1/24", label: "x" }], vendor: { a: 1 } })).toEqual(
    {
      cniVersion: "1.1.0",
      interfaces: [],
      ips: [{ address: "10.0.0.1/24", label: "x" }],
      routes: [],
      vendor: { a: 1 },
    },
  );
});

test.each([
  [[], "a list, allowed is a JSON object"],
  [{ ips: {} }, 'field "ips" is {}, allowed is a list of {address (CIDR), gateway, interface}'],
  [{ ips: [{ address: "10.0.0.1" }] }, 'field "ips.0.address" is "10.0.0.1", allowed is a list of'],
  [{ interfaces: [{ mac: "x" }] }, 'field "interfaces.0.name" is missing, allowed is a list of'],
  [{ routes: [{ dst: "default" }] }, 'field "routes.0.dst" is "default", allowed is a list of'],
])("parseResult() refuses %j by name", (value, problem) => {
  expect(() => parseResult(value)).toThrow(
    expect.objectContaining({ code: 7, message: expect.stringContaining(`Cannot use a previous result: ${problem}`) }),
  );
});

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
