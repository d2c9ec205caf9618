/** The routes to every block of the cluster, seen from one node. */
import { containsAddress, formatAddress } from "../cidr.ts";
import type { Block, Node, Pool } from "../datastore/documents.ts";
import { cidrOf, endPointOf } from "../datastore/parsed.ts";
import { rangesOf } from "../datastore/pool-ranges.ts";
import { mainTable, ownProtocol, type Route } from "../netlink/route.ts";

export interface RouteInputs {
  readonly ownNode: Node;
  readonly nodes: ReadonlyMap<string, Node>;
  readonly pools: ReadonlyMap<string, Pool>;
  /** Of two with the same CIDR the later one counts. */
  readonly blocks: Iterable<Block>;
  readonly tunnel: { readonly index: number; readonly mtu: number };
  /** The link that carries the node's own address. */
  readonly uplink: { readonly index: number };
}

const common = { protocol: ownProtocol, table: mainTable, metric: 0, scope: "universe" } as const;

/**
 * Own blocks are blackholes: each pod has a longer route, and a packet to an address that no pod has must not leave by the
 * default route and come back. A block of one address has none: it would be the pod's own route.
 *
 * How a block of another node is reached is said by the mode of its pool:
 * - "Always": through the tunnel to the node that holds it, onlink since tunl0 has no subnet.
 * - "CrossSubnet": directly, by the uplink, when both nodes are on one subnet, else through the tunnel.
 * - "Never": directly when both nodes are on one subnet. Otherwise there is no route of ours: the network between the
 *   nodes has to know where blocks are, and gets their packets by the default route.
 *
 * Two nodes are on one subnet when the prefix of each one's address holds the other's, so that both decide alike. An
 * address with prefix length 32 is on a subnet with nobody.
 *
 * No route covers the address of a node: a datastore refuses pools and nodes that would make one.
 *
 * @returns by destination
 */
export function wantedRoutes({ ownNode, nodes, pools, blocks, tunnel, uplink }: RouteInputs): Map<string, Route> {
  const poolRanges = rangesOf(pools);
  const routes = new Map<string, Route>();
  for (const block of blocks) {
    const pool = poolRanges.overlapping(cidrOf(block))?.pool;
    const holder = nodes.get(block.node);
    const route =
      block.node === ownNode.name
        ? ownRoute(block)
        : pool && holder && remoteRoute(block, pool, { ownNode, holder, tunnel, uplink });
    if (route) {
      routes.set(block.cidr, route);
    } else {
      routes.delete(block.cidr);
    }
  }
  return routes;
}

/** Whether packets of one of the pools go through tunl0. */
export function needsTunnel(pools: Iterable<Pool>): boolean {
  return [...pools].some(({ ipipMode }) => ipipMode !== "Never");
}

/** Whether packets of one of the pools go, or come, without the tunnel. */
export function needsUplink(pools: Iterable<Pool>): boolean {
  return [...pools].some(({ ipipMode }) => ipipMode !== "Always");
}

/**
 * Whether sync, and not the CNI plugin, is the one who keeps or removes the route: those to blocks are blackholes or have
 * a gateway, on whatever link it is now, those to pods have none.
 */
export function isBlockRoute(route: Route): boolean {
  const isOurs = route.protocol === ownProtocol && route.table === mainTable;
  return isOurs && (route.type === "blackhole" || (route.type === "unicast" && route.gateway !== undefined));
}

function ownRoute({ cidr }: Block): Route | undefined {
  return cidr.endsWith("/32") ? undefined : { ...common, destination: cidr, type: "blackhole", onlink: false };
}

function remoteRoute(
  { cidr }: Block,
  { ipipMode }: Pool,
  { ownNode, holder, tunnel, uplink }: Pick<RouteInputs, "ownNode" | "tunnel" | "uplink"> & { readonly holder: Node },
): Route | undefined {
  const gateway = formatAddress(endPointOf(holder).address);
  const route = { ...common, destination: cidr, type: "unicast", gateway } as const;
  if (ipipMode !== "Always" && areOnOneSubnet(ownNode, holder)) {
    return { ...route, linkIndex: uplink.index, onlink: false };
  }
  return ipipMode === "Never" ? undefined : { ...route, linkIndex: tunnel.index, onlink: true, mtu: tunnel.mtu };
}

function areOnOneSubnet(one: Node, other: Node): boolean {
  const [first, second] = [endPointOf(one), endPointOf(other)];
  return containsAddress(first.network, second.address) && containsAddress(second.network, first.address);
}
