/** Keeps the host-net guard on every link that needs it, and its maps in step with cluster and kernel. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { BpfError } from "libbpf-ts";
import { assetPath } from "../assets.ts";
import { type GuardHow, HostNetGuard } from "../guard/guard.ts";
import { AttachmentRefused } from "../guard/hook.ts";
import type { TunnelPair } from "../guard/layout.ts";
import { shouldGuard } from "../guard/links.ts";
import { HostNetSet } from "../ipset/host-net-set.ts";
import type { HostNets } from "../ipset/members.ts";
import { ensureBpffs } from "../linux/bpffs.ts";
import type { Address } from "../netlink/address.ts";
import type { Link } from "../netlink/link.ts";
import type { Conditions } from "./conditions.ts";

/** The last part carries the version of the maps' shape. */
const pinPath = "bpf/host-net-guard/v1";

export class GuardKeeper {
  readonly #guard: HostNetGuard;
  readonly #set: HostNetSet;
  readonly #how: GuardHow;
  readonly #conditions: Conditions;
  /** Conditions of links that could not be guarded as asked for. */
  readonly #refused = new Set<string>();

  static async open(options: {
    readonly runDir: string;
    readonly how: GuardHow;
    readonly conditions: Conditions;
  }): Promise<GuardKeeper> {
    await ensureBpffs(join(options.runDir, "bpf"));
    const image = await readFile(assetPath("bpf/host_net_guard.bpf.o"));
    const guard = HostNetGuard.open({ pinDirectory: join(options.runDir, pinPath), image });
    return new GuardKeeper(guard, options.how, options.conditions);
  }

  private constructor(guard: HostNetGuard, how: GuardHow, conditions: Conditions) {
    this.#guard = guard;
    this.#set = new HostNetSet(guard.members);
    this.#how = how;
    this.#conditions = conditions;
  }

  /**
   * Before the first snapshot: with a tunnel that already works and no guard yet (an upgrade, a migration) packets are
   * counted, not dropped. A guard that an earlier sync left behind goes on as it is.
   */
  watchBeforeSnapshot(links: readonly Link[], tunnelIsUp: boolean): void {
    if (this.#guard.attachments().size > 0 || !tunnelIsUp) {
      return;
    }
    this.#guard.setMode("observe");
    this.#attachAll(links);
  }

  /** Members first, then the links, then enforcement: from here on a stranger's packet is refused. */
  keepInSync(
    members: HostNets,
    links: readonly Link[],
    addresses: readonly Address[],
  ): { added: number; removed: number } {
    this.#guard.setOtherTunnels(links.filter(isOtherTunnel).map(toPair));
    this.#guard.setLocals(addresses.map(({ address }) => address));
    const change = this.#set.replace(members);
    this.#attachAll(links);
    if (this.#guard.mode() !== "enforce") {
      this.#guard.setMode("enforce");
    }
    return change;
  }

  /** Gives up this process's descriptors; the guard goes on. */
  close(): void {
    this.#guard.close();
  }

  /**
   * Each link for itself: one that cannot be guarded must not keep the guard from the others.
   *
   * @throws an error that names the links which are not guarded
   */
  #attachAll(links: readonly Link[]): void {
    const attached = this.#guard.attachments();
    const unguarded: string[] = [];
    for (const link of links) {
      if (shouldGuard(link, links)) {
        if (!this.#attach(link)) {
          unguarded.push(link.name);
        }
      } else if (attached.has(link.index)) {
        this.#guard.detach(link);
      }
    }
    this.#forgetLinksBut(links);
    if (unguarded.length > 0) {
      throw new Error(`Cannot guard every link: "${unguarded.join('", "')}" failed, each has a condition of its own`);
    }
  }

  /** @returns whether the link is guarded; where only XDP was refused it is, by tc */
  #attach(link: Link): boolean {
    const object = conditionObject(link);
    try {
      this.#guard.attach(link, this.#how);
      this.#conditions.set(object, undefined);
      return true;
    } catch (error) {
      const isGone = error instanceof BpfError && error.code === "ENODEV";
      if (!isGone) {
        this.#conditions.set(object, (error as Error).message);
        this.#refused.add(object);
      }
      return isGone || (error instanceof AttachmentRefused && error.hook.startsWith("xdp"));
    }
  }

  #forgetLinksBut(links: readonly Link[]): void {
    const present = new Set(links.map(conditionObject));
    for (const object of [...this.#refused].filter((each) => !present.has(each))) {
      this.#conditions.set(object, undefined);
      this.#refused.delete(object);
    }
  }
}

function conditionObject({ name }: Link): string {
  return `guard/${name}`;
}

/** The owner's own IPIP tunnels: the kernel hands them the packets of exactly their pair, as long as they are up. */
function isOtherTunnel({ tunnel, up }: Link): boolean {
  const isAny = (address: string) => address === "0.0.0.0";
  const carriesIpv4 = tunnel?.innerProtocol === 4 || tunnel?.innerProtocol === 0;
  return (
    tunnel !== undefined &&
    up &&
    carriesIpv4 &&
    !tunnel.collectMetadata &&
    !isAny(tunnel.local) &&
    !isAny(tunnel.remote)
  );
}

function toPair({ tunnel }: Link): TunnelPair {
  return { local: tunnel?.local ?? "", remote: tunnel?.remote ?? "" };
}
