/** How many addresses the blocks of a node still have to give, and what follows from that. */
import { containsAddress, overlaps, parseAddress, parseCidr } from "../../cidr.ts";
import { cidrOf } from "../../datastore/parsed.ts";
import type { LeaseStore } from "../lease-store.ts";
import { type OwnBlock, servesPods } from "./own-blocks.ts";

export interface Supply extends OwnBlock {
  readonly size: number;
  /** Addresses that can be given now or when they have rested. */
  readonly free: number;
  /** Addresses that somebody has, the tunnel too. */
  readonly leases: number;
}

export async function supplyOf(store: LeaseStore, held: readonly OwnBlock[]): Promise<Supply[]> {
  return Promise.all(held.map(async (own) => ({ ...own, ...count(own, await store.taken(own.block.cidr)) })));
}

/** Whether the next block should be claimed now, so that no ADD has to wait for it. */
export function isLow(supplies: readonly Supply[]): boolean {
  const forPods = supplies.filter(servesPods);
  const last = forPods.at(-1);
  return last === undefined || totalFree(forPods) < leastFree(last);
}

/**
 * The empty blocks that are not needed, the latest first. One that pods get addresses from stays when it is the last one
 * or when the others are not well supplied without it: it would be claimed again soon. Who is asked again after each one
 * that went knows whether the next may follow.
 */
export function dispensable(supplies: readonly Supply[]): Supply[] {
  return supplies.filter((supply) => supply.leases === 0 && isDispensable(supply, supplies)).toReversed();
}

function isDispensable(supply: Supply, all: readonly Supply[]): boolean {
  const others = all.filter((other) => other !== supply && servesPods(other));
  const last = others.at(-1);
  return !servesPods(supply) || (last !== undefined && totalFree(others) >= 2 * leastFree(last));
}

/** A quarter of a block: pods come in bursts. */
function leastFree({ size }: Supply): number {
  return Math.max(1, Math.floor(size / 4));
}

function totalFree(supplies: readonly Supply[]): number {
  return supplies.reduce((sum, { free }) => sum + free, 0);
}

function count(
  { block, pool }: OwnBlock,
  taken: ReadonlySet<string> = new Set(),
): Pick<Supply, "size" | "free" | "leases"> {
  const { first, last } = cidrOf(block);
  const reserved = pool.reservedCidrs.map(parseCidr).filter((range) => overlaps(range, { first, last }));
  const size = last - first + 1;
  const mayGive = (address: number) => !reserved.some((range) => containsAddress(range, address));
  const free =
    reserved.length === 0
      ? size - taken.size
      : addresses(first, last).filter(mayGive).length -
        [...taken].filter((address) => mayGive(parseAddress(address))).length;
  return { size, free, leases: taken.size };
}

function addresses(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, offset) => first + offset);
}
