/** IPv4 addresses of links. */
import { type AddressAttrs, formatAddress, formatAddressAttrs, parseAddressMessage } from "netlink/dist/rt/structs.js";
import type { AttrStream, NetlinkMessage, StreamData } from "netlink/dist/structs.js";
import { fromBytes, toBytes } from "./ipv4.ts";

export interface Address {
  readonly linkIndex: number;
  readonly address: string;
  readonly prefixLength: number;
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
  return {
    linkIndex: data.index ?? 0,
    address: fromBytes(local),
    prefixLength: data.prefixlen ?? 0,
    scope: data.scope ?? globalScope,
  };
}

export function addressMessage({ linkIndex, address, prefixLength, scope }: Address): StreamData {
  const bytes = toBytes(address);
  const attrs: AddressAttrs = { local: bytes, address: bytes };
  return (out: AttrStream) => {
    out.emit(formatAddress({ family: ipv4Family, index: linkIndex, prefixlen: prefixLength, scope }));
    out.emit(formatAddressAttrs(attrs));
  };
}
