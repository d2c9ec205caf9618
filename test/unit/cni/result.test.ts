import { type CniResult, convertResult, parseResult } from "@containernetworking/cni-types-ts";
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

test("parseResult() takes what the first versions have no lists for", () => {
  const written = {
    cniVersion: "0.2.0",
    ip4: {
      ip: "10.0.0.1/24",
      gateway: "10.0.0.254",
      routes: [{ dst: "0.0.0.0/0" }, { dst: "10.1.0.0/16", gw: "10.0.0.9" }],
    },
    ip6: { ip: "2001:db8::1/64", routes: [{ dst: "::/0" }] },
    dns: { domain: "example.org" },
  };
  expect(parseResult(written)).toEqual({
    cniVersion: "1.1.0",
    interfaces: [],
    ips: [{ address: "10.0.0.1/24", gateway: "10.0.0.254" }, { address: "2001:db8::1/64" }],
    routes: [{ dst: "0.0.0.0/0" }, { dst: "10.1.0.0/16", gw: "10.0.0.9" }, { dst: "::/0" }],
    dns: { domain: "example.org" },
  });
});

test.each(["0.1.0", "0.2.0"] as const)(
  "convertResult() gives %s the first address of each family with its routes",
  (cniVersion) => {
    const more = { ...full, ips: [...full.ips, { address: "10.0.0.2/32" }, { address: "2001:db8::2/128" }] };
    expect(convertResult(more, cniVersion)).toEqual({
      cniVersion,
      ip4: { ip: "10.0.0.1/32", routes: [{ dst: "0.0.0.0/0", gw: "169.254.1.1" }] },
      ip6: { ip: "2001:db8::1/128", gateway: "fe80::1" },
      dns: full.dns,
    });
  },
);

test.each(["0.1.0", "0.2.0"] as const)("convertResult() cannot tell %s that there is no address", (cniVersion) => {
  expect(() => convertResult({ ...full, ips: [] }, cniVersion)).toThrow(
    expect.objectContaining({
      code: 1,
      message: "Cannot give the result in a version before 0.3.0: it has no address, needed is one",
    }),
  );
});

test("convertResult() leaves empty lists out", () => {
  const empty: CniResult = { cniVersion: "1.1.0", interfaces: [], ips: [], routes: [] };
  expect(convertResult(empty, "1.1.0")).toEqual({ cniVersion: "1.1.0" });
  expect(convertResult(empty, "0.3.0")).toEqual({ cniVersion: "0.3.0" });
});

test("names that mean something in another version's shape do not pass as a vendor's own", () => {
  const lists = { cniVersion: "1.0.0", ip4: { ip: "10.9.9.9/8" }, ip6: 7, ips: [{ address: "2001:db8::1/64" }] };
  expect(convertResult(parseResult(lists), "0.2.0")).toEqual({ cniVersion: "0.2.0", ip6: { ip: "2001:db8::1/64" } });
  const listed = { cniVersion: "1.0.0", ips: [{ address: "10.0.0.1/8", ip: "10.9.9.9/8", routes: 7, version: "6" }] };
  expect(convertResult(parseResult(listed), "0.2.0")).toEqual({ cniVersion: "0.2.0", ip4: { ip: "10.0.0.1/8" } });
  expect(convertResult(parseResult(listed), "0.4.0")).toMatchObject({ ips: [{ address: "10.0.0.1/8", version: "4" }] });
  const families = {
    cniVersion: "0.2.0",
    ip4: { ip: "10.0.0.1/8", address: "10.9.9.9/8", version: "6", interface: 5 },
    interfaces: 7,
    ips: [],
    routes: "x",
  };
  expect(parseResult(families)).toEqual({
    cniVersion: "1.1.0",
    interfaces: [],
    ips: [{ address: "10.0.0.1/8" }],
    routes: [],
  });
});

test.each([
  "02:42:ac:11:00:02",
  "02-42-AC-11-00-02",
  "02:42:ac:ff:fe:11:00:02",
  "80:00:00:48:fe:80:00:00:00:00:00:00:00:02:c9:03:00:12:34:56",
])("parseResult() takes the hardware address %s as it is written", (mac) => {
  expect(parseResult({ interfaces: [{ name: "eth0", mac }] }).interfaces).toEqual([{ name: "eth0", mac }]);
});

const address = 'an address with prefix length such as "10.1.2.3/24"';
const destination = 'a destination with prefix length such as "10.0.0.0/8"';
const mac = 'a hardware address such as "02:42:ac:11:00:02"';
const long = "x".repeat(2 ** 20);

test.each<[unknown, string]>([
  [[], "a list, allowed is a JSON object"],
  [null, "null, allowed is a JSON object"],
  [7, "a number, allowed is a JSON object"],
  ["text", "a string, allowed is a JSON object"],
  [{ ips: {} }, 'field "ips" is {}, allowed is a list of {address (CIDR), gateway, interface}'],
  [{ ips: { token: 1 } }, 'field "ips" is an object, allowed is a list of {address (CIDR), gateway, interface}'],
  [{ ips: [null] }, 'field "ips.0" is null, allowed is a list of {address (CIDR), gateway, interface}'],
  [{ ips: [{}] }, `field "ips.0.address" is missing, allowed is ${address}`],
  [{ ips: [{ address: "10.0.0.1" }] }, `field "ips.0.address" is "10.0.0.1", allowed is ${address}`],
  [{ ips: [{ address: "10.0.0.1/33" }] }, `field "ips.0.address" is "10.0.0.1/33", allowed is ${address}`],
  [{ ips: [{ address: "010.0.0.1/8" }] }, `field "ips.0.address" is "010.0.0.1/8", allowed is ${address}`],
  [{ ips: [{ address: "fe80::1%eth0/64" }] }, `field "ips.0.address" is "fe80::1%eth0/64", allowed is ${address}`],
  [{ ips: [{ address: "::1/64\n" }] }, `field "ips.0.address" is "::1/64\\n", allowed is ${address}`],
  [{ ips: [{ address: long }] }, `field "ips.0.address" is "${"x".repeat(80)}…", allowed is ${address}`],
  [
    { ips: [{ address: "10.0.0.1/8", gateway: "gw" }] },
    'field "ips.0.gateway" is "gw", allowed is an address such as "10.1.2.1"',
  ],
  [
    { ips: [{ address: "10.0.0.1/8", gateway: "fe80::1" }] },
    'field "ips.0.gateway" is "fe80::1", allowed is an address of the same family',
  ],
  [
    { interfaces: [{ name: "eth0" }], ips: [{ address: "10.0.0.1/8" }, { address: "10.0.0.2/8", interface: 1 }] },
    'field "ips.1.interface" is 1, allowed is an index in the list of 1 interfaces',
  ],
  [
    { ips: [{ address: "10.0.0.1/8", interface: 0 }] },
    'field "ips.0.interface" is 0, allowed is an index in the list of 0 interfaces',
  ],
  [
    { interfaces: [{ name: "eth0" }], ips: [{ address: "10.0.0.1/8", interface: -1 }] },
    'field "ips.0.interface" is -1, allowed is an index in the list of interfaces',
  ],
  [{ interfaces: [{ mac: "x" }] }, 'field "interfaces.0.name" is missing, allowed is a link\'s name'],
  [{ interfaces: [{ name: "" }] }, 'field "interfaces.0.name" is "", allowed is a link\'s name'],
  [{ interfaces: [{ name: "a", mac: "" }] }, `field "interfaces.0.mac" is "", allowed is ${mac}`],
  [
    { interfaces: [{ name: "a", mac: "02:42:ac:11:00" }] },
    `field "interfaces.0.mac" is "02:42:ac:11:00", allowed is ${mac}`,
  ],
  [
    { interfaces: [{ name: "a", mac: "02:42-ac:11-00:02" }] },
    `field "interfaces.0.mac" is "02:42-ac:11-00:02", allowed is ${mac}`,
  ],
  [
    { interfaces: [{ name: "a", mac: "02:42:ac:11:00:0g" }] },
    `field "interfaces.0.mac" is "02:42:ac:11:00:0g", allowed is ${mac}`,
  ],
  [
    { interfaces: [{ name: "a", mtu: "big" }] },
    'field "interfaces.0.mtu" is "big", allowed is a whole number from 0 on',
  ],
  [{ interfaces: [{ name: "a", mtu: 1.5 }] }, 'field "interfaces.0.mtu" is 1.5, allowed is a whole number from 0 on'],
  [
    { interfaces: [{ name: "a", mtu: Number("1e400") }] },
    'field "interfaces.0.mtu" is Infinity, allowed is a whole number from 0 on',
  ],
  [{ interfaces: [{ name: "a", sandbox: 7 }] }, 'field "interfaces.0.sandbox" is 7, allowed is a path'],
  [{ routes: [{ dst: "default" }] }, `field "routes.0.dst" is "default", allowed is ${destination}`],
  [{ routes: [{ dst: "0.0.0.0/0", table: -1 }] }, 'field "routes.0.table" is -1, allowed is a whole number from 0 on'],
  [
    { dns: { nameservers: "10.96.0.10" } },
    'field "dns.nameservers" is "10.96.0.10", allowed is an object {nameservers, domain, search, options}',
  ],
  [
    { cniVersion: "0.4.0", ips: [{ address: "10.0.0.1/8" }] },
    'field "ips.0.version" is missing, allowed is "4" or "6"',
  ],
  [
    { cniVersion: "0.3.0", ips: [{ version: 4, address: "10.0.0.1/8" }] },
    'field "ips.0.version" is 4, allowed is "4" or "6"',
  ],
  [
    { cniVersion: "0.4.0", ips: [{ version: "6", address: "10.0.0.1/8" }] },
    'field "ips.0.version" is "6", allowed is the family of the address',
  ],
  [
    { cniVersion: "0.4.0", ips: [{ version: "4", address: "10.0.0.1/8", gateway: "fe80::1" }] },
    'field "ips.0.gateway" is "fe80::1", allowed is an address of the same family',
  ],
  [
    { cniVersion: "0.2.0", ip4: { ip: "2001:db8::1/64" } },
    'field "ip4.ip" is "2001:db8::1/64", allowed is an IPv4 address with prefix length',
  ],
  [
    { cniVersion: "0.2.0", ip6: { ip: "10.0.0.1/8" } },
    'field "ip6.ip" is "10.0.0.1/8", allowed is an IPv6 address with prefix length',
  ],
  [
    { cniVersion: "0.1.0", ip4: { gateway: "10.0.0.1" } },
    'field "ip4.ip" is missing, allowed is an IPv4 address with prefix length',
  ],
  [
    { cniVersion: "0.1.0", ip4: { ip: "10.0.0.1/8", gateway: "fe80::1" } },
    'field "ip4.gateway" is "fe80::1", allowed is an IPv4 address',
  ],
  [
    { cniVersion: "0.2.0", ip4: { ip: "10.0.0.1/8", routes: [{ dst: "10.0.0.0/8", mtu: "big" }] } },
    'field "ip4.routes.0.mtu" is "big", allowed is a whole number from 0 on',
  ],
  [
    { cniVersion: "0.2.0", ip4: { ip: "10.0.0.1/8", routes: [{ dst: "::/0" }] } },
    'field "ip4.routes.0.dst" is "::/0", allowed is an IPv4 destination with prefix length',
  ],
])("parseResult() refuses row %# by field, value and what is allowed", (value, problem) => {
  expect(() => parseResult(value)).toThrow(
    expect.objectContaining({ code: 7, message: `Cannot use the result: ${problem}` }),
  );
});

test.each<[unknown, string]>([
  ["0.0.9", '"0.0.9"'],
  ["1.2.0", '"1.2.0"'],
  ["", '""'],
  [null, "null"],
  [1, "1"],
  [["1.0.0"], "a list"],
  [long, `"${"x".repeat(80)}…"`],
])("parseResult() refuses a result of version row %#", (cniVersion, shown) => {
  expect(() => parseResult({ cniVersion })).toThrow(
    expect.objectContaining({
      code: 1,
      message: `Cannot use the result: its cniVersion is ${shown}, allowed are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0`,
    }),
  );
});

test("parseResult() neither takes __proto__ for a field nor lets it change anything", () => {
  const result = parseResult(
    JSON.parse('{"__proto__": {"dns": 7}, "ips": [{"address": "10.0.0.1/8", "__proto__": {"gateway": 7}}]}'),
  );
  expect(result.dns).toBeUndefined();
  expect(result.ips[0]?.gateway).toBeUndefined();
  expect(Object.getPrototypeOf(result)).toBe(Object.prototype);
});
