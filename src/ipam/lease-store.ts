/** Where leases are kept, as the policy in pool.ts sees it. */
import { createHash } from "node:crypto";
import { z } from "zod";

/** Who has an address: one interface of one container in one network. */
export const leaseOwner = z.object({
  network: z.string(),
  containerId: z.string(),
  interfaceName: z.string(),
  /** Name of the pod and its Kubernetes namespace, where the runtime gave them. */
  pod: z.string().exactOptional(),
  namespace: z.string().exactOptional(),
});

export type LeaseOwner = Readonly<z.infer<typeof leaseOwner>>;

export interface Lease {
  readonly address: string;
  /** CIDR of the block that the address lies in. */
  readonly block: string;
  readonly owner: LeaseOwner;
  /** When it was given: ISO 8601, UTC. */
  readonly time: string;
}

/** Who has an address whatever the store says: the kernel leads packets for it there. */
export interface LivePod {
  readonly owner: LeaseOwner;
  readonly address: string;
}

/** The node's own end of the tunnel: a lease like any other, so that no pod is given its address. */
export const tunnelOwner: LeaseOwner = { network: "cni-ipip", containerId: "node", interfaceName: "tunl0" };

/** Which address of a block will do. */
export interface Choice {
  readonly now: Date;
  /** @param address as a number */
  readonly mayGive: (address: number) => boolean;
  /** @param releasedAt seconds since 1970; 0 when the address was never given */
  readonly isRested: (releasedAt: number) => boolean;
}

/** What a block has to give. `since`: when the address was released that rests longest, seconds since 1970. */
export type Offer =
  | { readonly kind: "lease"; readonly lease: Lease }
  | { readonly kind: "resting"; readonly since: number }
  | { readonly kind: "full" }
  | { readonly kind: "closed" };

/** The same for one certain address. */
export type Answer =
  | { readonly kind: "lease"; readonly lease: Lease }
  | { readonly kind: "taken" }
  | { readonly kind: "closed" };

/** What `recover` found and did. */
export interface Recovery {
  /** CIDRs of blocks that were half closed and can be leased from again. */
  readonly reopened: readonly string[];
  /** CIDRs of blocks that were half closed and are gone now. */
  readonly removed: readonly string[];
  /** What cannot be read in the place of a lease, in a sentence each. The address counts as taken. */
  readonly damaged: readonly string[];
  /** Files that were found where they do not belong, by where they are now, whenever that was. */
  readonly setAside: readonly string[];
}

/**
 * An owner has one lease at most. Calls for one owner come one at a time; for several owners at once, also from several
 * processes: of two that want one address, one gets it. Nothing is leased from a block that is not open.
 *
 * Everything throws a CniError with `IoFailure` that names the place when the store cannot be read or written.
 */
export interface LeaseStore {
  /** For sentences: the directory. */
  readonly place: string;

  /**
   * Content when it is open. One process, sync, opens and closes.
   *
   * @param live those with an address of the block: the address is theirs, as `adopt` says, before anybody can lease from
   *   a block that was not open
   */
  openBlock(cidr: string, live?: readonly LivePod[], now?: Date): Promise<void>;
  /**
   * Leases to a pod that lives the address that it has, where its lease is lost or cannot be read. No call of the owner is
   * at work.
   *
   * @returns the lease that is there: the pod's own, one of another owner of the address, or of the pod's own on another
   *   address; undefined when the block is not open
   */
  adopt(pod: LivePod, block: string, now: Date): Promise<Lease | undefined>;
  /**
   * Takes a block without leases out: nobody can lease from it any more, until it is opened again.
   *
   * @returns false when it has a lease: it stays open then. Also when it is not open.
   */
  closeBlock(cidr: string): Promise<boolean>;
  /** Drops what is remembered of a closed block, once the block has been given back. */
  forgetBlock(cidr: string): Promise<void>;
  /** CIDRs of the open blocks, in no order. */
  blocks(): Promise<string[]>;
  /**
   * For the start of sync: ends what killed processes left half done, and finds out anew which addresses are free.
   *
   * @param ours CIDRs of the node's blocks
   */
  recover(ours: readonly string[], now?: Date): Promise<Recovery>;

  /**
   * The free address that was released longest ago, those that were never given first of all. For an owner without a
   * lease, as `reserveAddress`.
   */
  reserve(owner: LeaseOwner, block: string, choice: Choice): Promise<Offer>;
  /** @param address lies in the block */
  reserveAddress(owner: LeaseOwner, block: string, address: string, now: Date): Promise<Answer>;
  /** Content when there is no lease. */
  release(owner: LeaseOwner, now: Date): Promise<void>;

  leaseOf(owner: LeaseOwner): Promise<Lease | undefined>;
  /** @returns "damaged" when the address is taken and nobody can tell by whom */
  leaseAt(address: string): Promise<Lease | "damaged" | undefined>;
  /**
   * Everyone who has a lease, or may have begun to get one.
   *
   * @param others are left out: nothing is read for them
   */
  owners(others?: readonly LeaseOwner[]): Promise<LeaseOwner[]>;
  /** Every lease, in no order; what cannot be read as a lease is left out. */
  list(): Promise<Lease[]>;
  /** The addresses of a block that cannot be given, also damaged ones; undefined when it is not open. */
  taken(block: string): Promise<ReadonlySet<string> | undefined>;
}

/** A file name for what belongs to one owner: a network's name alone can be longer than a file's. */
export function ownerFileName({ network, containerId, interfaceName }: LeaseOwner): string {
  // No part of the key can hold a slash.
  return createHash("sha256").update(`${network}/${containerId}/${interfaceName}`).digest("hex").slice(0, 32);
}

/** For sentences: `"eth0" of the container "c1"`. */
export function describeOwner({
  containerId,
  interfaceName,
}: Pick<LeaseOwner, "containerId" | "interfaceName">): string {
  return `"${interfaceName}" of the container "${containerId}"`;
}

/** The primary key of the CNI specification: network, container and interface. */
export function isSameOwner(one: LeaseOwner, other: LeaseOwner): boolean {
  return (
    one.network === other.network && one.containerId === other.containerId && one.interfaceName === other.interfaceName
  );
}
