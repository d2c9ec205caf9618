/** Permanent IPv4 neighbour entries. */
import { formatNeighbor, formatNeighborAttrs, parseNeighborMessage } from "netlink/dist/rt/structs.js";
import type { AttrStream, NetlinkMessage, StreamData } from "netlink/dist/structs.js";
import { ipv4Family } from "./address.ts";
import { fromBytes, toBytes } from "./ipv4.ts";
import { formatMac } from "./link.ts";

export interface Neighbour {
  readonly linkIndex: number;
  readonly address: string;
  readonly mac: string;
}

/** @returns `undefined` for an entry that is not permanent, or not of IPv4 */
export function parsePermanentNeighbour({ data: bytes }: NetlinkMessage): Neighbour | undefined {
  const { data, attrs } = parseNeighborMessage(bytes);
  const isPermanent = data.state?.permanent === true;
  if (!isPermanent || attrs.dst?.length !== 4 || attrs.lladdr === undefined) {
    return undefined;
  }
  return { linkIndex: data.ifindex ?? 0, address: fromBytes(attrs.dst), mac: formatMac(attrs.lladdr) };
}

export function permanentNeighbour({ linkIndex, address, mac }: Neighbour): StreamData {
  return (out: AttrStream) => {
    out.emit(formatNeighbor({ family: ipv4Family, ifindex: linkIndex, state: { permanent: true } }));
    out.emit(formatNeighborAttrs({ dst: toBytes(address), lladdr: Buffer.from(mac.replaceAll(":", ""), "hex") }));
  };
}
