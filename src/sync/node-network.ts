/** This node's part of the overlay: guard, tunl0 and routes, made to follow cluster and kernel. */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import type { Logger } from "pino";
import type { Node } from "../datastore/documents.ts";
import { isPodLink } from "../guard/links.ts";
import type { HeldBlocks, Holdings } from "../ipam/blocks/held-blocks.ts";
import { servesPods } from "../ipam/blocks/own-blocks.ts";
import { ensureSysctl } from "../linux/sysctl.ts";
import type { Address } from "../netlink/address.ts";
import type { Link } from "../netlink/link.ts";
import type { NetlinkEvent } from "../netlink/monitor.ts";
import type { Netlink } from "../netlink/netlink.ts";
import { describeRoute, type Route } from "../netlink/route.ts";
import { type NodeState, nodeStatePath, readNodeState, writeNodeState } from "../node-state.ts";
import { findTunnelDevice, keepIpipDeviceInSync } from "../tunnel/device.ts";
import { syncRoutes } from "../tunnel/route-table.ts";
import { isBlockRoute, needsTunnel, needsUplink, wantedRoutes } from "../tunnel/routes.ts";
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
  readonly #held: HeldBlocks;
  readonly #conditions: Conditions;
  readonly #log: Logger;
  /** Kept when the datastore forgets this node: its pods still run. */
  #own: OwnNode | undefined;
  #holdings: Holdings | undefined;
  #tunnelIndex = 0;
  #wantedRoutes: ReadonlyMap<string, Route> = new Map();

  constructor(options: {
    readonly config: Pick<SyncConfig, "nodeName" | "runDir">;
    readonly netlink: Netlink;
    readonly guard: GuardKeeper;
    readonly workloads: Workloads;
    readonly held: HeldBlocks;
    readonly conditions: Conditions;
    readonly log: Logger;
  }) {
    this.#config = options.config;
    this.#netlink = options.netlink;
    this.#guard = options.guard;
    this.#workloads = options.workloads;
    this.#held = options.held;
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

  /** Whether the last work was done with exactly this held. */
  isBasedOn(holdings: Holdings): boolean {
    return isDeepStrictEqual(holdings, this.#holdings);
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
    if (isKnown) {
      await this.#conditions.attempt("blocks/held", () => this.#holdBlocks(cluster));
    }
    if (!isGuarded && findTunnelDevice(links)?.up !== true) {
      throw new Error("Cannot bring the tunnel up: the guard in front of it is not in place");
    }
    if (ensureSysctl("ipv4/ip_forward", 1)) {
      this.#log.info("ip_forward switched on");
    }
    const uplink = uplinkOf(this.#own, links, addresses);
    const mtu = tunnelMtu(uplink);
    const isTunnelNeeded = needsTunnel(cluster.pools.values());
    if (isTunnelNeeded) {
      await this.#keepTunnel(mtu, await this.#tunnelAddress(cluster), { links, addresses });
    }
    await this.#keepRoutes(this.#own, cluster, { mtu, uplink });
    // Not before: with a link's last address the kernel removes all routes by it.
    if (!isTunnelNeeded && findTunnelDevice(links)) {
      await this.#keepTunnel(mtu, undefined, { links, addresses });
    }
    await this.#publish(isKnown, this.#own, cluster, mtu);
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
    const known = ownNode(nodeName, cluster);
    this.#own = known ?? this.#own;
    const problem = `Cannot serve this node: the datastore has no document of node "${nodeName}", add it`;
    this.#conditions.set(`node/${nodeName}`, known ? undefined : problem);
    return known !== undefined;
  }

  async #holdBlocks(cluster: ClusterView): Promise<void> {
    this.#holdings = (await this.#held.hold(cluster)) ?? this.#holdings;
  }

  async #keepTunnel(
    mtu: number,
    address: string | undefined,
    actual: Parameters<typeof keepIpipDeviceInSync>[2],
  ): Promise<void> {
    const { index, changes } = await keepIpipDeviceInSync(this.#netlink, { mtu, address }, actual);
    this.#tunnelIndex = index;
    if (changes.length > 0) {
      this.#log.info({ changes }, "tunl0 changed");
    }
  }

  /** As long as it is not known what is held, the tunnel keeps the address that it had under the sync before this one. */
  async #tunnelAddress(cluster: ClusterView): Promise<string | undefined> {
    if (!needsTunnel(cluster.pools.values())) {
      return undefined;
    }
    return this.#holdings ? this.#holdings.tunnelLease?.address : (await this.#published())?.tunnelAddress;
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

  /** What was published stays as long as it is not known what is held. */
  async #publish(isKnown: boolean, { node }: OwnNode, cluster: ClusterView, mtu: number): Promise<void> {
    const { runDir } = this.#config;
    const path = nodeStatePath(runDir);
    const isReady = isKnown && this.#holdings?.blocks.length !== 0;
    if (isReady && this.#holdings) {
      const state = nodeStateOf(node, this.#holdings, cluster, {
        mtu,
        tunnelAddress: await this.#tunnelAddress(cluster),
      });
      if (!isDeepStrictEqual(state, await this.#published())) {
        await writeNodeState(runDir, state);
        this.#log.info(state, "ready for pods");
      }
    }
    if (!isReady && existsSync(path)) {
      await rm(path);
      this.#log.info("not ready for pods");
    }
  }

  /** @returns undefined also when it is damaged */
  #published(): Promise<NodeState | undefined> {
    return readNodeState(this.#config.runDir).catch(() => undefined);
  }
}

function nodeStateOf(
  { name }: Node,
  { blocks, forPods }: Holdings,
  { pools }: ClusterView,
  { mtu, tunnelAddress }: { readonly mtu: number; readonly tunnelAddress: string | undefined },
): NodeState {
  return {
    version: 1,
    nodeName: name,
    mtu,
    ...(tunnelAddress === undefined ? {} : { tunnelAddress }),
    blocks: [...forPods],
    pools: [...pools.values()].map(({ name: poolName, disabled }) => {
      const own = blocks.filter((each) => each.pool.name === poolName && servesPods(each));
      return { name: poolName, disabled, blocks: own.map(({ block }) => block.cidr) };
    }),
    reserved: [...new Set(blocks.flatMap(({ pool }) => pool.reservedCidrs))],
  };
}
