import {
  type AnyCniResult,
  type CniResult,
  type CniVersion,
  convertResult,
  parseResult,
  supportedVersions,
} from "@containernetworking/cni-types-ts";
import { expect, test } from "@jest/globals";
import fc from "fast-check";

// What a result loses on the way through an older version, by name, and which version cannot say what.
const losses = {
  "fields that came with 1.1.0": (result) => ({
    ...result,
    interfaces: result.interfaces.map((each) => without(each, ["mtu", "socketPath", "pciID"])),
    routes: result.routes.map((each) => without(each, ["mtu", "advmss", "priority", "table", "scope"])),
  }),
  interfaces: (result) => ({
    ...result,
    interfaces: [],
    ips: result.ips.map((ip) => without(ip, ["interface"])),
  }),
  "addresses after the first of a family, and whose family is first": (result) => ({
    ...result,
    ips: [...result.ips.filter(isOf("4")).slice(0, 1), ...result.ips.filter(isOf("6")).slice(0, 1)],
  }),
  "routes of a family without address, and whose family is first": (result) => ({
    ...result,
    routes: [
      ...(result.ips.some(isOf("4")) ? result.routes.filter(isOf("4")) : []),
      ...(result.ips.some(isOf("6")) ? result.routes.filter(isOf("6")) : []),
    ],
  }),
} satisfies Record<string, (result: CniResult) => object>;

const since11 = ["fields that came with 1.1.0"] as const;
const since03 = Object.keys(losses) as (keyof typeof losses)[];

const cannotSay: Readonly<Record<CniVersion, readonly (keyof typeof losses)[]>> = {
  "0.1.0": since03,
  "0.2.0": since03,
  "0.3.0": since11,
  "0.3.1": since11,
  "0.4.0": since11,
  "1.0.0": since11,
  "1.1.0": [],
};

const anyVersion = fc.constantFrom(...supportedVersions);

const familyVersions: readonly CniVersion[] = ["0.1.0", "0.2.0"];

interface Family {
  readonly address: fc.Arbitrary<string>;
  readonly cidr: fc.Arbitrary<string>;
}

const ipv4: Family = { address: fc.ipV4(), cidr: cidr(fc.ipV4(), 32) };
const ipv6: Family = { address: fc.ipV6(), cidr: cidr(fc.ipV6(), 128) };
const note = fc.jsonValue(); // a field of a vendor's own
const mac = fc
  .uint8Array({ minLength: 6, maxLength: 6 })
  .map((octets) => [...octets].map((octet) => octet.toString(16).padStart(2, "0")).join(":"));
const dns = fc.record(
  {
    nameservers: fc.array(fc.ipV4()),
    domain: fc.domain(),
    search: fc.array(fc.domain()),
    options: fc.array(fc.string()),
  },
  { requiredKeys: [] },
);
const interfaces11 = fc.record(
  {
    name: fc.string({ minLength: 1 }),
    mac,
    sandbox: fc.string(),
    mtu: fc.nat(),
    socketPath: fc.string(),
    pciID: fc.string(),
    note,
  },
  { requiredKeys: ["name"] },
);

function cidr(address: fc.Arbitrary<string>, longest: number): fc.Arbitrary<string> {
  return fc.tuple(address, fc.nat(longest)).map(([text, prefixLength]) => `${text}/${prefixLength}`);
}

function ip(family: Family) {
  const fields = { address: family.cidr, gateway: family.address, interface: fc.nat(), note };
  return fc.record(fields, { requiredKeys: ["address"] });
}

function route(family: Family) {
  const gw = fc.oneof(ipv4.address, ipv6.address);
  return fc.record({ dst: family.cidr, gw, note }, { requiredKeys: ["dst"] });
}

function route11(family: Family) {
  const fields = { mtu: fc.nat(), advmss: fc.nat(), priority: fc.nat(), table: fc.nat(), scope: fc.nat(255) };
  return fc
    .tuple(route(family), fc.record(fields, { requiredKeys: [] }))
    .map(([older, later]) => ({ ...older, ...later }));
}

function familyIp(family: Family) {
  const routes = fc.array(route(family), { minLength: 1, maxLength: 3 });
  return fc.record({ ip: family.cidr, gateway: family.address, routes, note }, { requiredKeys: ["ip"] });
}

test.each(supportedVersions)("a result through %s loses what that version cannot say, nothing else", (version) => {
  fc.assert(
    fc.property(sayable(version), (result) => {
      expect(parseResult(json(convertResult(result, version)))).toEqual(less(result, version));
    }),
  );
});

test.each(supportedVersions)("a result that came in %s leaves in it unchanged", (version) => {
  fc.assert(
    fc.property(wellFormed(version), (written) => {
      expect(convertResult(parseResult(written), version)).toEqual(written);
    }),
  );
});

test.each(supportedVersions)("a result that does not tell that it is of %s is read as told", (version) => {
  fc.assert(
    fc.property(wellFormed(version), (written) => {
      expect(parseResult(without(written, ["cniVersion"]), version)).toEqual(parseResult(written));
    }),
  );
});

test("a result through two versions loses what the older one cannot say", () => {
  fc.assert(
    fc.property(anyVersion, anyVersion, sayable("0.1.0"), (a, b, result) => {
      const older = supportedVersions.indexOf(a) < supportedVersions.indexOf(b) ? a : b;
      const through = parseResult(convertResult(parseResult(convertResult(result, a)), b));
      expect(through).toEqual(less(result, older));
    }),
  );
});

test("what was read and written once is not changed by a second time", () => {
  fc.assert(
    fc.property(anyVersion, sayable("0.1.0"), (version, result) => {
      const once = parseResult(convertResult(result, version));
      expect(parseResult(convertResult(once, version))).toEqual(once);
    }),
  );
});

function less(result: CniResult, version: CniVersion): CniResult {
  return cannotSay[version].reduce<CniResult>((rest, name) => losses[name](rest) as CniResult, result);
}

function without<Value extends object>(value: Value, names: readonly string[]): Value {
  return Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name))) as Value;
}

function isOf(family: "4" | "6") {
  return (each: { readonly address?: unknown; readonly dst?: unknown }) =>
    String(each.address ?? each.dst).includes(":") === (family === "6");
}

/** As it looks after a pipe. */
function json<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value));
}

/** Results that a version has a shape for: before 0.3.0 those with an address. */
function sayable(version: CniVersion): fc.Arbitrary<CniResult> {
  const minLength = familyVersions.includes(version) ? 1 : 0;
  return fc
    .record(
      {
        interfaces: fc.array(interfaces11, { maxLength: 3 }),
        ips: fc.array(fc.oneof(ip(ipv4), ip(ipv6)), { minLength, maxLength: 4 }),
        routes: fc.array(fc.oneof(route11(ipv4), route11(ipv6)), { maxLength: 4 }),
        dns,
        "vendor.example/note": fc.jsonValue(),
      },
      { requiredKeys: ["interfaces", "ips", "routes"] },
    )
    .map(({ interfaces, ips, ...rest }) => ({
      cniVersion: "1.1.0" as const,
      interfaces,
      ips: ips.map((each) => withIndexBelow(interfaces.length, each)),
      ...rest,
    }))
    .map((result) => json(result) as CniResult);
}

/** What a careful plugin of that version writes, made without the code under test. */
function wellFormed(version: CniVersion): fc.Arbitrary<AnyCniResult> {
  return familyVersions.includes(version) ? familyResult(version) : listResult(version);
}

function familyResult(version: CniVersion): fc.Arbitrary<AnyCniResult> {
  const fields = { ip4: familyIp(ipv4), ip6: familyIp(ipv6), dns, "vendor.example/note": fc.jsonValue() };
  return fc
    .oneof(fc.record(fields, { requiredKeys: ["ip4"] }), fc.record(fields, { requiredKeys: ["ip6"] }))
    .map((result) => json({ cniVersion: version, ...result }) as AnyCniResult);
}

function listResult(version: CniVersion): fc.Arbitrary<AnyCniResult> {
  const tellsFamily = version.startsWith("0.");
  return sayable(version).map((newest) => {
    const { interfaces, ips, routes, ...rest } = less(newest, version);
    return {
      ...rest,
      cniVersion: version,
      ...(interfaces.length > 0 && { interfaces }),
      ...(ips.length > 0 && {
        ips: tellsFamily ? ips.map((each) => ({ ...each, version: isOf("6")(each) ? "6" : "4" })) : ips,
      }),
      ...(routes.length > 0 && { routes }),
    } as AnyCniResult;
  });
}

function withIndexBelow<Ip extends { readonly interface?: number }>(count: number, ip: Ip): Ip {
  const { interface: index = 0 } = ip;
  return count === 0 ? without(ip, ["interface"]) : { ...ip, ...("interface" in ip && { interface: index % count }) };
}
