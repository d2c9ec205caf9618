/** IPv4 addresses and CIDRs as numbers: a text is parsed once, then compared as a range. */
import { isIPv4, isIPv6 } from "node:net";
import IPCIDR from "ip-cidr";

/** Addresses from `first` to `last`, both included, as unsigned 32-bit numbers (10.0.0.1 is 0x0a000001). */
export interface AddressRange {
  readonly first: number;
  readonly last: number;
}

/** A prefix in CIDR notation (RFC 4632), given by its network address: `first` is the address in `text`. */
export interface Cidr extends AddressRange {
  readonly text: string;
  readonly prefixLength: number;
}

/** An address as a link carries it, "172.31.112.2/20": `network` is the prefix of the link, "172.31.112.0/20". */
export interface LinkAddress {
  readonly text: string;
  readonly address: number;
  readonly network: Cidr;
}

/** Throws a SyntaxError that names the text unless it is an IPv4 address in dotted decimal notation. */
export function parseAddress(text: string): number {
  if (!isIPv4(text)) {
    throw new SyntaxError(
      isIPv6(text)
        ? `Cannot use address: "${text}" is IPv6, only IPv4 is supported`
        : `Cannot use address: "${text}" is not an IPv4 address like "172.31.112.2"`,
    );
  }
  return addressNumber(IPCIDR.createAddress(text).parsedAddress);
}

/** Throws a SyntaxError unless the text is an IPv4 prefix given by its network address. */
export function parseCidr(text: string): Cidr {
  const { address, network } = parseWithPrefixLength(text, "CIDR", "10.100.0.0/16");
  if (address !== network.first) {
    throw new SyntaxError(`Cannot use CIDR: "${text}" has host bits set, its network is "${network.text}"`);
  }
  return network;
}

/** Throws a SyntaxError unless the text is an IPv4 address followed by the prefix length of its link. */
export function parseLinkAddress(text: string): LinkAddress {
  return { text, ...parseWithPrefixLength(text, "address", "172.31.112.2/20") };
}

/** The network that the prefix of an address names, host bits or not. Throws a SyntaxError as `parseLinkAddress` does. */
export function networkOf(text: string): Cidr {
  return parseLinkAddress(text).network;
}

/** Throws a RangeError unless the number is an unsigned 32-bit integer. */
export function formatAddress(address: number): string {
  if (!Number.isInteger(address) || address < 0 || address > 0xffffffff) {
    throw new RangeError(`Cannot write address: ${address} is not an integer from 0 to 4294967295`);
  }
  return [address >>> 24, (address >>> 16) & 255, (address >>> 8) & 255, address & 255].join(".");
}

export function containsAddress(range: AddressRange, address: number): boolean {
  return range.first <= address && address <= range.last;
}

export function containsRange(outer: AddressRange, inner: AddressRange): boolean {
  return outer.first <= inner.first && inner.last <= outer.last;
}

export function overlaps(one: AddressRange, other: AddressRange): boolean {
  return one.first <= other.last && other.first <= one.last;
}

function parseWithPrefixLength(text: string, what: string, example: string): { address: number; network: Cidr } {
  const slash = text.lastIndexOf("/");
  const host = slash === -1 ? text : text.slice(0, slash);
  if (isIPv6(host)) {
    throw new SyntaxError(`Cannot use ${what}: "${text}" is IPv6, only IPv4 is supported`);
  }
  // ip-cidr takes "/08" and IPv4 mapped into IPv6: the first is read as 8 by some and as octal by others.
  if (!isIPv4(host) || !IPCIDR.isValidCIDR(text) || text !== `${host}/${Number(text.slice(slash + 1))}`) {
    throw new SyntaxError(`Cannot use ${what}: "${text}" is not an IPv4 address and a prefix length like "${example}"`);
  }
  // Not new IPCIDR(): its arithmetic on big integers takes 50 µs a prefix, and a cluster has tens of thousands.
  const { parsedAddress, subnetMask: prefixLength } = IPCIDR.createAddress(text);
  const address = addressNumber(parsedAddress);
  const size = 2 ** (32 - prefixLength);
  const first = address - (address % size);
  return {
    address,
    network: { text: `${formatAddress(first)}/${prefixLength}`, first, last: first + size - 1, prefixLength },
  };
}

function addressNumber(bytes: readonly string[]): number {
  // Not shifts: they would make addresses from 128.0.0.0 on negative.
  return bytes.reduce((number, byte) => number * 256 + Number(byte), 0);
}
