/** The host-net set: who may send this node IPIP packets, in the two maps that the guard looks them up in. */
import type { BpfMap } from "libbpf-ts";
import { decodeAddress, decodeCidr, encodeAddress, encodeCidr } from "../guard/layout.ts";
import { MapSet } from "../guard/map-set.ts";
import type { HostNets } from "./members.ts";

export interface HostNetChange {
  readonly added: number;
  readonly removed: number;
}

export class HostNetSet {
  readonly #hosts: MapSet<string>;
  readonly #cidrs: MapSet<string>;

  /** @param maps `members_exact` and `members_cidr` of bpf/host_net_guard_maps.h; the set is their only writer */
  constructor(maps: { readonly exact: BpfMap; readonly cidr: BpfMap }) {
    this.#hosts = new MapSet(maps.exact, encodeAddress, "single addresses of nodes");
    this.#cidrs = new MapSet(maps.cidr, encodeCidr, "CIDRs of nodes");
  }

  /** What the maps really hold. */
  list(): HostNets {
    return {
      hosts: this.#hosts.keys().map(decodeAddress).sort(),
      cidrs: this.#cidrs.keys().map(decodeCidr).sort(),
    };
  }

  /**
   * Makes the members exactly these. All additions come before the first removal, in both maps: a node that moves from
   * a CIDR to an address of its own is never in neither. The first call compares with what the maps really hold.
   *
   * @throws RangeError naming the limit, before anything is changed, when they cannot be held
   */
  replace(members: HostNets): HostNetChange {
    const plans = [this.#hosts.plan(members.hosts), this.#cidrs.plan(members.cidrs)];
    for (const plan of plans) {
      plan.add();
    }
    for (const plan of plans) {
      plan.remove();
    }
    return {
      added: plans.reduce((sum, { added }) => sum + added, 0),
      removed: plans.reduce((sum, { removed }) => sum + removed, 0),
    };
  }
}
