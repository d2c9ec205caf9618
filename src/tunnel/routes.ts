/** The routes to every block of the cluster, seen from one node. */
import type { Block, Node } from "../datastore/documents.ts";
import { mainTable, ownProtocol, type Route } from "../netlink/route.ts";

export interface RouteInputs {
  readonly ownNode: string;
  readonly nodes: ReadonlyMap<string, Node>;
  readonly blocks: Iterable<Block>;
  readonly tunnel: { readonly index: number; readonly mtu: number };
}

/**
 * Blocks of other nodes go through the tunnel to the node that holds them, onlink since tunl0 has no subnet. Own blocks
 * are blackholes: each pod has a longer route, and a packet to an address that no pod has must not leave by the default
 * route and come back. A block of one address has none: it would be the pod's own route.
 *
 * @returns by destination
 */
export function wantedRoutes({ ownNode, nodes, blocks, tunnel }: RouteInputs): Map<string, Route> {
  const common = { protocol: ownProtocol, table: mainTable, metric: 0 };
  const routes = new Map<string, Route>();
  for (const { cidr, node } of blocks) {
    const [gateway] = nodes.get(node)?.address.split("/") ?? [];
    if (node === ownNode) {
      if (!cidr.endsWith("/32")) {
        routes.set(cidr, { ...common, destination: cidr, type: "blackhole", scope: "universe", onlink: false });
      }
    } else if (gateway !== undefined) {
      const via = { gateway, linkIndex: tunnel.index, onlink: true, mtu: tunnel.mtu };
      routes.set(cidr, { ...common, destination: cidr, type: "unicast", scope: "universe", ...via });
    }
  }
  return routes;
}

/** Whether sync, and not the CNI plugin with its routes to pods, is the one who keeps or removes the route. */
export function isTunnelRoute(route: Route, tunnelIndex: number): boolean {
  const isOurs = route.protocol === ownProtocol && route.table === mainTable;
  return isOurs && (route.type === "blackhole" || route.linkIndex === tunnelIndex);
}
