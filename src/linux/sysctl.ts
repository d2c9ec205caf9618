/** Settings under /proc/sys/net of the network namespace that the calling thread is in. */
import { readFileSync, writeFileSync } from "node:fs";

/**
 * Writes the value only where another one is in force, so that nobody who watches is woken for nothing.
 *
 * @param key as a path: "ipv4/ip_forward"
 * @returns whether it was changed
 */
export function ensureSysctl(key: string, value: number): boolean {
  const path = `/proc/sys/net/${key}`;
  if (readFileSync(path, "utf8").trim() === String(value)) {
    return false;
  }
  writeFileSync(path, String(value));
  return true;
}
