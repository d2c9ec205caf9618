/** Applies the difference between the routes that should be and those that are. */
import { isDeepStrictEqual } from "node:util";
import type { Netlink } from "../netlink/netlink.ts";
import { mainTable, type Route } from "../netlink/route.ts";
import { NetlinkError } from "../netlink/socket.ts";
import { isBlockRoute } from "./routes.ts";

/** Requests under way at once: their answers must fit the socket's receive buffer. */
const batchSize = 256;

export interface RouteChange {
  readonly set: readonly Route[];
  readonly removed: readonly Route[];
}

/** @param wanted by destination; a foreign route in the place of a wanted one is replaced, foreign ones elsewhere stay */
export function routeDifference(wanted: ReadonlyMap<string, Route>, actual: readonly Route[]): RouteChange {
  // Of several with one destination the kernel lists first, uses and replaces the same one: it must stay in the map.
  const present = new Map(
    actual
      .filter(isInTheWay)
      .reverse()
      .map((route) => [route.destination, route]),
  );
  return {
    set: [...wanted.values()].filter((route) => !isDeepStrictEqual(present.get(route.destination), route)),
    removed: actual.filter((route) => isBlockRoute(route) && !wanted.has(route.destination)),
  };
}

/**
 * Adds and replaces before it removes, so that no destination is without a route in between. A route that the kernel
 * refuses, as one by a link that is down, keeps no other from its place.
 *
 * @throws an error that names the first route which the kernel refused, when all others are done
 */
export async function syncRoutes(netlink: Netlink, wanted: ReadonlyMap<string, Route>): Promise<RouteChange> {
  const change = routeDifference(wanted, await netlink.routes());
  const refused = [
    ...(await inBatches(change.set, (route) => netlink.replaceRoute(route))),
    ...(await inBatches(change.removed, (route) => removeIfThere(netlink, route))),
  ];
  const [first, ...others] = refused;
  if (first) {
    const more = others.length === 0 ? "" : `, and ${others.length} more`;
    throw new Error(`${first.message}${more}`, { cause: first });
  }
  return change;
}

/** Routes with another table or metric stand beside ours. */
function isInTheWay(route: Route): boolean {
  return route.table === mainTable && route.metric === 0;
}

async function removeIfThere(netlink: Netlink, route: Route): Promise<void> {
  try {
    await netlink.removeRoute(route);
  } catch (error) {
    if (!(error instanceof NetlinkError && error.code === "ESRCH")) {
      throw error;
    }
  }
}

/** @returns the errors */
async function inBatches<T>(items: readonly T[], apply: (item: T) => Promise<void>): Promise<Error[]> {
  const errors: Error[] = [];
  for (let start = 0; start < items.length; start += batchSize) {
    const results = await Promise.allSettled(items.slice(start, start + batchSize).map(apply));
    errors.push(...results.flatMap((result) => (result.status === "rejected" ? [result.reason] : [])));
  }
  return errors;
}
