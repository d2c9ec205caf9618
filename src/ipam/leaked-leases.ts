/** Leases whose containers are gone without a DEL: when enough is known to take them back. */
import { type LeaseOwner, ownerFileName } from "./lease-store.ts";

export interface LeakLook {
  /** Whose containers seem to be gone. */
  readonly suspects: readonly LeaseOwner[];
  /** How many leases the node has. */
  readonly leases: number;
}

/** More than both at once are no crash of a runtime, but a mistake of ours: a wrong namespace, another run directory. */
const mostAtOnce = { count: 5, share: 0.1 } as const;

export class LeakedLeases {
  #suspected: ReadonlySet<string> = new Set();

  /**
   * @returns those that the look before suspected too
   * @throws an error that says how many of how many when these are too many to be believed
   */
  confirm({ suspects, leases }: LeakLook): LeaseOwner[] {
    const before = this.#suspected;
    this.#suspected = new Set(suspects.map(ownerFileName));
    const confirmed = suspects.filter((owner) => before.has(ownerFileName(owner)));
    const isTooMany = suspects.length > mostAtOnce.count && suspects.length > leases * mostAtOnce.share;
    if (confirmed.length > 0 && isTooMany) {
      throw new Error(
        `Cannot take back ${suspects.length} of ${leases} leases whose containers seem to be gone: allowed are ${mostAtOnce.count} or ${mostAtOnce.share * 100} % at once, since so many may be a mistake; have the runtime call GC, or remove their files`,
      );
    }
    return confirmed;
  }
}
