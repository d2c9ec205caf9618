/** Leases and pods of this node, kept equal: a pod that lives has its lease, and a lease without container is taken back. */
import { join } from "node:path";
import type { Logger } from "pino";
import { tryLockContainer } from "../../cni/container-lock.ts";
import { del } from "../../cni/del.ts";
import { closeHost, openHost } from "../../cni/host.ts";
import { hostLinksOf } from "../../cni/host-link.ts";
import { poolIpam } from "../../cni/ipam.ts";
import { readText, writeAtomically } from "../atomic-file.ts";
import { containsAddress, parseAddress, parseCidr } from "../cidr.ts";
import { LeakedLeases } from "../ipam/leaked-leases.ts";
import {
  describeOwner,
  isSameOwner,
  type Lease,
  type LeaseOwner,
  type LeaseStore,
  type LivePod,
  ownerFileName,
  tunnelOwner,
} from "../ipam/lease-store.ts";
import { bootId } from "../linux/moment.ts";
import type { Netlink } from "../netlink/netlink.ts";
import { hasContainer } from "../workload/endpoint.ts";
import { EndpointStore } from "../workload/endpoint-store.ts";
import type { Conditions } from "./conditions.ts";
import type { SyncConfig } from "./config.ts";
import { isAmong, type LivePods, livePods } from "./live-pods.ts";

export interface NodeLeasesOptions {
  readonly config: Pick<SyncConfig, "runDir" | "stateDir">;
  readonly store: LeaseStore;
  readonly netlink: Netlink;
  readonly conditions: Pick<Conditions, "attempt">;
  readonly log: Logger;
}

/** What leaks is taken back after two looks. */
const pauseMs = 30_000;

export class NodeLeases {
  readonly #runDir: string;
  readonly #stateDir: string;
  readonly #store: LeaseStore;
  readonly #netlink: Netlink;
  readonly #conditions: Pick<Conditions, "attempt">;
  readonly #log: Logger;
  readonly #endpoints: EndpointStore;
  readonly #leaked = new LeakedLeases();
  /** Pods whose leases were seen: read once. */
  #seen: ReadonlySet<string> = new Set();
  #nextLookMs = Number.NEGATIVE_INFINITY;

  constructor({ config, store, netlink, conditions, log }: NodeLeasesOptions) {
    this.#runDir = config.runDir;
    this.#stateDir = config.stateDir;
    this.#store = store;
    this.#netlink = netlink;
    this.#conditions = conditions;
    this.#log = log;
    this.#endpoints = new EndpointStore(config.runDir);
  }

  /** Everyone with an address, whatever the disk says. */
  async livePods(): Promise<LivePod[]> {
    const { pods } = await livePods(this.#netlink);
    return Promise.all(pods.map((pod) => this.#named(pod)));
  }

  /**
   * At the start: nothing of a former boot can be alive, so that what has neither link nor container now is taken back at
   * once, however much it is. Where nothing tells of a former boot, no boot is known to have passed.
   */
  async endFormerBoot(): Promise<void> {
    const path = join(this.#stateDir, "boot-id");
    const [former, current] = [(await readText(path))?.trim(), bootId()];
    if (former === current) {
      return;
    }
    if (former !== undefined) {
      await this.#takeBack((await this.#suspects()).suspects);
    }
    await writeAtomically(path, `${current}\n`);
  }

  /**
   * As often as anybody asks, but one look in 30 seconds at most.
   *
   * @param nowMs of a clock that is never set
   * @returns milliseconds until it wants to be asked again, Infinity when the next full comparison is early enough
   */
  async lookAfter(nowMs: number): Promise<number> {
    if (nowMs < this.#nextLookMs) {
      return this.#nextLookMs - nowMs;
    }
    this.#nextLookMs = nowMs + pauseMs;
    await this.#conditions.attempt("leases/pods", () => this.#adoptLost());
    let waitMs = Number.POSITIVE_INFINITY;
    await this.#conditions.attempt("leases/leaks", async () => {
      const look = await this.#suspects();
      waitMs = look.suspects.length === 0 ? waitMs : pauseMs;
      await this.#takeBack(this.#leaked.confirm(look));
    });
    return waitMs;
  }

  /** @throws an error that names the pods whose addresses others have */
  async #adoptLost(): Promise<void> {
    const { pods } = await livePods(this.#netlink);
    const seen = new Set<string>();
    const problems: string[] = [];
    for (const block of await this.#store.blocks()) {
      const cidr = parseCidr(block);
      const taken = (await this.#store.taken(block)) ?? new Set();
      for (const pod of pods.filter(({ address }) => containsAddress(cidr, parseAddress(address)))) {
        const isSeen = this.#seen.has(keyOf(pod)) && taken.has(pod.address);
        const lease = isSeen || (await this.#leaseFor(pod, block));
        if (lease === true || (lease && isOf(pod, lease))) {
          seen.add(keyOf(pod));
        } else if (lease) {
          problems.push(describeConflict(pod, lease));
        }
      }
    }
    this.#seen = seen;
    if (problems.length > 0) {
      throw new Error(problems.join("; "));
    }
  }

  /** @returns undefined when that is not known now: a call for the pod is at work, or has ended meanwhile */
  async #leaseFor(pod: LivePod, block: string): Promise<Lease | undefined> {
    const present = await this.#store.leaseAt(pod.address);
    if (typeof present === "object" && isOf(pod, present)) {
      return present;
    }
    return this.#unlessAtWork(pod.owner, async () => {
      if (!isAmong(pod, await livePods(this.#netlink))) {
        return undefined;
      }
      const lease = await this.#store.adopt(await this.#named(pod), block, new Date());
      if (lease && isOf(pod, lease)) {
        this.#log.info(pod, "the lease of a pod was lost, it has it again");
      }
      return lease;
    });
  }

  /** The link tells no more than the key. */
  async #named({ owner, address }: LivePod): Promise<LivePod> {
    return { owner: (await this.#endpoints.read(owner))?.owner ?? owner, address };
  }

  /** Reads files of those alone who have no link. */
  async #suspects(): Promise<{ suspects: LeaseOwner[]; leases: number }> {
    const { owners } = await livePods(this.#netlink);
    const others = await this.#store.owners([...owners, tunnelOwner]);
    if (others.length === 0) {
      return { suspects: [], leases: owners.length };
    }
    const live = await livePods(this.#netlink); // again: an ADD may have made its link after the first list
    const suspects: LeaseOwner[] = [];
    for (const owner of others) {
      const isSuspect = await this.#unlessAtWork(owner, () => this.#isGone(owner, live));
      suspects.push(...(isSuspect ? [owner] : []));
    }
    return { suspects, leases: owners.length + others.length };
  }

  /** No link, no container, and its address leads to no pod. */
  async #isGone(owner: LeaseOwner, { links, addresses }: LivePods): Promise<boolean> {
    const endpoint = await this.#endpoints.read(owner);
    const lease = await this.#store.leaseOf(owner);
    const isReached = lease !== undefined && addresses.has(lease.address);
    const hasLink = hostLinksOf(owner, endpoint, links).length > 0;
    return !isReached && !hasLink && !(endpoint && (await hasContainer(endpoint)));
  }

  async #takeBack(leaked: readonly LeaseOwner[]): Promise<void> {
    if (leaked.length === 0) {
      return;
    }
    const host = openHost({ runDir: this.#runDir, stateDir: this.#stateDir }, this.#log);
    try {
      for (const owner of leaked) {
        await this.#unlessAtWork(owner, async () => {
          if (await this.#isGone(owner, await livePods(host.netlink))) {
            await del(owner, poolIpam(host.leases), host);
            this.#log.info(owner, "the lease of a container that is gone is taken back");
          }
        });
      }
    } finally {
      closeHost(host);
    }
  }

  /** @returns undefined also when a call for the container is at work */
  async #unlessAtWork<Result>(owner: LeaseOwner, work: () => Promise<Result>): Promise<Result | undefined> {
    const lock = await tryLockContainer(this.#runDir, owner.containerId);
    try {
      return lock && (await work());
    } finally {
      await lock?.release();
    }
  }
}

function isOf({ owner, address }: LivePod, lease: Lease): boolean {
  return lease.address === address && isSameOwner(lease.owner, owner);
}

function keyOf({ owner, address }: LivePod): string {
  return `${ownerFileName(owner)} ${address}`;
}

function describeConflict({ owner, address }: LivePod, lease: Lease): string {
  const problem =
    lease.address === address ? `leased to ${describeOwner(lease.owner)}` : `not its own, which is ${lease.address}`;
  return `Cannot lease ${address} to ${describeOwner(owner)}, which uses it: it is ${problem}, remove one of the pods`;
}
