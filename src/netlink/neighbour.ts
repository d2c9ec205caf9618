/** Permanent IPv4 neighbour entries. */
import { formatNeighbor, formatNeighborAttrs } from "netlink/dist/rt/structs.js";
import type { AttrStream, StreamData } from "netlink/dist/structs.js";
import { ipv4Family } from "./address.ts";
import { toBytes } from "./ipv4.ts";

export interface Neighbour {
  readonly linkIndex: number;
  readonly address: string;
  readonly mac: string;
}

export function permanentNeighbour({ linkIndex, address, mac }: Neighbour): StreamData {
  return (out: AttrStream) => {
    out.emit(formatNeighbor({ family: ipv4Family, ifindex: linkIndex, state: { permanent: true } }));
    out.emit(formatNeighborAttrs({ dst: toBytes(address), lladdr: Buffer.from(mac.replaceAll(":", ""), "hex") }));
  };
}
