/** A lock on a file that one process at a time can hold; it is free again when that process ends, however it ends. */
import { open } from "node:fs/promises";
import { addon, systemError } from "./addon.ts";

export interface Lock {
  release(): Promise<void>;
}

/** @returns the lock, or `undefined` when another process holds it */
export async function tryLock(path: string): Promise<Lock | undefined> {
  const handle = await open(path, "a", 0o600);
  const errno = addon.lockExclusively(handle.fd);
  if (errno === 0) {
    return { release: () => handle.close() };
  }
  await handle.close();
  const error = systemError(`lock "${path}"`, errno);
  if (error.code === "EAGAIN") {
    return undefined;
  }
  throw error;
}
