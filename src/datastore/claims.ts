/** Decides who gets addresses that several objects want: first come, first served. */
import type { AddressRange } from "../cidr.ts";
import { Ranges } from "./ranges.ts";

export interface Claim extends AddressRange {
  /** "node/node3" */
  readonly object: string;
}

export interface Settlement<C extends Claim> {
  /** By object: the claim it has, which is the one it wanted or, where that was refused, the one it had. */
  readonly granted: ReadonlyMap<string, C>;
  /** By object: the claim that stood in the way of what it wanted. */
  readonly refused: ReadonlyMap<string, C>;
}

/**
 * `wanted`: one claim an object; where two newcomers collide, the earlier one wins.
 * `standing`: what was granted before to objects that are still there. It is kept against every newcomer, and an object
 * whose new claim is refused keeps it. Claims that do not collide with one another are all granted, also when objects
 * swap their addresses.
 */
export function settle<C extends Claim>(wanted: readonly C[], standing: ReadonlyMap<string, C>): Settlement<C> {
  const granted = new Ranges<C>();
  const grantedTo = new Map<string, C>();
  const refused = new Map<string, C>();

  const grant = (claim: C) => {
    granted.add(claim);
    grantedTo.set(claim.object, claim);
  };
  const refuse = (claim: C, by: C) => {
    refused.set(claim.object, by);
    const losers = [claim];
    for (let loser = losers.pop(); loser; loser = losers.pop()) {
      const kept = standing.get(loser.object);
      if (!kept) {
        continue;
      }
      for (const newcomer of granted.clear(kept)) {
        grantedTo.delete(newcomer.object);
        // Seen twice only where two standing claims collide: without the check they would evict each other for ever.
        if (!refused.has(newcomer.object)) {
          refused.set(newcomer.object, kept);
          losers.push(newcomer);
        }
      }
      grant(kept);
    }
  };
  const grantOrRefuse = (claim: C) => {
    const other = granted.overlapping(claim);
    if (other) {
      refuse(claim, other);
    } else {
      grant(claim);
    }
  };

  const isStanding = (claim: C) => isSameRange(standing.get(claim.object), claim);
  wanted.filter(isStanding).forEach(grantOrRefuse);
  wanted.filter((claim) => !isStanding(claim)).forEach(grantOrRefuse);
  return { granted: grantedTo, refused };
}

function isSameRange(one: AddressRange | undefined, other: AddressRange): boolean {
  return one !== undefined && one.first === other.first && one.last === other.last;
}
