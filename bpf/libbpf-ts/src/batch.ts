/** Many entries of a map by one system call, or one by one where the map's type has no such call. */
import { constants } from "node:os";
import { addon } from "./addon.ts";

export type Entry = readonly [key: Uint8Array, value: Uint8Array];

export interface BatchResult {
  /** 0, or the negative errno of the first entry that was refused. */
  readonly error: number;
  readonly done: number;
}

/** Not an error number of user space, but the one the kernel has for "this map type has no batch operation". */
const ENOTSUPP = 524;

export function setEntries(map: number, entries: readonly Entry[]): BatchResult {
  const keys = Buffer.concat(entries.map(([key]) => key));
  const values = Buffer.concat(entries.map(([, value]) => value));
  const result = addon.mapSetBatch(map, keys, values, entries.length);
  return result.error === -ENOTSUPP ? oneByOne(entries, ([key, value]) => addon.mapSet(map, key, value, 0)) : result;
}

/** Keys that are absent are passed over and not counted. */
export function deleteKeys(map: number, keys: readonly Uint8Array[]): BatchResult {
  let done = 0;
  let rest = keys;
  while (rest.length > 0) {
    const result = addon.mapDeleteBatch(map, Buffer.concat(rest), rest.length);
    done += result.done;
    if (result.error === -constants.errno.ENOENT) {
      // The kernel stops at the first absent key.
      rest = rest.slice(result.done + 1);
    } else if (result.error === -ENOTSUPP) {
      return deleteOneByOne(map, rest);
    } else {
      return { error: result.error, done };
    }
  }
  return { error: 0, done };
}

function deleteOneByOne(map: number, keys: readonly Uint8Array[]): BatchResult {
  let absent = 0;
  const { error, done } = oneByOne(keys, (key) => {
    const answer = addon.mapDelete(map, key);
    const isAbsent = answer === -constants.errno.ENOENT;
    absent += isAbsent ? 1 : 0;
    return isAbsent ? 0 : answer;
  });
  return { error, done: done - absent };
}

function oneByOne<Item>(items: readonly Item[], apply: (item: Item) => number): BatchResult {
  for (const [done, item] of items.entries()) {
    const error = apply(item);
    if (error < 0) {
      return { error, done };
    }
  }
  return { error: 0, done: items.length };
}
