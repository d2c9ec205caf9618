import { type CniArguments, CniError } from "@containernetworking/cni-types-ts";
import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { parseConfiguration } from "../../../cni/config.ts";
import { type Wishes, wishesOf } from "../../../cni/wishes.ts";

/** As the plugin does: the configuration is parsed first. */
function wishes(fields: object, cniArguments: CniArguments = {}): Wishes {
  const text = JSON.stringify({ cniVersion: "1.1.0", name: "pods", type: "cni-ipip", ...fields });
  return wishesOf(parseConfiguration(text), cniArguments);
}

function failureOf(fields: object, cniArguments: CniArguments = {}): CniError {
  let failure: unknown;
  try {
    wishes(fields, cniArguments);
  } catch (error) {
    failure = error;
  }
  expect(failure).toBeInstanceOf(CniError);
  return failure as CniError;
}

const mac = "02:42:ac:11:00:02";

function annotated(annotations: object): object {
  return { runtimeConfig: { "io.kubernetes.cri.pod-annotations": annotations } };
}

test.each(["", ",", "fast,", " , slow"])("the annotation for pools is refused as %j", (pools) => {
  expect(failureOf(annotated({ "cni-ipip.io/pools": pools }))).toMatchObject({
    code: 7,
    message: `Cannot give what is asked for: field "cni-ipip.io/pools" of the pod's annotations is "${pools}", allowed is names of pools with commas between`,
  });
});

test.each(["", "10.1.2", "fd00::1"])("the annotation for an address is refused as %j", (address) => {
  expect(failureOf(annotated({ "cni-ipip.io/address": address }))).toMatchObject({
    code: 7,
    message: expect.stringContaining(`field "cni-ipip.io/address" of the pod's annotations is "${address}"`),
  });
});

test.each([7, { a: 7 }, { a: null }])("annotations that are %j are refused by field", (annotations) => {
  const fields = { runtimeConfig: { "io.kubernetes.cri.pod-annotations": annotations } };
  expect(failureOf(fields)).toMatchObject({ code: 7, message: expect.stringContaining("pod-annotations") });
});

test.each<[object, CniArguments, Wishes]>([
  [{}, {}, {}],
  [{ runtimeConfig: {}, args: {} }, {}, {}],
  [{ runtimeConfig: { ips: [] }, args: { cni: { ips: [] } } }, { IP: "", MAC: "" }, {}],
  [{ runtimeConfig: { mac: "" } }, {}, {}],
  [{ runtimeConfig: null, args: null, ipam: null }, {}, {}],
  [{ runtimeConfig: { ips: null, mac: null, ipRanges: null }, args: { cni: null } }, {}, {}],
  [{ runtimeConfig: { "io.kubernetes.cri.pod-annotations": null }, args: { cni: { ips: null } } }, {}, {}],
  [{ ipam: { type: "cni-ipip", ipv4_pools: null, assign_ipv6: null, ipv6_pools: null } }, {}, {}],
  [{ runtimeConfig: { ips: ["10.1.2.3"] } }, {}, { address: "10.1.2.3" }],
  [{ runtimeConfig: { ips: ["10.1.2.3/24"] } }, {}, { address: "10.1.2.3" }],
  [{ runtimeConfig: { ips: ["10.1.2.3/0"] } }, {}, { address: "10.1.2.3" }],
  [{ runtimeConfig: { ips: ["10.1.2.3", "10.1.2.3/32"] } }, {}, { address: "10.1.2.3" }],
  [{ args: { cni: { ips: ["10.1.2.3"] } } }, {}, { address: "10.1.2.3" }],
  [{}, { IP: "10.1.2.3" }, { address: "10.1.2.3" }],
  [{}, { IP: "10.1.2.3/24,10.1.2.3" }, { address: "10.1.2.3" }],
  [{ runtimeConfig: { mac } }, {}, { mac }],
  [{ runtimeConfig: { mac: "02:42:AC:11:00:0F" } }, { MAC: "02:42:ac:11:00:0f" }, { mac: "02:42:ac:11:00:0f" }],
  [{}, { MAC: mac }, { mac }],
  [{ runtimeConfig: { ips: ["10.1.2.3"] } }, { MAC: mac }, { address: "10.1.2.3", mac }],
  [annotated({ "example.org/other": "x" }), {}, {}],
  [annotated({ "cni-ipip.io/address": "10.1.2.3" }), { IP: "10.1.2.3" }, { address: "10.1.2.3" }],
  [annotated({ "cni-ipip.io/pools": "fast" }), {}, { pools: ["fast"] }],
  [annotated({ "cni-ipip.io/pools": "fast, slow" }), {}, { pools: ["fast", "slow"] }],
  [{ ipam: { type: "cni-ipip", ipv4_pools: ["slow"] } }, {}, { pools: ["slow"] }],
  [
    { ...annotated({ "cni-ipip.io/pools": "fast" }), ipam: { type: "cni-ipip", ipv4_pools: ["slow"] } },
    {},
    { pools: ["fast"] },
  ],
])("%j with CNI_ARGS %j asks for %j", (fields, cniArguments, expected) => {
  expect(wishes(fields, cniArguments)).toEqual(expected);
});

test("what others look after is left alone", () => {
  const fields = {
    runtimeConfig: {
      portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
      bandwidth: { ingressRate: 1 },
      infinibandGUID: 7,
      aliases: ["web"],
      ipRanges: [[{ subnet: "10.9.0.0/16", gateway: "10.9.0.1" }], []],
    },
    args: { cni: { labels: [{ key: "app", value: "web" }], mac: "not a convention" }, "example.org": null },
    ips: ["10.9.9.9"],
  };
  expect(wishes(fields, { K8S_POD_NAME: "web", ip: "10.9.9.9" })).toEqual({});
});

const prefix = "Cannot give what is asked for: ";
const anAddress = 'allowed is an IPv4 address such as "10.1.2.3" or "10.1.2.3/24"';
const noIpv6 = ", the network has no IPv6";
const aMac = 'allowed is a unicast MAC such as "02:42:ac:11:00:02"';

const notAddresses: readonly [value: string, alsoAllowed: string][] = [
  ["", ""],
  [" 10.1.2.3", ""],
  ["10.1.2.3\n", ""],
  ["10.1.2", ""],
  ["10.1.2.256", ""],
  ["10.1.2.03", ""],
  ["0x0a010203", ""],
  ["167838211", ""],
  ["10.1.2.3/33", ""],
  ["10.1.2.3/-1", ""],
  ["10.1.2.3/", ""],
  ["10.1.2.3/08", ""],
  ["10.1.2.3/24/24", ""],
  ["10.1.2.3-10.1.2.9", ""],
  ["१०.१.२.३", ""],
  ["localhost", ""],
  ['"', ""],
  ["2001:db8::5", noIpv6],
  ["2001:db8::5/64", noIpv6],
  ["::ffff:10.1.2.3", noIpv6],
  ["10.1.2.3:80", noIpv6],
];

describe.each(notAddresses)("the address %j", (value, alsoAllowed) => {
  test.each<[object, string]>([
    [{ runtimeConfig: { ips: [value] } }, "runtimeConfig.ips"],
    [{ runtimeConfig: { ips: ["10.1.2.3", value] } }, "runtimeConfig.ips"],
    [{ args: { cni: { ips: [value] } } }, "args.cni.ips"],
  ])("is refused in %j", (fields, place) => {
    expect(failureOf(fields)).toMatchObject({
      code: 7,
      message: `${prefix}field "${place}" is ${JSON.stringify(value)}, ${anAddress}${alsoAllowed}`,
    });
  });

  test("is refused in CNI_ARGS", () => {
    expect(failureOf({}, { IP: `10.1.2.3,${value}` })).toMatchObject({
      code: 4,
      message: `${prefix}argument "IP" of CNI_ARGS is ${JSON.stringify(value)}, ${anAddress}${alsoAllowed}`,
    });
  });
});

test.each([
  "00:00:00:00:00:00",
  "01:00:5e:00:00:01",
  "33:33:00:00:00:01",
  "ff:ff:ff:ff:ff:ff",
  "02:42:ac:11:00",
  "02:42:ac:11:00:02:03:04",
  "02-42-ac-11-00-02",
  "0242.ac11.0002",
  "0242ac110002",
  "2:42:ac:11:0:2",
  "02:42:ac:11:00:0g",
  "02:42:ac:11:00:02\n",
  " 02:42:ac:11:00:02",
  "random",
])("the MAC %j is refused by place and value", (value) => {
  const problem = `is ${JSON.stringify(value)}, ${aMac}`;
  expect(failureOf({ runtimeConfig: { mac: value } })).toMatchObject({
    code: 7,
    message: `${prefix}field "runtimeConfig.mac" ${problem}`,
  });
  expect(failureOf({}, { MAC: value })).toMatchObject({
    code: 4,
    message: `${prefix}argument "MAC" of CNI_ARGS ${problem}`,
  });
});

test.each<[object, CniArguments, code: number, problem: string]>([
  [
    { runtimeConfig: { ips: ["10.1.2.3"] } },
    { IP: "10.1.2.4" },
    4,
    'field "runtimeConfig.ips" is "10.1.2.3" and argument "IP" of CNI_ARGS is "10.1.2.4", allowed is one address an interface',
  ],
  [
    { runtimeConfig: { ips: ["10.1.2.3/24"] }, args: { cni: { ips: ["10.1.2.4/24"] } } },
    {},
    7,
    'field "runtimeConfig.ips" is "10.1.2.3" and field "args.cni.ips" is "10.1.2.4", allowed is one address an interface',
  ],
  [
    { runtimeConfig: { ips: ["10.1.2.3", "10.1.2.4"] } },
    {},
    7,
    'field "runtimeConfig.ips" is "10.1.2.3" and field "runtimeConfig.ips" is "10.1.2.4", allowed is one address an interface',
  ],
  [
    {},
    { IP: "10.1.2.3,10.1.2.4" },
    4,
    'argument "IP" of CNI_ARGS is "10.1.2.3" and argument "IP" of CNI_ARGS is "10.1.2.4", allowed is one address an interface',
  ],
  [
    { runtimeConfig: { mac } },
    { MAC: "02:42:ac:11:00:03" },
    4,
    `field "runtimeConfig.mac" is "${mac}" and argument "MAC" of CNI_ARGS is "02:42:ac:11:00:03", allowed is one MAC an interface`,
  ],
  [
    { runtimeConfig: { ipRanges: [[{ subnet: "10.9.0.0/16" }], [{ subnet: "2001:db8::/64" }]] } },
    {},
    7,
    'field "runtimeConfig.ipRanges" is "2001:db8::/64", allowed is IPv4, the network has no IPv6',
  ],
  [
    { ipam: { type: "cni-ipip", ipv6_pools: ["2001:db8::/64"] } },
    {},
    7,
    'field "ipam.ipv6_pools" is "2001:db8::/64", allowed is IPv4, the network has no IPv6',
  ],
  [
    { ipam: { type: "cni-ipip", assign_ipv6: true } },
    {},
    7,
    'field "ipam.assign_ipv6" is "true", allowed is false, the network has no IPv6',
  ],
])("%j with CNI_ARGS %j cannot be given", (fields, cniArguments, code, problem) => {
  expect(failureOf(fields, cniArguments)).toMatchObject({ code, message: `${prefix}${problem}` });
});

const addresses = "a list of IPv4 addresses as texts";

test.each<[object, field: string, value: string, allowed: string]>([
  [{ runtimeConfig: [] }, "runtimeConfig", "[]", "an object"],
  [{ runtimeConfig: "x" }, "runtimeConfig", '"x"', "an object"],
  [{ runtimeConfig: { ips: "10.1.2.3" } }, "runtimeConfig.ips", '"10.1.2.3"', addresses],
  [{ runtimeConfig: { ips: [7] } }, "runtimeConfig.ips.0", "7", addresses],
  [{ runtimeConfig: { ips: ["10.1.2.3", null] } }, "runtimeConfig.ips.1", "null", addresses],
  [{ runtimeConfig: { mac: 7 } }, "runtimeConfig.mac", "7", "a MAC as a text"],
  [{ runtimeConfig: { mac: [] } }, "runtimeConfig.mac", "[]", "a MAC as a text"],
  [
    { runtimeConfig: { ipRanges: [[{}]] } },
    "runtimeConfig.ipRanges.0.0.subnet",
    "missing",
    "lists of {subnet}, a text",
  ],
  [{ args: 7 }, "args", "7", "an object"],
  [{ args: { cni: "x" } }, "args.cni", '"x"', "an object"],
  [{ args: { cni: { ips: {} } } }, "args.cni.ips", "{}", addresses],
  [{ args: { cni: { ips: [true] } } }, "args.cni.ips.0", "true", addresses],
  [{ ipam: { type: "x", assign_ipv6: 7 } }, "ipam.assign_ipv6", "7", 'false or "false"'],
  [{ ipam: { type: "x", ipv6_pools: "x" } }, "ipam.ipv6_pools", '"x"', "an empty list"],
])("%j is refused by the whole path of its field", (fields, field, value, allowed) => {
  expect(failureOf(fields)).toMatchObject({
    code: 7,
    message: `Cannot use the network configuration: field "${field}" is ${value}, allowed is ${allowed}`,
  });
});

test("a long value is cut", () => {
  const long = "1".repeat(1 << 20);
  expect(failureOf({ runtimeConfig: { ips: [long] } }).message.length).toBeLessThan(250);
  expect(failureOf({}, { MAC: long }).message.length).toBeLessThan(250);
});

const address = fc.ipV4();
const unicast = fc
  .tuple(fc.integer({ min: 0, max: 127 }), fc.uint8Array({ minLength: 5, maxLength: 5 }))
  .map(([half, rest]) => [half * 2, ...rest])
  .filter((octets) => octets.some((octet) => octet !== 0))
  .map((octets) => octets.map((octet) => octet.toString(16).padStart(2, "0")).join(":"));
const prefixLength = fc.option(fc.integer({ min: 0, max: 32 }), { nil: undefined });
const length = (bits: number | undefined) => (bits === undefined ? "" : `/${bits}`);

/** A place that holds a value, as configuration and CNI_ARGS. */
type Place = (value: string) => [fields: object, cniArguments: CniArguments];

const addressPlaces: readonly Place[] = [
  (value) => [{ runtimeConfig: { ips: [value] } }, {}],
  (value) => [{ args: { cni: { ips: [value] } } }, {}],
  (value) => [{}, { IP: value }],
];
const macPlaces: readonly Place[] = [
  (value) => [{ runtimeConfig: { mac: value } }, {}],
  (value) => [{}, { MAC: value }],
];

function together(...parts: ReturnType<Place>[]): ReturnType<Place> {
  return [Object.assign({}, ...parts.map(([fields]) => fields)), Object.assign({}, ...parts.map(([, more]) => more))];
}

test("any places that name the same address in any form give it", () => {
  fc.assert(
    fc.property(
      address,
      fc.subarray([...addressPlaces], { minLength: 1 }),
      fc.infiniteStream(prefixLength),
      (value, places, bits) => {
        const forms = places.map((place) => place(`${value}${length(bits.next().value)}`));
        expect(wishes(...together(...forms))).toEqual({ address: value });
      },
    ),
  );
});

test("any places that name the same MAC in any case give it", () => {
  fc.assert(
    fc.property(unicast, fc.subarray([...macPlaces], { minLength: 1 }), fc.boolean(), (value, places, isUpper) => {
      const [first = "", second = ""] = isUpper ? [value.toUpperCase(), value] : [value, value.toUpperCase()];
      const forms = places.map((place, index) => place(index === 0 ? first : second));
      expect(wishes(...together(...forms))).toEqual({ mac: value });
    }),
  );
});

test("two places that name different addresses are an error with the later one's code and both values", () => {
  fc.assert(
    fc.property(
      address,
      address,
      fc.subarray([...addressPlaces], { minLength: 2, maxLength: 2 }),
      (one, other, places) => {
        fc.pre(one !== other);
        const [first, second] = places as [Place, Place];
        const { code, message } = failureOf(...together(first(one), second(other)));
        expect(code).toBe(second === addressPlaces[2] ? 4 : 7);
        expect(message).toContain(`is "${one}" and `);
        expect(message).toContain(`is "${other}", allowed`);
      },
    ),
  );
});

test("no IPv6 address is ever given", () => {
  fc.assert(
    fc.property(fc.ipV6(), fc.constantFrom(...addressPlaces), prefixLength, (value, place, bits) => {
      expect(failureOf(...place(`${value}${length(bits)}`)).message).toContain("the network has no IPv6");
    }),
  );
});

test("any text is either given as an address or refused with a CniError", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: "binary" }), fc.stringMatching(/^[0-9./,:]{0,20}$/)), (text) => {
      let given: Wishes | undefined;
      let failure: unknown;
      try {
        given = wishes({ runtimeConfig: { ips: [text] } });
      } catch (error) {
        failure = error;
      }
      expect(given?.address === text.split("/")[0] || failure instanceof CniError).toBe(true);
    }),
  );
});
