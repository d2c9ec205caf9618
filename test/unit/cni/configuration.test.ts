import {
  networkConfiguration,
  parseNetworkConfiguration,
  parseNetworkConfigurationList,
  validAttachments,
} from "@containernetworking/cni-types-ts";
import { expect, test } from "@jest/globals";
import { z } from "zod";

const minimal = { cniVersion: "1.1.0", name: "pods", type: "bridge" };

function parse(change: object) {
  return parseNetworkConfiguration(JSON.stringify({ ...minimal, ...change }), networkConfiguration);
}

test("parseNetworkConfiguration() takes every field of the specification and carries others along", () => {
  const full = {
    ...minimal,
    ipMasq: true,
    ipam: { type: "host-local", subnet: "10.0.0.0/8" },
    args: { cni: { labels: [{ key: "app", value: "web" }] } },
    runtimeConfig: { mac: "02:42:ac:11:00:02" },
    dns: { nameservers: ["10.96.0.10"], domain: "example.org", search: [], options: ["ndots:5"], more: 1 },
    prevResult: { ips: [] },
    "cni.dev/valid-attachments": [{ containerID: "c1", ifname: "eth0" }],
    vendor: { deep: [[[null]]] },
  };
  expect(parse(full)).toEqual(full);
});

test.each([undefined, ""])("a cniVersion that is %p means 0.1.0, as in the reference library", (cniVersion) => {
  expect(parse({ cniVersion })).toMatchObject({ cniVersion: "0.1.0" });
});

test.each<[object, object]>([
  [{ dns: null, ipam: null, args: null, runtimeConfig: null, prevResult: null }, {}],
  [{ "cni.dev/valid-attachments": null, "cni.dev/attachments": null }, {}],
  [
    { dns: { nameservers: null, domain: null, search: [], options: null, more: null } },
    { dns: { search: [], more: null } },
  ],
  [
    {
      vendor: null,
      args: { cni: null },
      prevResult: { dns: null },
      ipam: { type: "x", ranges: null },
      capabilities: null,
    },
    {
      vendor: null,
      args: { cni: null },
      prevResult: { dns: null },
      ipam: { type: "x", ranges: null },
      capabilities: null,
    },
  ],
])("a known field that Go left nil counts as absent, others' stay: %j", (change, rest) => {
  expect(parse(change)).toEqual({ ...minimal, ...rest });
});

const name = 'letters, digits, "_", "." and "-", a letter or digit first';
const dns = "an object {nameservers, domain, search, options}";
const attachments = "a list of {containerID, ifname}";

test.each<[object, string]>([
  [{ name: undefined }, `field "name" is missing, allowed is ${name}`],
  [{ name: "" }, `field "name" is "", allowed is ${name}`],
  [{ name: ".pods" }, `field "name" is ".pods", allowed is ${name}`],
  [{ name: "pods\n" }, `field "name" is "pods\\n", allowed is ${name}`],
  [{ name: "a/b" }, `field "name" is "a/b", allowed is ${name}`],
  [{ name: "pöds" }, `field "name" is "pöds", allowed is ${name}`],
  [{ name: 7 }, `field "name" is 7, allowed is ${name}`],
  [{ name: "!".repeat(80) }, `field "name" is "${"!".repeat(80)}", allowed is ${name}`],
  [{ name: "!".repeat(81) }, `field "name" is "${"!".repeat(80)}…", allowed is ${name}`],
  [{ name: "!".repeat(2 ** 20) }, `field "name" is "${"!".repeat(80)}…", allowed is ${name}`],
  [{ type: undefined }, 'field "type" is missing, allowed is a plugin\'s file name'],
  [{ type: "../sh" }, 'field "type" is "../sh", allowed is a plugin\'s file name'],
  [{ type: "." }, 'field "type" is ".", allowed is a plugin\'s file name'],
  [{ type: ".." }, 'field "type" is "..", allowed is a plugin\'s file name'],
  [{ type: "a\0" }, 'field "type" is "a\\u0000", allowed is a plugin\'s file name'],
  [{ ipam: {} }, 'field "ipam.type" is missing, allowed is an object with the file name of a plugin as type'],
  [
    { ipam: { type: "a/b" } },
    'field "ipam.type" is "a/b", allowed is an object with the file name of a plugin as type',
  ],
  [{ name: null }, `field "name" is null, allowed is ${name}`],
  [{ dns: { nameservers: [null] } }, `field "dns.nameservers.0" is null, allowed is ${dns}`],
  [{ "cni.dev/valid-attachments": [null] }, `field "cni.dev/valid-attachments.0" is null, allowed is ${attachments}`],
  [{ args: "A=1" }, 'field "args" is "A=1", allowed is an object'],
  [{ args: [] }, 'field "args" is [], allowed is an object'],
  [{ runtimeConfig: [{ token: 1 }] }, 'field "runtimeConfig" is a list, allowed is an object'],
  [{ dns: { nameservers: [7] } }, `field "dns.nameservers.0" is 7, allowed is ${dns}`],
  [{ dns: { domain: {} } }, `field "dns.domain" is {}, allowed is ${dns}`],
  [{ prevResult: [] }, 'field "prevResult" is [], allowed is the result of the plugin before, an object'],
  [{ "cni.dev/valid-attachments": {} }, `field "cni.dev/valid-attachments" is {}, allowed is ${attachments}`],
  [
    { "cni.dev/valid-attachments": [{ containerID: 7, ifname: "eth0" }] },
    `field "cni.dev/valid-attachments.0.containerID" is 7, allowed is ${attachments}`,
  ],
  [
    { "cni.dev/attachments": [{ containerID: "c1" }] },
    `field "cni.dev/attachments.0.ifname" is missing, allowed is ${attachments}`,
  ],
])("parseNetworkConfiguration() refuses row %# by field, value and what is allowed", (change, problem) => {
  expect(() => parse(change)).toThrow(
    expect.objectContaining({ code: 7, message: `Cannot use the network configuration: ${problem}` }),
  );
});

test("parseNetworkConfiguration() tells the nearest description of a plugin's own field, through defaults and lists", () => {
  const schema = networkConfiguration.extend({
    runtimeConfig: z
      .looseObject({
        mac: z.string().exactOptional().describe("a MAC"),
        ports: z.array(z.looseObject({ port: z.int() })),
      })
      .prefault({ ports: [] })
      .describe("an object"),
    limit: z
      .int()
      .refine((value) => value % 2 === 0, "an even number")
      .default(0)
      .describe("a number"),
  });
  const refused = (change: object) => () =>
    parseNetworkConfiguration(JSON.stringify({ ...minimal, ...change }), schema);
  expect(refused({ runtimeConfig: { mac: 7, ports: [] } })).toThrow('field "runtimeConfig.mac" is 7, allowed is a MAC');
  expect(refused({ runtimeConfig: { ports: [{}] } })).toThrow(
    'field "runtimeConfig.ports.0.port" is missing, allowed is an object',
  );
  expect(refused({ limit: 3 })).toThrow('field "limit" is 3, allowed is an even number');
  expect(refused({ limit: "3" })).toThrow('field "limit" is "3", allowed is a number');
});

const deep = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;

test.each<[string, number, string]>([
  ["null", 7, "Cannot use the network configuration: null, allowed is a JSON object"],
  ["[]", 7, "Cannot use the network configuration: a list, allowed is a JSON object"],
  ["7", 7, "Cannot use the network configuration: a number, allowed is a JSON object"],
  ["true", 7, "Cannot use the network configuration: a boolean, allowed is a JSON object"],
  ['"secret"', 7, "Cannot use the network configuration: a string, allowed is a JSON object"],
  ["", 6, "Cannot decode the network configuration: 0 characters that are not JSON, allowed is a JSON object"],
  [
    `\uFEFF${JSON.stringify(minimal)}`,
    6,
    "Cannot decode the network configuration: 53 characters that are not JSON, allowed is a JSON object",
  ],
  [
    '{"secret": 1} trailing',
    6,
    "Cannot decode the network configuration: 22 characters that are not JSON, allowed is a JSON object",
  ],
  [
    "[".repeat(100_000),
    6,
    "Cannot decode the network configuration: 100000 characters that are not JSON, allowed is a JSON object",
  ],
  [
    `{"cniVersion": ${deep(100_000)}}`,
    1,
    "Cannot speak cniVersion a list: allowed are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0",
  ],
  [
    '{"cniVersion": 1e400}',
    1,
    "Cannot speak cniVersion Infinity: allowed are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0",
  ],
  [`{"name": ${deep(100_000)}}`, 7, `Cannot use the network configuration: field "name" is a list, allowed is ${name}`],
  [
    '{"__proto__": {"name": "pods", "type": "bridge"}}',
    7,
    `Cannot use the network configuration: field "name" is missing, allowed is ${name}`,
  ],
])("parseNetworkConfiguration() refuses the hostile text in row %# in a short sentence", (text, code, message) => {
  expect(() => parseNetworkConfiguration(text, networkConfiguration)).toThrow(
    expect.objectContaining({ code, message }),
  );
});

test("parseNetworkConfiguration() lets deep, long, huge and strange things pass where nothing is known of them", () => {
  const text = JSON.stringify(minimal).replace(
    "}",
    `,"a":${deep(100_000)},"b":"${"x".repeat(2 ** 20)}","c":1e400,"constructor":1,"__proto__":{"ipam":7},"name":"second"}`,
  );
  const config = parseNetworkConfiguration(text, networkConfiguration);
  expect(config.name).toBe("second");
  expect(config.ipam).toBeUndefined();
  expect(Object.getPrototypeOf(config)).toBe(Object.prototype);
});

test("validAttachments() prefers the newer spelling, and takes none for nothing", () => {
  const [first, second] = ["c1", "c2"].map((containerID) => ({ containerID, ifname: "eth0" }));
  expect(validAttachments(parse({ "cni.dev/valid-attachments": [first], "cni.dev/attachments": [second] }))).toEqual([
    first,
  ]);
  expect(validAttachments(parse({ "cni.dev/attachments": [second] }))).toEqual([second]);
  expect(validAttachments(parse({ "cni.dev/valid-attachments": [], "cni.dev/attachments": [second] }))).toEqual([]);
  expect(validAttachments(parse({ "cni.dev/valid-attachments": null, "cni.dev/attachments": [second] }))).toEqual([
    second,
  ]);
  expect(validAttachments(parse({ "cni.dev/valid-attachments": null, "cni.dev/attachments": null }))).toEqual([]);
  expect(validAttachments(parse({}))).toEqual([]);
});

test("parseNetworkConfigurationList() reads a list and fills in what it leaves out", () => {
  const plugins = [
    { type: "bridge", mtu: 1500 },
    { type: "portmap", capabilities: { portMappings: true } },
  ];
  expect(
    parseNetworkConfigurationList(JSON.stringify({ name: "pods", plugins, cniVersions: ["1.0.0", "2.0.0"] })),
  ).toEqual({
    cniVersion: "0.1.0",
    cniVersions: ["1.0.0", "2.0.0"],
    name: "pods",
    disableCheck: false,
    disableGC: false,
    loadOnlyInlinedPlugins: false,
    plugins,
  });
});

test("parseNetworkConfigurationList() takes null in a list for absent", () => {
  const plugins = [{ type: "bridge", capabilities: null, vlan: null }];
  const text = JSON.stringify({ name: "pods", plugins, cniVersions: null, disableGC: null });
  const { cniVersions, disableGC, plugins: read } = parseNetworkConfigurationList(text);
  expect({ cniVersions, disableGC, read }).toEqual({
    cniVersions: undefined,
    disableGC: false,
    read: [{ type: "bridge", vlan: null }],
  });
});

test.each<[object, number, string]>([
  [{ name: "/" }, 7, `Cannot use the network configuration list: field "name" is "/", allowed is ${name}`],
  [
    { plugins: [{ type: "a/b" }] },
    7,
    'Cannot use the network configuration list: field "plugins.0.type" is "a/b", allowed is a plugin\'s file name',
  ],
  [
    { plugins: [{ type: "a", capabilities: { mac: "yes" } }] },
    7,
    'Cannot use the network configuration list: field "plugins.0.capabilities.mac" is "yes", allowed is an object whose fields are true or false',
  ],
  [
    { disableGC: "true" },
    7,
    'Cannot use the network configuration list: field "disableGC" is "true", allowed is true or false',
  ],
  [
    { cniVersion: "2.0.0" },
    1,
    'Cannot speak cniVersion "2.0.0": allowed are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0',
  ],
])("parseNetworkConfigurationList() refuses row %#", (change, code, message) => {
  expect(() => parseNetworkConfigurationList(JSON.stringify({ name: "pods", ...change }))).toThrow(
    expect.objectContaining({ code, message }),
  );
});
