/** A lock on a file that one process at a time can hold; it is free again when that process ends, however it ends. */
import { open } from "node:fs/promises";
import { addon, systemError } from "./addon.ts";

export interface Lock {
  release(): Promise<void>;
}

/** @returns the lock, or `undefined` when another process holds it */
export async function tryLock(path: string): Promise<Lock | undefined> {
  const handle = await open(path, "a", 0o600);
  let isLocked = false;
  try {
    isLocked = tryLockDescriptor(handle.fd, path);
  } finally {
    if (!isLocked) {
      await handle.close();
    }
  }
  return isLocked ? { release: () => handle.close() } : undefined;
}

/**
 * Locks what is open already, until it is closed.
 *
 * @param name for the error
 * @returns false when somebody else holds the lock, also this process by another descriptor
 */
export function tryLockDescriptor(fd: number, name: string): boolean {
  const errno = addon.lockExclusively(fd);
  if (errno === 0) {
    return true;
  }
  const error = systemError(`lock "${name}"`, errno);
  if (error.code === "EAGAIN") {
    return false;
  }
  throw error;
}
