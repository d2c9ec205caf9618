/** IPv4 addresses of links. */
import { type AddressAttrs, formatAddress, formatAddressAttrs, parseAddressMessage } from "netlink/dist/rt/structs.js";
import type { AttrStream, NetlinkMessage, StreamData } from "netlink/dist/structs.js";
import { fromBytes, toBytes } from "./ipv4.ts";

export interface Address {
  readonly linkIndex: number;
  readonly address: string;
  readonly prefixLength: number;
  /** The other end of a point-to-point link, where the address was given with one: the prefix is that one's then. */
  readonly peer?: string;
  /** RT_SCOPE_*: 0 global, 253 link, 254 host. */
  readonly scope: number;
}

/** AF_INET */
export const ipv4Family = 2;

export const globalScope = 0;

/** @returns `undefined` for an address of another family */
export function parseAddress(message: NetlinkMessage): Address | undefined {
  const { data, attrs } = parseAddressMessage(message.data);
  // On a point-to-point link IFA_ADDRESS is the other end; IFA_LOCAL is always our own.
  const local = attrs.local ?? attrs.address;
  if (data.family !== ipv4Family || local === undefined) {
    return undefined;
  }
  const address = fromBytes(local);
  const peer = fromBytes(attrs.address ?? local);
  return {
    linkIndex: data.index ?? 0,
    address,
    prefixLength: data.prefixlen ?? 0,
    ...(peer === address ? {} : { peer }),
    scope: data.scope ?? globalScope,
  };
}

export function addressMessage({ linkIndex, address, prefixLength, peer = address, scope }: Address): StreamData {
  const attrs: AddressAttrs = { local: toBytes(address), address: toBytes(peer) };
  return (out: AttrStream) => {
    out.emit(formatAddress({ family: ipv4Family, index: linkIndex, prefixlen: prefixLength, scope }));
    out.emit(formatAddressAttrs(attrs));
  };
}
