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

export interface LeaseStore {
  /** Every lease of this node, in no order; what cannot be read as a lease is left out. */
  list(): Promise<Lease[]>;
  /** The addresses of a block that cannot be given, also those whose lease cannot be read. */
  taken(block: string): Promise<ReadonlySet<string>>;
  /** @returns false when the address is taken: of two processes that try at once, one gets true. One call an owner at a time. */
  create(lease: Lease): Promise<boolean>;
  /** Content when the lease is gone already. */
  remove(lease: Lease): Promise<void>;
  /** Removes what a killed `create` for the owner left that is no lease. */
  tidy(owner: LeaseOwner): Promise<void>;
  /** The address of the block that was given last, also when it is free again. */
  lastGiven(block: string): Promise<string | undefined>;
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
