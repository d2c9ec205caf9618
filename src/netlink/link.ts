/** Network links: what rtnetlink(7) says of them, and the messages that make and change them. */
import { formatInfo, formatLinkAttrs, type LinkAttrs, parseInfo } from "netlink/dist/rt/ifla.js";
import { type DeviceFlags, formatLink, LinkType, parseLinkMessage } from "netlink/dist/rt/structs.js";
import { AttrStream, type NetlinkMessage, parseAttributes, type StreamData } from "netlink/dist/structs.js";
import { fromBytes } from "./ipv4.ts";

export interface Link {
  readonly index: number;
  readonly name: string;
  /** The kind of virtual link ("veth", "ipip"); absent for hardware and for lo. */
  readonly kind?: string;
  /** ARPHRD_* of include/uapi/linux/if_arp.h */
  readonly type: number;
  readonly mtu: number;
  /** IFF_UP: administratively up. */
  readonly up: boolean;
  /** Colon-separated, lower case; absent on links without Ethernet header. */
  readonly mac?: string;
  readonly alias?: string;
  readonly masterIndex?: number;
  readonly isLoopback: boolean;
  /** Outer addresses of a tunnel link of kind "ipip"; 0.0.0.0 means any. */
  readonly tunnel?: Tunnel;
}

export interface Tunnel {
  readonly local: string;
  readonly remote: string;
  /** The inner protocol: 4 for "mode ipip", 0 for "mode any". */
  readonly innerProtocol: number;
  /** "external": addresses come with each packet, so that the link takes every packet that tunl0 would get. */
  readonly collectMetadata: boolean;
}

export interface LinkChange {
  readonly name?: string;
  readonly mtu?: number;
  readonly up?: boolean;
  readonly mac?: string;
  readonly alias?: string;
}

export interface VethPair {
  readonly name: string;
  readonly mac: string;
  readonly mtu: number;
  /** The other end is made directly in the namespace behind this descriptor. */
  readonly peer: LinkChange & { readonly name: string; readonly namespaceFd: number };
}

export const arphrdEther: number = LinkType.ETHER;

/** VETH_INFO_PEER of include/uapi/linux/veth.h */
const vethInfoPeer = 1;

/** IFLA_IPTUN_* of include/uapi/linux/if_tunnel.h */
const tunnelAttribute = { local: 2, remote: 3, protocol: 9, collectMetadata: 19 } as const;

export function parseLink(message: NetlinkMessage): Link {
  const { data, attrs } = parseLinkMessage(message.data);
  const info = attrs.linkinfo ? parseInfo(attrs.linkinfo) : {};
  const isEthernet = data.type === arphrdEther || data.type === "ETHER";
  return {
    index: data.index ?? 0,
    name: attrs.ifname ?? "",
    type: typeof data.type === "string" ? LinkType[data.type] : (data.type ?? 0),
    mtu: attrs.mtu ?? 0,
    up: data.flags?.up === true,
    isLoopback: data.flags?.loopback === true,
    ...(info.kind === undefined ? {} : { kind: info.kind }),
    ...(isEthernet && attrs.address ? { mac: formatMac(attrs.address) } : {}),
    ...(attrs.ifalias === undefined ? {} : { alias: attrs.ifalias }),
    ...(attrs.master === undefined ? {} : { masterIndex: attrs.master }),
    ...(info.kind === "ipip" && info.data ? { tunnel: parseTunnel(info.data) } : {}),
  };
}

export function linkChange(index: number, change: LinkChange): StreamData {
  const flags = change.up === undefined ? {} : { flags: upFlag(change.up), change: { up: true } as const };
  return linkMessage({ index, ...flags }, attributes(change));
}

export function vethPair(pair: VethPair): StreamData {
  const peer = linkMessage({}, { ...attributes(pair.peer), netNsFd: pair.peer.namespaceFd });
  const info = flatten(formatInfo({ kind: "veth", data: flatten((out) => out.push(vethInfoPeer, peer)) }));
  return linkMessage({}, { ...attributes(pair), linkinfo: info });
}

/** A link of a kind that needs no more than its name, such as "ipip" (any local, any remote), "dummy" or "bridge". */
export function plainLink(kind: string, change: LinkChange): StreamData {
  return linkMessage({}, { ...attributes(change), linkinfo: flatten(formatInfo({ kind })) });
}

function parseTunnel(data: Buffer): Tunnel {
  const values = new Map<number, Buffer>();
  parseAttributes(data, (attribute) => values.set(attribute.type, attribute.data));
  const any = Buffer.alloc(4);
  return {
    local: fromBytes(values.get(tunnelAttribute.local) ?? any),
    remote: fromBytes(values.get(tunnelAttribute.remote) ?? any),
    innerProtocol: values.get(tunnelAttribute.protocol)?.readUInt8(0) ?? 0,
    collectMetadata: values.has(tunnelAttribute.collectMetadata),
  };
}

function attributes({ name, mtu, mac, alias }: LinkChange): LinkAttrs {
  return {
    ...(name === undefined ? {} : { ifname: name }),
    ...(mtu === undefined ? {} : { mtu }),
    ...(mac === undefined ? {} : { address: Buffer.from(mac.replaceAll(":", ""), "hex") }),
    ...(alias === undefined ? {} : { ifalias: alias }),
  };
}

function linkMessage(header: Parameters<typeof formatLink>[0], attrs: LinkAttrs): StreamData {
  return (out: AttrStream) => {
    out.emit(formatLink(header));
    out.emit(formatLinkAttrs(attrs));
  };
}

function upFlag(up: boolean): DeviceFlags {
  return up ? { up: true } : {};
}

function flatten(data: StreamData): Buffer {
  const stream = new AttrStream();
  stream.emit(data);
  return Buffer.concat(stream.bufs);
}

export function formatMac(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(":");
}
