/**
 * What a caller asks for one interface, from all the places where CNI's conventions put it: the capabilities "ips" and
 * "mac" in `runtimeConfig`, `args.cni.ips`, and IP and MAC in CNI_ARGS; and from the pod's annotations, which containerd
 * (from 1.5 on) and CRI-O (from 1.28 on) hand to a plugin with the capability `io.kubernetes.cri.pod-annotations`.
 */
import { isIPv4 } from "node:net";
import { type CniArguments, CniCode, CniError, macAddress } from "@containernetworking/cni-types-ts";
import { z } from "zod";
import { show } from "../src/sentence.ts";

export interface Wishes {
  /** IPv4, without prefix length. */
  readonly address?: string;
  /** Lower case, with colons. */
  readonly mac?: string;
  /** Names of the pools that the address may come from, the first with a free one; without it any pool for the pod. */
  readonly pools?: readonly string[];
}

const addressAnnotation = "cni-ipip.io/address";
const poolsAnnotation = "cni-ipip.io/pools";
const annotations = "io.kubernetes.cri.pod-annotations";

const addresses = z.array(z.string()).exactOptional().describe("a list of IPv4 addresses as texts");
const mac = z.string().exactOptional().describe("a MAC as a text");
const ranges = z
  .array(z.array(z.looseObject({ subnet: z.string() })))
  .exactOptional()
  .describe("lists of {subnet}, a text");

/** The parts of the network configuration that a runtime fills in. */
export const runtimeWishes = {
  runtimeConfig: z
    .looseObject({
      ips: addresses,
      mac,
      ipRanges: ranges,
      [annotations]: z.record(z.string(), z.string()).exactOptional().describe("an object of texts"),
    })
    .exactOptional()
    .describe("an object"),
  args: z
    .looseObject({ cni: z.looseObject({ ips: addresses }).exactOptional() })
    .exactOptional()
    .describe("an object"),
} as const;

/** Calico's names: whoever brings its configuration along is told that there is no IPv6. */
export const ipamWishes = {
  ipv4_pools: z.array(z.string().min(1)).exactOptional().describe("a list of names of pools"),
  assign_ipv6: z.union([z.boolean(), z.string()]).exactOptional().describe('false or "false"'),
  ipv6_pools: z.array(z.string()).exactOptional().describe("an empty list"),
} as const;

type RuntimeWishes = { [Field in keyof typeof runtimeWishes]?: z.infer<(typeof runtimeWishes)[Field]> } & {
  readonly ipam?: { [Field in keyof typeof ipamWishes]?: z.infer<(typeof ipamWishes)[Field]> };
};

/** A value and the place that it was found in. */
interface Wish {
  readonly place: string;
  readonly value: string;
  /** The CniCode of an error about it. */
  readonly code: number;
}

/** @throws CniError, naming place and value, when it cannot be given, or two places ask for different ones */
export function wishesOf({ runtimeConfig, args, ipam }: RuntimeWishes, { IP, MAC }: CniArguments): Wishes {
  const subnets = (runtimeConfig?.ipRanges ?? []).flat().map(({ subnet }) => subnet);
  const ranges = [
    ...configured('"runtimeConfig.ipRanges"', subnets),
    ...configured('"ipam.ipv6_pools"', ipam?.ipv6_pools),
  ];
  const ipv6 = ranges.find(({ value }) => value.includes(":"));
  if (ipv6) {
    throw refuse(ipv6, "IPv4, the network has no IPv6");
  }
  if (ipam?.assign_ipv6 === true || ipam?.assign_ipv6 === "true") {
    const wish = { place: 'field "ipam.assign_ipv6"', value: "true", code: CniCode.InvalidConfiguration };
    throw refuse(wish, "false, the network has no IPv6");
  }
  const { [addressAnnotation]: podAddress, [poolsAnnotation]: podPools } = runtimeConfig?.[annotations] ?? {};
  const addresses = [
    ...configured(`"${addressAnnotation}" of the pod's annotations`, podAddress === undefined ? [] : [podAddress]),
    ...configured('"runtimeConfig.ips"', runtimeConfig?.ips),
    ...configured('"args.cni.ips"', args?.cni?.ips),
    ...argument("IP", IP),
  ].map(asAddress);
  const macs = [
    ...configured('"runtimeConfig.mac"', runtimeConfig?.mac ? [runtimeConfig.mac] : []), // Go leaves it empty
    ...argument("MAC", MAC),
  ].map(asMac);
  const address = theOnly(addresses, "one address an interface");
  const mac = theOnly(macs, "one MAC an interface");
  const pools = podPools === undefined ? ipam?.ipv4_pools : namesIn(podPools);
  return {
    ...(address === undefined ? {} : { address }),
    ...(mac === undefined ? {} : { mac }),
    ...(pools === undefined ? {} : { pools }),
  };
}

/** "fast, slow" */
function namesIn(text: string): string[] {
  const names = text.split(",").map((name) => name.trim());
  if (names.some((name) => name === "")) {
    const place = `field "${poolsAnnotation}" of the pod's annotations`;
    throw refuse({ place, value: text, code: CniCode.InvalidConfiguration }, "names of pools with commas between");
  }
  return names;
}

function configured(place: string, values: readonly string[] = []): Wish[] {
  return values.map((value) => ({ place: `field ${place}`, value, code: CniCode.InvalidConfiguration }));
}

/** Several values stand in one argument with commas between. */
function argument(name: string, text: string | undefined): Wish[] {
  const values = text ? text.split(",") : [];
  return values.map((value) => ({ place: `argument "${name}" of CNI_ARGS`, value, code: CniCode.InvalidEnvironment }));
}

function asAddress(wish: Wish): Wish {
  const [, address = "", prefixLength] = /^([^/]*)(?:\/(.*))?$/.exec(wish.value) ?? [];
  const isPrefixLength =
    prefixLength === undefined || (/^(0|[1-9][0-9]?)$/.test(prefixLength) && Number(prefixLength) <= 32);
  if (!isIPv4(address) || !isPrefixLength) {
    const isIpv6 = wish.value.includes(":");
    throw refuse(
      wish,
      `an IPv4 address such as "10.1.2.3" or "10.1.2.3/24"${isIpv6 ? ", the network has no IPv6" : ""}`,
    );
  }
  return { ...wish, value: address };
}

/** IEEE 802: the lowest bit of the first octet marks a group, which no interface can have as its own. */
function asMac(wish: Wish): Wish {
  const mac = macAddress.safeParse(wish.value).data;
  if (mac === undefined || Number.parseInt(mac.slice(0, 2), 16) % 2 === 1 || mac === "00:00:00:00:00:00") {
    throw refuse(wish, 'a unicast MAC such as "02:42:ac:11:00:02"');
  }
  return { ...wish, value: mac };
}

function theOnly(wishes: readonly Wish[], allowed: string): string | undefined {
  const [first, ...others] = wishes;
  const other = others.find(({ value }) => value !== first?.value);
  if (first && other) {
    throw new CniError(
      other.code,
      `Cannot give what is asked for: ${first.place} is ${show(first.value)} and ${other.place} is ${show(other.value)}, allowed is ${allowed}`,
    );
  }
  return first?.value;
}

function refuse({ place, value, code }: Wish, allowed: string): CniError {
  return new CniError(code, `Cannot give what is asked for: ${place} is ${show(value)}, allowed is ${allowed}`);
}
