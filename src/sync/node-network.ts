/** This node's part of the overlay: guard, tunl0 and routes, made to follow cluster and kernel. */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import type { Logger } from "pino";
import { isPodLink } from "../guard/links.ts";
import { ensureSysctl } from "../linux/sysctl.ts";
import type { Address } from "../netlink/address.ts";
import type { Link } from "../netlink/link.ts";
import type { NetlinkEvent } from "../netlink/monitor.ts";
import type { Netlink } from "../netlink/netlink.ts";
import { describeRoute, type Route } from "../netlink/route.ts";
import { type NodeState, nodeStatePath, readNodeState, writeNodeState } from "../node-state.ts";
import { findTunnelDevice, keepIpipDeviceInSync } from "../tunnel/device.ts";
import { syncRoutes } from "../tunnel/route-table.ts";
import { isBlockRoute, needsUplink, wantedRoutes } from "../tunnel/routes.ts";
import { allowAsymmetricPaths } from "../tunnel/uplink.ts";
import type { ClusterView } from "./cluster-view.ts";
import type { Conditions } from "./conditions.ts";
import type { SyncConfig } from "./config.ts";
import type { GuardKeeper } from "./guard-keeper.ts";
import { type OwnNode, ownNode, tunnelMtu, uplinkOf } from "./own-node.ts";
import type { Workloads } from "./workloads.ts";

export class NodeNetwork {
  readonly #config: Pick<SyncConfig, "nodeName" | "runDir">;
  readonly #netlink: Netlink;
  readonly #guard: GuardKeeper;
  readonly #workloads: Workloads;
  readonly #conditions: Conditions;
  readonly #log: Logger;
  /** Kept when the datastore forgets this node: its pods still run. */
  #own: OwnNode | undefined;
  #tunnelIndex = 0;
  #wantedRoutes: ReadonlyMap<string, Route> = new Map();

  constructor(options: {
    readonly config: Pick<SyncConfig, "nodeName" | "runDir">;
    readonly netlink: Netlink;
    readonly guard: GuardKeeper;
    readonly workloads: Workloads;
    readonly conditions: Conditions;
    readonly log: Logger;
  }) {
    this.#config = options.config;
    this.#netlink = options.netlink;
    this.#guard = options.guard;
    this.#workloads = options.workloads;
    this.#conditions = options.conditions;
    this.#log = options.log;
  }

  /** Before the first snapshot of the datastore nothing is changed but a missing guard in front of a working tunnel. */
  async watchBeforeSnapshot(): Promise<void> {
    const links = await this.#netlink.links();
    const tunnelIsUp = findTunnelDevice(links)?.up === true;
    await this.#conditions.attempt("guard", () => this.#guard.watchBeforeSnapshot(links, tunnelIsUp));
  }

  /** Whether the event can have undone something. Pods come and go all day: their links and routes are the plugin's. */
  matters(event: NetlinkEvent): boolean {
    switch (event.kind) {
      case "link":
        return !isPodLink(event.link);
      case "route": {
        const wanted = this.#wantedRoutes.get(event.route.destination);
        const isAsWanted = !event.removed && isDeepStrictEqual(event.route, wanted);
        return !isAsWanted && (wanted !== undefined || isBlockRoute(event.route));
      }
      default:
        return true;
    }
  }

  /**
   * The order is the gate: members and guard are in force before tunl0 comes up and decapsulates, routes follow it, and
   * the plugin hears last.
   */
  async completeDeferredWork(cluster: ClusterView): Promise<void> {
    const links = await this.#netlink.links();
    const addresses = await this.#netlink.addresses();
    const isGuarded = await this.#conditions.attempt("guard", () => this.#keepGuard(cluster, links, addresses));
    await this.#conditions.attempt("workload-guard", () => this.#workloads.keepGuarded(links));
    const isKnown = this.#refreshOwnNode(cluster);
    if (!this.#own) {
      return;
    }
    if (!isGuarded && findTunnelDevice(links)?.up !== true) {
      throw new Error("Cannot bring the tunnel up: the guard in front of it is not in place");
    }
    if (ensureSysctl("ipv4/ip_forward", 1)) {
      this.#log.info("ip_forward switched on");
    }
    const uplink = uplinkOf(this.#own, links, addresses);
    const mtu = tunnelMtu(uplink);
    await this.#keepTunnel(this.#own, mtu, { links, addresses });
    await this.#keepRoutes(this.#own, cluster, { mtu, uplink });
    await this.#publish(isKnown ? nodeStateOf(this.#own, mtu) : undefined);
    if (!isGuarded) {
      throw new Error("Cannot finish: the guard is not in place");
    }
  }

  async #keepGuard(cluster: ClusterView, links: readonly Link[], addresses: readonly Address[]): Promise<void> {
    const change = await this.#guard.keepInSync(cluster.hostNets(this.#config.nodeName), links, addresses);
    if (change.added + change.removed > 0) {
      this.#log.info(change, "host-net set changed");
    }
  }

  #refreshOwnNode(cluster: ClusterView): boolean {
    const { nodeName } = this.#config;
    const known = ownNode(nodeName, cluster.nodes, cluster.blocks.values());
    this.#own = known ?? this.#own;
    const object = `node/${nodeName}`;
    if (!known) {
      this.#conditions.set(
        object,
        `Cannot serve this node: the datastore has no document of node "${nodeName}", add it`,
      );
    } else if (known.tunnelAddress === undefined) {
      this.#conditions.set(object, `Cannot give addresses to pods: node "${nodeName}" has no block, add one`);
    } else {
      this.#conditions.set(object, undefined);
    }
    return known !== undefined;
  }

  async #keepTunnel(own: OwnNode, mtu: number, actual: Parameters<typeof keepIpipDeviceInSync>[2]): Promise<void> {
    const wanted = { mtu, address: own.tunnelAddress };
    const { index, changes } = await keepIpipDeviceInSync(this.#netlink, wanted, actual);
    this.#tunnelIndex = index;
    if (changes.length > 0) {
      this.#log.info({ changes }, "tunl0 changed");
    }
  }

  async #keepRoutes(
    own: OwnNode,
    cluster: ClusterView,
    { mtu, uplink }: { readonly mtu: number; readonly uplink: Link },
  ): Promise<void> {
    if (needsUplink(cluster.pools.values()) && allowAsymmetricPaths(uplink.name)) {
      this.#log.info({ link: uplink.name }, "rp_filter of the uplink -> 2");
    }
    this.#wantedRoutes = wantedRoutes({
      ownNode: own.node,
      nodes: cluster.nodes,
      pools: cluster.pools,
      // A node that the datastore forgot keeps its own blocks: their pods still run.
      blocks: new Set([...own.blocks, ...cluster.blocks.values()]),
      tunnel: { index: this.#tunnelIndex, mtu },
      uplink,
    });
    const { set, removed } = await syncRoutes(this.#netlink, this.#wantedRoutes);
    if (set.length + removed.length > 0) {
      this.#log.info({ set: set.map(describeRoute), removed: removed.map(describeRoute) }, "routes changed");
    }
  }

  /** @param state undefined while no pod may be added */
  async #publish(state: NodeState | undefined): Promise<void> {
    const { runDir } = this.#config;
    const path = nodeStatePath(runDir);
    const published = await readNodeState(runDir).catch(() => undefined); // damaged: as good as missing
    if (state && !isDeepStrictEqual(state, published)) {
      await writeNodeState(runDir, state);
      this.#log.info(state, "ready for pods");
    }
    if (!state && existsSync(path)) {
      await rm(path);
      this.#log.info("not ready for pods");
    }
  }
}

function nodeStateOf({ node, blocks, tunnelAddress }: OwnNode, mtu: number): NodeState | undefined {
  return tunnelAddress === undefined
    ? undefined
    : { version: 1, nodeName: node.name, mtu, tunnelAddress, blocks: blocks.map(({ cidr }) => cidr) };
}
