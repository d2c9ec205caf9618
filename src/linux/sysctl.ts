/** Settings under /proc/sys/net of the network namespace that the calling thread is in. */
import { readFileSync, writeFileSync } from "node:fs";

/**
 * Writes the value only where another one is in force, so that nobody who watches is woken for nothing.
 *
 * @param key as a path: "ipv4/ip_forward"
 * @returns whether it was changed
 */
export function ensureSysctl(key: string, value: number): boolean {
  if (readSysctl(key) === String(value)) {
    return false;
  }
  writeFileSync(`/proc/sys/net/${key}`, String(value));
  return true;
}

/** @returns the value as the kernel writes it */
export function readSysctl(key: string): string {
  return readFileSync(`/proc/sys/net/${key}`, "utf8").trim();
}
