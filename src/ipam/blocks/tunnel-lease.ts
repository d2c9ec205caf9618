/** The address of the node's own end of the tunnel: leased like a pod's, and kept as long as it can be. */
import { type Cidr, containsAddress, formatAddress, parseCidr } from "../../cidr.ts";
import { cidrOf } from "../../datastore/parsed.ts";
import { type Lease, type LeaseStore, tunnelOwner } from "../lease-store.ts";
import { isFor, type OwnBlock } from "./own-blocks.ts";

/**
 * Leases an address when there is none, and another one when the pool of the address goes: it is removed, disabled or
 * not for tunnels any more, no pod is in the block, and another block can take its place. The first address of the first
 * block is preferred, so that a node that was installed anew has the same one again.
 *
 * @param held blocks that can be leased from, in the order they were claimed
 * @returns undefined while no block is for tunnels
 */
export async function keepTunnelLease(
  store: LeaseStore,
  held: readonly OwnBlock[],
  now: Date,
): Promise<Lease | undefined> {
  const lease = await store.leaseOf(tunnelOwner);
  const homes = held.filter(({ pool }) => isFor("Tunnel", pool));
  if (lease && (homes.length === 0 || (await mayStay(lease, { store, held, homes })))) {
    return lease;
  }
  // An owner has one lease. The former address stays on tunl0 and out of reach for pods until node.json names the next.
  await store.release(tunnelOwner, now);
  for (const home of homes) {
    const next = await leaseIn(home, store, now);
    if (next !== undefined) {
      return next;
    }
  }
  return lease && (await leaseAgain(lease, store, now));
}

async function mayStay(
  { block }: Lease,
  { store, held, homes }: { store: LeaseStore; held: readonly OwnBlock[]; homes: readonly OwnBlock[] },
): Promise<boolean> {
  const isIn = (each: OwnBlock) => each.block.cidr === block;
  if (homes.some(isIn)) {
    return true;
  }
  const hasPods = ((await store.taken(block))?.size ?? 0) > 1;
  return held.some(isIn) && hasPods;
}

async function leaseIn({ block, pool }: OwnBlock, store: LeaseStore, now: Date): Promise<Lease | undefined> {
  const reserved = pool.reservedCidrs.map(parseCidr);
  const mayGive = (address: number) => !isReserved(address, reserved);
  const { first } = cidrOf(block);
  if (mayGive(first)) {
    const answer = await store.reserveAddress(tunnelOwner, block.cidr, formatAddress(first), now);
    if (answer.kind === "lease") {
      return answer.lease;
    }
  }
  // A pod has the first one, from a time when the tunnel had another.
  const offer = await store.reserve(tunnelOwner, block.cidr, { now, mayGive, isRested: () => true });
  return offer.kind === "lease" ? offer.lease : undefined;
}

/** No other block has a free address. */
async function leaseAgain({ block, address }: Lease, store: LeaseStore, now: Date): Promise<Lease | undefined> {
  const answer = await store.reserveAddress(tunnelOwner, block, address, now);
  return answer.kind === "lease" ? answer.lease : undefined;
}

function isReserved(address: number, reserved: readonly Cidr[]): boolean {
  return reserved.some((range) => containsAddress(range, address));
}
