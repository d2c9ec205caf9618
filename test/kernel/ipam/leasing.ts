/** What the tests of leases and the processes that they start agree on. */
import type { LeaseOwner } from "../../../src/ipam/lease-store.ts";

export const block = "10.0.0.0/30";

/** Whose lease is at work when the process dies. */
export const victim: LeaseOwner = { network: "pods", containerId: "victim", interfaceName: "eth0" };

export interface RaceWork {
  readonly directory: string;
  /** Holds a file for each address that somebody says is its own. */
  readonly proofs: string;
  readonly name: string;
  readonly rounds: number;
  /** How many leases the process keeps at once. */
  readonly held: number;
  readonly blocks: readonly string[];
}
