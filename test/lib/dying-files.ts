/** File operations of a process that comes to its end at one of them. */
import * as files from "node:fs/promises";

/**
 * @param at the number of the call that is not made any more, counted from 1, those of opened files included
 * @param die ends the process, or throws; called again by each later call
 */
export function dyingFiles(at: number, die: () => never): typeof files {
  let calls = 0;
  const watch = <Part extends object>(part: Part): Part =>
    new Proxy(part, {
      get(target, key) {
        const value: unknown = Reflect.get(target, key);
        if (typeof value !== "function") {
          return value;
        }
        return async (...args: unknown[]) => {
          calls++;
          if (calls >= at) {
            // The kernel closes what a dead process had open; here nobody else would.
            await (key === "close" ? Reflect.apply(value, target, args) : undefined);
            die();
          }
          const result = await Reflect.apply(value, target, args);
          return key === "open" ? watch(result) : result;
        };
      },
    });
  return watch({ ...files });
}
