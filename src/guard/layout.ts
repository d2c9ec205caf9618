/** The structs and numbers that BPF programs and user space share: the only encoder and decoder, mirror of bpf/shared.h. */
import { endianness } from "node:os";
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

/** Size of each struct and offset of each member, in bytes, under their names in C. */
export const structs = {
  guard_config: { size: 4, offsets: { mode: 0 } },
  cidr: { size: 8, offsets: { prefix_length: 0, address: 4 } },
  tunnel_pair: { size: 8, offsets: { local: 0, remote: 4 } },
  verdict_counter: { size: 16, offsets: { packets: 0, bytes: 8 } },
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

function view(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
