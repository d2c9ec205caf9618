/** IPv4 routes. */
import {
  __LENGTH_Route,
  formatRoute,
  formatRouteAttrs,
  parseRouteAttrs,
  type RouteAttrs,
} from "netlink/dist/rt/structs.js";
import { type AttrStream, type NetlinkMessage, putU32, type StreamData } from "netlink/dist/structs.js";
import { ipv4Family } from "./address.ts";
import { fromBytes, toBytes } from "./ipv4.ts";

/** RTN_* of rtnetlink(7); a kind that is not named here keeps its number. */
const types = { unicast: 1, local: 2, broadcast: 3, blackhole: 6 } as const;
/** RT_SCOPE_* of rtnetlink(7) */
const scopes = { universe: 0, link: 253, host: 254 } as const;

export interface Route {
  /** A CIDR; the default route is 0.0.0.0/0. */
  readonly destination: string;
  /** Absent also for a route with several next hops, none of which are told: no route of ours is one. */
  readonly gateway?: string;
  /** Absent for a blackhole, and for a route with several next hops. */
  readonly linkIndex?: number;
  readonly type: keyof typeof types | number;
  readonly scope: keyof typeof scopes | number;
  /** RTPROT_* of rtnetlink(7): 80 marks ours. */
  readonly protocol: number;
  readonly table: number;
  /** RTA_PRIORITY; 0 when the kernel states none. */
  readonly metric: number;
  /** RTNH_F_ONLINK: the gateway is taken to be on the link, without a route to it. */
  readonly onlink: boolean;
  /** RTAX_MTU */
  readonly mtu?: number;
  readonly preferredSource?: string;
}

/** RT_TABLE_MAIN */
export const mainTable = 254;

/** The routing protocol number that marks a route as ours. */
export const ownProtocol = 80;

const onlinkFlag = 4; // RTNH_F_ONLINK
const clonedFlag = 0x200; // RTM_F_CLONED

/** @returns `undefined` for a route of another family, or a cached one */
export function parseRoute({ data }: NetlinkMessage): Route | undefined {
  // struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type: one byte each; then flags, 32 bits
  const [family, destinationLength = 0, , , table = mainTable, protocol = 0, scope = 0, type = 0] = data;
  const flags = data.readUInt32LE(8);
  const attrs = parseRouteAttrs(data.subarray(__LENGTH_Route));
  if (family !== ipv4Family || (flags & clonedFlag) !== 0) {
    return undefined;
  }
  const mtu = attrs.metrics?.mtu?.readUInt32LE(0);
  return {
    destination: `${attrs.dst ? fromBytes(attrs.dst) : "0.0.0.0"}/${destinationLength}`,
    type: nameOf(types, type),
    scope: nameOf(scopes, scope),
    protocol,
    table: attrs.table ?? table,
    metric: attrs.priority ?? 0,
    onlink: (flags & onlinkFlag) !== 0,
    ...(attrs.gateway ? { gateway: fromBytes(attrs.gateway) } : {}),
    ...(attrs.oif === undefined ? {} : { linkIndex: attrs.oif }),
    ...(mtu === undefined ? {} : { mtu }),
    ...(attrs.prefsrc ? { preferredSource: fromBytes(attrs.prefsrc) } : {}),
  };
}

export function routeMessage(route: Route): StreamData {
  const [address = "", length] = route.destination.split("/");
  const attrs: RouteAttrs = {
    dst: toBytes(address),
    table: route.table,
    ...(route.gateway === undefined ? {} : { gateway: toBytes(route.gateway) }),
    ...(route.linkIndex === undefined ? {} : { oif: route.linkIndex }),
    ...(route.metric === 0 ? {} : { priority: route.metric }),
    ...(route.mtu === undefined ? {} : { metrics: { mtu: putU32(route.mtu) } }),
    ...(route.preferredSource === undefined ? {} : { prefsrc: toBytes(route.preferredSource) }),
  };
  return (out: AttrStream) => {
    out.emit(
      formatRoute({
        family: ipv4Family,
        dstLen: Number(length),
        protocol: route.protocol,
        scope: numberOf(scopes, route.scope),
        type: numberOf(types, route.type),
        flags: route.onlink ? { __unknown: onlinkFlag } : {},
      }),
    );
    out.emit(formatRouteAttrs(attrs));
  };
}

/** For people: the way `ip route` would show it, without the link's name. */
export function describeRoute(route: Route): string {
  return [
    ...(typeof route.type === "string" && route.type !== "unicast" ? [route.type] : []),
    route.destination,
    ...(route.gateway === undefined ? [] : [`via ${route.gateway}`]),
  ].join(" ");
}

function nameOf<Name extends string>(names: Readonly<Record<Name, number>>, value: number): Name | number {
  for (const name in names) {
    if (names[name] === value) {
      return name;
    }
  }
  return value;
}

function numberOf<Name extends string>(names: Readonly<Record<Name, number>>, value: Name | number): number {
  return typeof value === "number" ? value : names[value];
}
