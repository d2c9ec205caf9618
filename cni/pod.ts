/** The container's side: its network namespace and the interface in it. */
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { NetworkNamespace, namespaceId } from "../src/linux/namespace.ts";
import type { Link } from "../src/netlink/link.ts";
import type { Netlink } from "../src/netlink/netlink.ts";
import { mainTable, type Route } from "../src/netlink/route.ts";
import type { Host } from "./host.ts";

/** Every pod's next hop. Nobody has the address: the host answers for it on each link. */
export const gateway = "169.254.1.1";

const gatewayRoute = `${gateway}/32`;

export const defaultRoute = "0.0.0.0/0";

/** RTPROT_BOOT: the protocol that ip(8) gives to a route added by hand. */
const bootProtocol = 3;

/** The kernel prefers the lower metric: the first interface of a pod is its way out, also when others come and go. */
const metricStep = 100;
const lastMetric = 2 ** 32 - 1;

export interface PodInterface {
  readonly addresses: readonly string[];
  /** Destinations that lead to the host: CIDRs. */
  readonly routes: readonly string[];
  readonly gatewayMac: string;
}

export class Pod {
  readonly namespace: NetworkNamespace;
  readonly netlink: Netlink;
  readonly #step: Host["step"];

  /** @throws CniError with `InvalidEnvironment` when the path is not a network namespace, or is the host's own */
  static async open(path: string, { openNetlink, step }: Host): Promise<Pod> {
    let namespace: NetworkNamespace;
    try {
      namespace = await NetworkNamespace.open(path);
    } catch (error) {
      throw notANamespace(path, error);
    }
    try {
      if ((await namespace.id()) === (await namespaceId("/proc/self/ns/net"))) {
        throw notANamespace(path, "it is the host's own");
      }
      return new Pod(namespace, namespace.enter(openNetlink), step);
    } catch (error) {
      await namespace.close();
      throw error instanceof CniError ? error : notANamespace(path, error);
    }
  }

  private constructor(namespace: NetworkNamespace, netlink: Netlink, step: Host["step"]) {
    this.namespace = namespace;
    this.netlink = netlink;
    this.#step = step;
  }

  async close(): Promise<void> {
    this.netlink.close();
    await this.namespace.close();
  }

  /** @throws CniError with `InvalidEnvironment` when the namespace has an interface of the name */
  async requireFreeName(interfaceName: string): Promise<void> {
    if (await this.netlink.linkByName(interfaceName)) {
      throw new CniError(
        CniCode.InvalidEnvironment,
        `Cannot use CNI_IFNAME: "${interfaceName}" exists in "${this.namespace.path}", allowed is a name that is free there`,
      );
    }
  }

  /** @throws an error when the namespace has no interface of the name */
  async link(interfaceName: string): Promise<Link & { readonly mac: string }> {
    const link = await this.netlink.linkByName(interfaceName);
    if (link?.mac === undefined) {
      throw new Error(`Cannot configure "${interfaceName}": it is gone from "${this.namespace.path}"`);
    }
    return { ...link, mac: link.mac };
  }

  /** The metric of a new interface's routes: 0 for the first, behind those of the others for each that follows. */
  async freeMetric(destinations: readonly string[]): Promise<number> {
    const wanted = new Set([gatewayRoute, ...destinations]);
    const routes = await this.netlink.routes();
    const metrics = routes
      .filter(({ destination, table }) => table === mainTable && wanted.has(destination))
      .map(({ metric }) => metric);
    const metric = metrics.length === 0 ? 0 : (Math.floor(Math.max(...metrics) / metricStep) + 1) * metricStep;
    if (metric > lastMetric) {
      throw new CniError(
        CniCode.Conflict,
        `Cannot add routes in "${this.namespace.path}": one there has the metric ${Math.max(...metrics)}, allowed are lower ones`,
      );
    }
    return metric;
  }

  /** Brings the interface up with its addresses and the ways out. Everything the pod sends there goes to the host. */
  async configure(linkIndex: number, { addresses, routes, gatewayMac }: PodInterface, metric: number): Promise<void> {
    const step = this.#step;
    await step("bring the pod's link up", () => this.netlink.setLink(linkIndex, { up: true }));
    for (const route of podRoutes(routes, linkIndex, metric)) {
      await step(`add the pod's route to ${route.destination}`, () => this.netlink.addRoute(route));
    }
    for (const address of addresses) {
      await step(`add the pod's address ${address}`, () => this.netlink.addAddress(linkIndex, address, 32));
    }
    // Proxy ARP does not answer on a node that has no default route itself, so the pod never has to ask.
    const neighbour = { linkIndex, address: gateway, mac: gatewayMac };
    await step("add the pod's neighbour", () => this.netlink.setNeighbour(neighbour));
  }
}

/** The routes of a pod's interface, in the order in which the kernel takes them. */
export function podRoutes(destinations: readonly string[], linkIndex: number, metric: number): Route[] {
  const common = {
    type: "unicast",
    protocol: bootProtocol,
    table: mainTable,
    onlink: false,
    linkIndex,
    metric,
  } as const;
  return [
    { ...common, destination: gatewayRoute, scope: "link" },
    ...destinations.map((destination) => ({ ...common, destination, scope: "universe", gateway }) as const),
  ];
}

function notANamespace(path: string, reason: unknown): CniError {
  const why = reason instanceof Error ? reason.message : reason;
  return new CniError(
    CniCode.InvalidEnvironment,
    `Cannot use CNI_NETNS: "${path}" (${why}), allowed is the path of the container's network namespace`,
    { cause: reason },
  );
}
