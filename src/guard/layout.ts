/** The structs and numbers that BPF programs and user space share: the only encoder and decoder, mirror of bpf/shared.h. */
import { endianness } from "node:os";
import { formatAddress, networkOf, parseAddress } from "../cidr.ts";
import { fromBytes, toBytes } from "../netlink/ipv4.ts";

/** `enum verdict`: why a packet with protocol 4 passed or was dropped. Numbers are never reused. */
export const verdictNumbers = {
  member: 0,
  "other-tunnel": 1,
  transit: 2,
  malformed: 8,
  nested: 9,
  "not-member": 10,
  "forged-transit": 11,
  "observed-malformed": 16,
  "observed-nested": 17,
  "observed-not-member": 18,
  "observed-forged-transit": 19,
} as const;

export type VerdictName = keyof typeof verdictNumbers;
export const verdictNames = Object.keys(verdictNumbers) as readonly VerdictName[];

/** `enum guard_mode`: an unwritten map enforces. */
export const modeNumbers = { enforce: 0, observe: 1 } as const;

export type GuardMode = keyof typeof modeNumbers;

/** `enum pod_drop`: why a packet that a pod sent was dropped. Numbers are never reused. */
export const podDropNumbers = {
  ipip: 0,
  ipv6: 1,
  "other-ethertype": 2,
  malformed: 3,
  "unspecified-source": 4,
  "spoofed-source": 5,
  "spoofed-arp": 6,
  loopback: 7,
} as const;

export type PodDrop = keyof typeof podDropNumbers;

/** `enum pod_flag` */
export const podFlags = { "allow-ipip": 1, "allow-ipv6": 2, silent: 4 } as const;

/** POD_ADDRESSES_LIMIT and ALLOWED_SOURCES_LIMIT */
export const podAddressesLimit = 8;
export const allowedSourcesLimit = 16;

/** Size of each struct and offset of each member, in bytes, under their names in C. */
export const structs = {
  guard_config: { size: 4, offsets: { mode: 0 } },
  cidr: { size: 8, offsets: { prefix_length: 0, address: 4 } },
  tunnel_pair: { size: 8, offsets: { local: 0, remote: 4 } },
  verdict_counter: { size: 16, offsets: { packets: 0, bytes: 8 } },
  allowed_source: { size: 8, offsets: { network: 0, mask: 4 } },
  pod_link: {
    size: 304,
    offsets: { container: 0, addresses: 8, flags: 40, allowed_count: 44, allowed: 48, drops: 176 },
  },
  container_address: { size: 16, offsets: { container: 0, address: 8, unused: 12 } },
} as const;

export interface Counter {
  readonly packets: bigint;
  /** Whole frames as the hook sees them, Ethernet header included. */
  readonly bytes: bigint;
}

/** The outer addresses of an ipip device as its own node sees them. */
export interface TunnelPair {
  readonly local: string;
  readonly remote: string;
}

const isLittleEndian = endianness() === "LE";

/** The value of the maps that are used as sets. */
export const present: Uint8Array = encodeUint32(0);

/** A number in host order, such as the index of an array map. */
export function encodeUint32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, isLittleEndian);
  return bytes;
}

/** `__be32`: the address as it is on the wire. */
export function encodeAddress(address: string): Uint8Array {
  return toBytes(address);
}

export function decodeAddress(bytes: Uint8Array): string {
  return fromBytes(bytes.subarray(0, 4));
}

/** `struct cidr`, from "10.0.0.0/8". The kernel wants the prefix length in host order, the address in network order. */
export function encodeCidr(cidr: string): Uint8Array {
  const { size, offsets } = structs.cidr;
  const [address = "", prefixLength] = cidr.split("/");
  const bytes = new Uint8Array(size);
  bytes.set(encodeUint32(Number(prefixLength)), offsets.prefix_length);
  bytes.set(encodeAddress(address), offsets.address);
  return bytes;
}

export function decodeCidr(bytes: Uint8Array): string {
  const { prefix_length, address } = structs.cidr.offsets;
  return `${decodeAddress(bytes.subarray(address))}/${view(bytes).getUint32(prefix_length, isLittleEndian)}`;
}

/** `struct tunnel_pair` */
export function encodeTunnelPair(pair: TunnelPair): Uint8Array {
  const { size, offsets } = structs.tunnel_pair;
  const bytes = new Uint8Array(size);
  bytes.set(encodeAddress(pair.local), offsets.local);
  bytes.set(encodeAddress(pair.remote), offsets.remote);
  return bytes;
}

/** `struct guard_config` */
export function encodeConfig(mode: GuardMode): Uint8Array {
  return encodeUint32(modeNumbers[mode]);
}

/** Any number but that of "observe" enforces, as in the program. */
export function decodeConfig(bytes: Uint8Array): GuardMode {
  const mode = view(bytes).getUint32(structs.guard_config.offsets.mode, isLittleEndian);
  return mode === modeNumbers.observe ? "observe" : "enforce";
}

/** `struct verdict_counter` */
export function decodeCounter(bytes: Uint8Array): Counter {
  const { packets, bytes: octets } = structs.verdict_counter.offsets;
  return {
    packets: view(bytes).getBigUint64(packets, isLittleEndian),
    bytes: view(bytes).getBigUint64(octets, isLittleEndian),
  };
}

/** What a pod may send, as `struct pod_link` holds it. */
export interface PodLink {
  /** The first 8 bytes of SHA-256 of the container's id. */
  readonly container: Uint8Array;
  /** IPv4, 1 to `podAddressesLimit`. */
  readonly addresses: readonly string[];
  /** IPv4 CIDRs, at most `allowedSourcesLimit`. */
  readonly allowedSources: readonly string[];
  readonly flags: { readonly [Flag in keyof typeof podFlags]: boolean };
  readonly drops: Readonly<Record<PodDrop, Counter>>;
}

/** `struct pod_link` */
export function encodePodLink({ container, addresses, allowedSources, flags, drops }: PodLink): Uint8Array {
  const { size, offsets } = structs.pod_link;
  const bytes = new Uint8Array(size);
  bytes.set(container, offsets.container);
  addresses.forEach((address, index) => {
    bytes.set(encodeAddress(address), offsets.addresses + 4 * index);
  });
  bytes.set(encodeUint32(encodeFlags(flags)), offsets.flags);
  bytes.set(encodeUint32(allowedSources.length), offsets.allowed_count);
  allowedSources.forEach((cidr, index) => {
    bytes.set(encodeAllowedSource(cidr), offsets.allowed + structs.allowed_source.size * index);
  });
  for (const [reason, number] of Object.entries(podDropNumbers)) {
    const at = offsets.drops + structs.verdict_counter.size * number;
    bytes.set(encodeCounter(drops[reason as PodDrop]), at);
  }
  return bytes;
}

export function decodePodLink(bytes: Uint8Array): PodLink {
  const { offsets } = structs.pod_link;
  const flagBits = view(bytes).getUint32(offsets.flags, isLittleEndian);
  const count = view(bytes).getUint32(offsets.allowed_count, isLittleEndian);
  const slots = Array.from({ length: podAddressesLimit }, (_, index) => offsets.addresses + 4 * index);
  const sources = Array.from({ length: count }, (_, index) => offsets.allowed + structs.allowed_source.size * index);
  return {
    container: bytes.slice(offsets.container, offsets.container + 8),
    addresses: slots.map((at) => decodeAddress(bytes.subarray(at))).filter((address) => address !== "0.0.0.0"),
    allowedSources: sources.map((at) => decodeAllowedSource(bytes.subarray(at))),
    flags: mapValues(podFlags, (bit) => (flagBits & bit) !== 0),
    drops: mapValues(podDropNumbers, (number) =>
      decodeCounter(bytes.subarray(offsets.drops + structs.verdict_counter.size * number)),
    ),
  };
}

/** `struct container_address` */
export function encodeContainerAddress(container: Uint8Array, address: string): Uint8Array {
  const { size, offsets } = structs.container_address;
  const bytes = new Uint8Array(size);
  bytes.set(container, offsets.container);
  bytes.set(encodeAddress(address), offsets.address);
  return bytes;
}

export function decodeUint32(bytes: Uint8Array): number {
  return view(bytes).getUint32(0, isLittleEndian);
}

/** The kernel compares address & mask with the network: what lies behind the prefix is cut off. */
function encodeAllowedSource(cidr: string): Uint8Array {
  const { size, offsets } = structs.allowed_source;
  const { first, prefixLength } = networkOf(cidr);
  const bytes = new Uint8Array(size);
  bytes.set(encodeAddress(formatAddress(first)), offsets.network);
  bytes.set(encodeAddress(formatAddress(2 ** 32 - 2 ** (32 - prefixLength))), offsets.mask);
  return bytes;
}

function decodeAllowedSource(bytes: Uint8Array): string {
  const { network, mask } = structs.allowed_source.offsets;
  const ones = parseAddress(decodeAddress(bytes.subarray(mask)))
    .toString(2)
    .replaceAll("0", "").length;
  return `${decodeAddress(bytes.subarray(network))}/${ones}`;
}

function encodeFlags(flags: PodLink["flags"]): number {
  const set = Object.entries(podFlags).filter(([flag]) => flags[flag as keyof typeof podFlags]);
  return set.reduce((bits, [, bit]) => bits | bit, 0);
}

function encodeCounter({ packets, bytes: octets }: Counter): Uint8Array {
  const { size, offsets } = structs.verdict_counter;
  const bytes = new Uint8Array(size);
  view(bytes).setBigUint64(offsets.packets, packets, isLittleEndian);
  view(bytes).setBigUint64(offsets.bytes, octets, isLittleEndian);
  return bytes;
}

function mapValues<Name extends string, Value>(
  numbers: Readonly<Record<Name, number>>,
  map: (number: number) => Value,
): Record<Name, Value> {
  const entries = Object.entries<number>(numbers).map(([name, number]) => [name, map(number)]);
  return Object.fromEntries(entries) as Record<Name, Value>;
}

function view(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
