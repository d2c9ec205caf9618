/** The host-net guard of this node: its programs, where they run, and what they know. */
import { join } from "node:path";
import { type BpfMap, supportsTcx } from "libbpf-ts";
import { arphrdEther, type Link } from "../netlink/link.ts";
import { Attachments } from "./attachments.ts";
import { AttachmentRefused, type HookName } from "./hook.ts";
import {
  type Counter,
  decodeConfig,
  decodeCounter,
  encodeAddress,
  encodeConfig,
  encodeTunnelPair,
  encodeUint32,
  type GuardMode,
  type TunnelPair,
  type VerdictName,
  verdictNumbers,
} from "./layout.ts";
import { MapSet } from "./map-set.ts";
import { closePinned, openPinned, type Pinned, pinFolders, takeOver } from "./pins.ts";

/** Maps of bpf/host_net_guard_maps.h */
const mapNames = ["members_exact", "members_cidr", "locals", "other_tunnels", "guard_config", "verdicts"] as const;

/** Programs of bpf/host_net_guard.bpf.c */
const programNames = ["guard_tc_ethernet", "guard_tc_raw", "guard_xdp"] as const;

export type HostNetPinned = Pinned<(typeof mapNames)[number], (typeof programNames)[number]>;

/** Throws a `BpfError` with ENOENT where the guard is not pinned. */
export function openHostNetPinned(pinDirectory: string): HostNetPinned {
  return openPinned(pinDirectory, mapNames, programNames);
}

/** tc always; XDP on top where asked for, never instead: hardware hides VLAN tags from it, and drivers come and go. */
export type GuardHow = "tc" | "xdp-native" | "xdp-generic";

export interface GuardAttachment {
  readonly tc: "tcx" | "clsact" | undefined;
  readonly xdp: "native" | "generic" | undefined;
}

const xdpHooks = { native: "xdp-native", generic: "xdp-generic" } as const;

const firstEntry = encodeUint32(0);

/**
 * All of it is synchronous, so that it can be used inside `NetworkNamespace.enter`: devices are those of the calling
 * thread's network namespace. One process at a time may have a guard open on one pin directory.
 */
export class HostNetGuard {
  readonly #pinned: HostNetPinned;
  readonly #attachments: Attachments;
  readonly #tcHook: "tcx" | "clsact";
  readonly #locals: MapSet<string>;
  readonly #otherTunnels: MapSet<TunnelPair>;

  /**
   * Takes over what an earlier process left pinned: maps with their content, and where the programs are the same, these
   * too. Programs that are attached go on as they are until `attach` exchanges them: the maps may be new and empty.
   *
   * @param options.pinDirectory on a mounted bpffs; its name carries the version of the maps' shape
   * @param options.images the objects that bpf/host_net_guard.bpf.c and those that share its maps compile to
   * @throws BpfError when the kernel refuses a program, or a pinned map has another shape
   */
  static open(options: { readonly pinDirectory: string; readonly images: readonly Uint8Array[] }): HostNetGuard {
    takeOver(options.pinDirectory, options.images);
    const pinned = openHostNetPinned(options.pinDirectory);
    const attachments = new Attachments(join(options.pinDirectory, pinFolders.links), "guard_tc_");
    return new HostNetGuard(pinned, attachments);
  }

  private constructor(pinned: HostNetPinned, attachments: Attachments) {
    const { locals, other_tunnels } = pinned.maps;
    this.#pinned = pinned;
    this.#attachments = attachments;
    this.#tcHook = supportsTcx() ? "tcx" : "clsact";
    this.#locals = new MapSet(locals, encodeAddress, "local addresses");
    this.#otherTunnels = new MapSet(other_tunnels, encodeTunnelPair, "pairs of other tunnels");
  }

  /** The maps of the host-net set; `HostNetSet` is their only writer. */
  get members(): { readonly exact: BpfMap; readonly cidr: BpfMap } {
    const { members_exact, members_cidr } = this.#pinned.maps;
    return { exact: members_exact, cidr: members_cidr };
  }

  /** "enforce" unless ever set; kept while no process runs. */
  mode(): GuardMode {
    const config = this.#pinned.maps.guard_config.get(firstEntry);
    return config === undefined ? "enforce" : decodeConfig(config);
  }

  setMode(mode: GuardMode): void {
    this.#pinned.maps.guard_config.set(firstEntry, encodeConfig(mode));
  }

  /**
   * Makes the link guarded in exactly this way; changes nothing where it is already. Another version of the guard's
   * programs is exchanged between two packets.
   *
   * @throws AttachmentRefused: when XDP was refused, tc is attached all the same
   * @throws BpfError with ENODEV when the link is gone
   */
  attach(link: Pick<Link, "index" | "name" | "type">, how: GuardHow): void {
    const { guard_tc_ethernet, guard_tc_raw, guard_xdp } = this.#pinned.programs;
    const isEthernet = link.type === arphrdEther;
    this.#attachments.attach(this.#tcHook, link, isEthernet ? guard_tc_ethernet : guard_tc_raw);
    for (const other of Object.values(xdpHooks).filter((hook) => hook !== how)) {
      this.#attachments.detach(other, link.index);
    }
    if (how === "tc") {
      return;
    }
    if (!isEthernet) {
      const detail = "XDP needs packets with an Ethernet header";
      throw new AttachmentRefused(how, link, "not-ethernet", { detail });
    }
    this.#attachments.attach(how, link, guard_xdp);
  }

  /** Content when the link is not guarded, or gone. */
  detach(link: Pick<Link, "index">): void {
    for (const hook of ["tcx", "clsact", ...Object.values(xdpHooks)] as const) {
      this.#attachments.detach(hook, link.index);
    }
  }

  /** What the kernel really has, by ifindex. Cleans up after links that are gone. */
  attachments(): Map<number, GuardAttachment> {
    const found = [...this.#attachments.list()].map(([ifindex, hooks]) => [ifindex, describe(hooks)] as const);
    return new Map(found);
  }

  /** Since the maps were first pinned, over all CPUs. A packet is counted by each hook that it passes. */
  counters(): Record<VerdictName, Counter> {
    const counts = Object.entries(verdictNumbers).map(([name, number]) => {
      const perCpu = this.#pinned.maps.verdicts.getPerCpu(encodeUint32(number)).map(decodeCounter);
      return [name, perCpu.reduce(sum, { packets: 0n, bytes: 0n })] as const;
    });
    return Object.fromEntries(counts) as Record<VerdictName, Counter>;
  }

  /**
   * Addresses that are this node's own, whatever its routes say. @param addresses each once or more, without prefix length
   * @throws RangeError naming the limit, before anything is changed
   */
  setLocals(addresses: readonly string[]): void {
    this.#locals.replace(addresses);
  }

  /**
   * Exact pairs of the owner's other ipip devices: kind ipip, mode ipip or any, and up. A pair of a device that went down
   * must go before anything else is done: its packets reach tunl0 then.
   *
   * @throws RangeError naming the limit, before anything is changed
   */
  setOtherTunnels(pairs: readonly TunnelPair[]): void {
    this.#otherTunnels.replace(pairs);
  }

  /** Gives up this process's descriptors; everything goes on as it is. */
  close(): void {
    closePinned(this.#pinned);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function describe(hooks: readonly HookName[]): GuardAttachment {
  return {
    tc: (["tcx", "clsact"] as const).find((hook) => hooks.includes(hook)),
    xdp: (["native", "generic"] as const).find((mode) => hooks.includes(xdpHooks[mode])),
  };
}

function sum(one: Counter, other: Counter): Counter {
  return { packets: one.packets + other.packets, bytes: one.bytes + other.bytes };
}
