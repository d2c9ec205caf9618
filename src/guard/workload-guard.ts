/** The workload guard of this node: what each pod may send, checked where it enters the host. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { BpfError, BpfProgram, supportsTcx } from "libbpf-ts";
import { Attachments } from "./attachments.ts";
import type { Device } from "./hook.ts";
import {
  allowedSourcesLimit,
  type Counter,
  decodePodLink,
  decodeUint32,
  encodeContainerAddress,
  encodePodLink,
  encodeUint32,
  type PodDrop,
  type PodLink,
  podAddressesLimit,
  podDropNumbers,
} from "./layout.ts";
import { closePinned, openPinned, type Pinned, pinFolders } from "./pins.ts";

/** Maps of bpf/workload_guard_maps.h and the program of bpf/workload_guard.bpf.c */
const mapNames = ["pod_links", "container_addresses"] as const;
const programName = "guard_workload";

export interface WorkloadPolicy {
  readonly containerId: string;
  /** IPv4 addresses of the interface, 1 to 8. The container may send from them on each of its interfaces. */
  readonly addresses: readonly string[];
  /** IPv4 CIDRs that this interface may send from besides, at most 16. */
  readonly allowedSources: readonly string[];
  /** Protocol 4, as far as the host-net guard lets it through: never to this node's tunnel. */
  readonly allowIpip: boolean;
  readonly allowIpv6: boolean;
}

const noDrops = Object.fromEntries(
  Object.keys(podDropNumbers).map((reason) => [reason, { packets: 0n, bytes: 0n }]),
) as Record<PodDrop, Counter>;

/** Of a device, a pin and a link whose device is gone. */
const goneCodes: ReadonlySet<string> = new Set(["ENODEV", "ENOENT", "ENOLINK"]);

/**
 * All of it is synchronous. Devices are those of the calling thread's network namespace. Any number of processes may use
 * it at once, each for links of its own.
 */
export class WorkloadGuard {
  readonly #pinned: Pinned<(typeof mapNames)[number], never>;
  readonly #program: BpfProgram | undefined;
  readonly #attachments: Attachments;
  readonly #hook = supportsTcx() ? "tcx" : "clsact";

  /** @returns `undefined` while sync has not pinned the guard in the directory */
  static openPinned(pinDirectory: string): WorkloadGuard | undefined {
    return undefinedWhenMissing(() => new WorkloadGuard(pinDirectory));
  }

  private constructor(pinDirectory: string) {
    this.#pinned = openPinned(pinDirectory, mapNames, []);
    this.#program = undefinedWhenMissing(() =>
      BpfProgram.openPinned(join(pinDirectory, pinFolders.programs, programName)),
    );
    this.#attachments = new Attachments(join(pinDirectory, pinFolders.podLinks), programName);
  }

  /** Whether the program is pinned too. Without it what is known can be taken back, which needs the maps alone. */
  get canProtect(): boolean {
    return this.#program !== undefined;
  }

  /**
   * From here on what the pod sends is checked. Takes the place of what was known of an earlier link of this number, and
   * keeps the counters where it is the same container's.
   *
   * @throws RangeError naming the limit, before anything is changed
   * @throws AttachmentRefused; BpfError with ENODEV when the link is gone
   */
  protect(link: Device, policy: WorkloadPolicy): void {
    requireAtMost(podAddressesLimit, policy.addresses, "addresses of one interface");
    requireAtMost(allowedSourcesLimit, policy.allowedSources, "allowed sources of one interface");
    this.#requireProgram();
    const entry = this.#replacing(link.index, policy);
    const { pod_links, container_addresses } = this.#pinned.maps;
    const index = encodeUint32(link.index);
    // First: it tells which addresses there may be.
    pod_links.set(index, encodePodLink(entry));
    for (const address of entry.addresses) {
      container_addresses.set(encodeContainerAddress(entry.container, address), index);
    }
    this.#attachments.attach(this.#hook, link, this.#requireProgram());
  }

  /** From now on nothing that the pod sends passes. Content when nothing is known of the link. */
  silence(ifindex: number): void {
    const entry = this.#entry(ifindex);
    if (entry) {
      const silent = { ...entry, flags: { ...entry.flags, silent: true } };
      this.#pinned.maps.pod_links.set(encodeUint32(ifindex), encodePodLink(silent));
    }
  }

  /**
   * Nothing remembers the link any more; for one that is gone. On one that is there the pod could send what it likes.
   * Content when nothing is known of it.
   */
  forget(ifindex: number): void {
    const entry = this.#entry(ifindex);
    if (entry) {
      this.#forgetAddresses(ifindex, entry, entry.addresses);
      this.#pinned.maps.pod_links.delete(encodeUint32(ifindex));
    } else {
      this.#forgetStrayAddresses(ifindex);
    }
    // Last: stopped before, the program is there still and passes nothing without the entry.
    this.#attachments.detach(this.#hook, ifindex);
  }

  /** Whether the kernel runs the guard's program on the link. */
  isAttached(ifindex: number): boolean {
    return this.#attachments.isAttached(this.#hook, ifindex);
  }

  /** What is known of the link; the container by its key, see `containerKey`. */
  policyOf(ifindex: number): PodLink | undefined {
    return this.#entry(ifindex);
  }

  /** Packets that the pod sent and that were dropped, since its link was made. */
  drops(ifindex: number): Readonly<Record<PodDrop, Counter>> | undefined {
    return this.#entry(ifindex)?.drops;
  }

  /** Every link that anything is known of, also those that are gone. */
  linkIndexes(): number[] {
    const { pod_links, container_addresses } = this.#pinned.maps;
    const entries = [...pod_links.keys()].map(decodeUint32);
    const holders = [...container_addresses.entries()].map(([, holder]) => decodeUint32(holder));
    return [...new Set([...entries, ...holders, ...this.#attachments.noted()])];
  }

  /** Exchanges the program on links that run another version of it, between two packets. */
  upgrade(): void {
    for (const ifindex of this.#attachments.noted().filter((index) => this.isAttached(index))) {
      this.#exchange(ifindex);
    }
  }

  /** Gives up this process's descriptors; everything goes on as it is. */
  close(): void {
    closePinned(this.#pinned);
    this.#program?.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #requireProgram(): BpfProgram {
    if (this.#program === undefined) {
      throw new Error(`Cannot guard a link: the program "${programName}" is not pinned`);
    }
    return this.#program;
  }

  #entry(ifindex: number): PodLink | undefined {
    const bytes = this.#pinned.maps.pod_links.get(encodeUint32(ifindex));
    return bytes && decodePodLink(bytes);
  }

  /** Content when the link, or its attachment, goes at this moment. */
  #exchange(ifindex: number): void {
    try {
      const device = { index: ifindex, name: String(ifindex) };
      this.#attachments.attach(this.#hook, device, this.#requireProgram());
    } catch (error) {
      if (!(error instanceof BpfError && goneCodes.has(error.code))) {
        throw error;
      }
    }
  }

  #replacing(ifindex: number, policy: WorkloadPolicy): PodLink {
    const container = containerKey(policy.containerId);
    const earlier = this.#entry(ifindex);
    const isSame = earlier !== undefined && Buffer.from(earlier.container).equals(container);
    if (earlier) {
      const kept = isSame ? policy.addresses : [];
      const others = earlier.addresses.filter((address) => !kept.includes(address));
      this.#forgetAddresses(ifindex, earlier, others);
    }
    return {
      container,
      addresses: policy.addresses,
      allowedSources: policy.allowedSources,
      flags: { "allow-ipip": policy.allowIpip, "allow-ipv6": policy.allowIpv6, silent: false },
      drops: isSame ? earlier.drops : noDrops,
    };
  }

  /** Addresses of a link without entry: a map was lost, or taken back by hand. */
  #forgetStrayAddresses(ifindex: number): void {
    const { container_addresses } = this.#pinned.maps;
    const strays = [...container_addresses.entries()].filter(([, holder]) => decodeUint32(holder) === ifindex);
    container_addresses.deleteBatch(strays.map(([key]) => key));
  }

  /** Not those that another link of the same container has taken over. */
  #forgetAddresses(ifindex: number, { container }: PodLink, addresses: readonly string[]): void {
    const { container_addresses } = this.#pinned.maps;
    for (const key of addresses.map((address) => encodeContainerAddress(container, address))) {
      const holder = container_addresses.get(key);
      if (holder && decodeUint32(holder) === ifindex) {
        container_addresses.delete(key);
      }
    }
  }
}

function undefinedWhenMissing<Opened>(open: () => Opened): Opened | undefined {
  try {
    return open();
  } catch (error) {
    if (error instanceof BpfError && error.code === "ENOENT") {
      return undefined;
    }
    throw error;
  }
}

/** How the guard's maps name a container: 8 bytes. */
export function containerKey(containerId: string): Uint8Array {
  return createHash("sha256").update(containerId).digest().subarray(0, 8);
}

function requireAtMost(limit: number, values: readonly string[], noun: string): void {
  if (values.length > limit) {
    throw new RangeError(`Cannot hold ${values.length} ${noun}: the limit is ${limit}`);
  }
}
