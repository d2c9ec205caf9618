/** Keeps the host-net guard on every link that needs it, and its maps in step with cluster and kernel. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { BpfError } from "libbpf-ts";
import type { Logger } from "pino";
import type { GuardAttachment, GuardHow, HostNetGuard } from "../guard/guard.ts";
import { AttachmentRefused } from "../guard/hook.ts";
import type { TunnelPair } from "../guard/layout.ts";
import { shouldGuard } from "../guard/links.ts";
import { loadGuards } from "../guard/load.ts";
import { guardPinDirectory, pinFolders } from "../guard/pins.ts";
import { HostNetSet } from "../ipset/host-net-set.ts";
import type { HostNets } from "../ipset/members.ts";
import type { Address } from "../netlink/address.ts";
import type { Link } from "../netlink/link.ts";
import type { Conditions } from "./conditions.ts";

interface GuardKeeperOptions {
  readonly runDir: string;
  readonly how: GuardHow;
  readonly conditions: Conditions;
  readonly log: Logger;
}

export class GuardKeeper {
  readonly #runDir: string;
  readonly #how: GuardHow;
  readonly #conditions: Conditions;
  readonly #log: Logger;
  /** Conditions of links that could not be guarded as asked for. */
  readonly #refused = new Set<string>();
  #guard: HostNetGuard;
  #set: HostNetSet;

  static async open(options: GuardKeeperOptions): Promise<GuardKeeper> {
    const guard = await loadGuards(options.runDir);
    return new GuardKeeper(guard, options);
  }

  private constructor(guard: HostNetGuard, { runDir, how, conditions, log }: GuardKeeperOptions) {
    this.#runDir = runDir;
    this.#how = how;
    this.#conditions = conditions;
    this.#log = log;
    this.#guard = guard;
    this.#set = new HostNetSet(guard.members);
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
  async keepInSync(
    members: HostNets,
    links: readonly Link[],
    addresses: readonly Address[],
  ): Promise<{ added: number; removed: number }> {
    await this.#reopenWhereUnpinned();
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
    const wanted = links.filter((link) => shouldGuard(link, links));
    const before = this.#guard.attachments();
    // First: a link that gets a master hands its frames on to that one, which must be guarded by then.
    const unguarded = wanted.filter((link) => !this.#attach(link)).map(({ name }) => name);
    const wantedIndexes = new Set(wanted.map(({ index }) => index));
    for (const index of before.keys()) {
      // Also of links that moved to another namespace, such as a container's: the kernel lets programs go with them.
      if (!wantedIndexes.has(index)) {
        this.#guard.detach({ index });
      }
    }
    this.#logChanges(before, links);
    this.#forgetLinksBut(links);
    if (unguarded.length > 0) {
      throw new Error(`Cannot guard every link: "${unguarded.join('", "')}" failed, each has a condition of its own`);
    }
  }

  #logChanges(before: ReadonlyMap<number, GuardAttachment>, links: readonly Link[]): void {
    const after = this.#guard.attachments();
    for (const index of new Set([...before.keys(), ...after.keys()])) {
      const attachment = after.get(index);
      if (!isDeepStrictEqual(attachment, before.get(index))) {
        const link = links.find((each) => each.index === index)?.name ?? index;
        this.#log.info({ link, ...attachment }, attachment ? "link is guarded" : "link is not guarded any more");
      }
    }
  }

  /** The pins hold the programs on their links. Where somebody removed or unmounted them, nothing is guarded any more. */
  async #reopenWhereUnpinned(): Promise<void> {
    const { links, podLinks, programs, maps } = pinFolders;
    const folders = [links, podLinks, programs, maps].map((name) => join(guardPinDirectory(this.#runDir), name));
    if (!folders.every((folder) => existsSync(folder))) {
      const before = this.#guard;
      this.#guard = await loadGuards(this.#runDir);
      this.#set = new HostNetSet(this.#guard.members);
      before.close();
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
