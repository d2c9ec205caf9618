/** Locks that one holder at a time can have; they are free again when that process ends, however it ends. */
import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import { addon, systemError } from "./addon.ts";

export interface Lock {
  /** A program that inherits it holds the lock too: it is free when the last of them has ended. */
  readonly fd: number;
  release(): Promise<void>;
}

/** @returns the lock on the whole file, or `undefined` when somebody else holds it, also this process */
export function tryLock(path: string): Promise<Lock | undefined> {
  return lockOpened(path, (fd) => addon().lockExclusively(fd));
}

/**
 * @param path one file holds the locks of any number of names, so that none leaves a file behind
 * @returns the lock on the name, or `undefined` when somebody else holds it, also this process
 */
export async function tryLockName(path: string, name: string): Promise<Lock | undefined> {
  // 48 bits: two names share a byte, and then only wait for each other, once in 10^14.
  const offset = createHash("sha256").update(name).digest().readUIntBE(0, 6);
  const lock = await lockOpened(path, (fd) => addon().lockByte(fd, offset));
  return (
    lock && {
      fd: lock.fd,
      async release() {
        addon().unlockBytes(lock.fd); // closing is not enough where a program that inherited it still runs
        await lock.release();
      },
    }
  );
}

/** @returns `undefined` when the lock is not free within the time */
export async function lockName(path: string, name: string, limits: LockLimits): Promise<Lock | undefined> {
  const end = performance.now() + limits.timeoutMs;
  for (;;) {
    limits.signal.throwIfAborted();
    const lock = await tryLockName(path, name);
    if (lock !== undefined || performance.now() >= end) {
      return lock;
    }
    await setTimeout(pollMs);
  }
}

export interface LockLimits {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** The kernel can wait for a lock itself, but would hold a thread of Node's pool for it. */
const pollMs = 5;

async function lockOpened(path: string, lock: (fd: number) => number): Promise<Lock | undefined> {
  const handle = await open(path, "a", 0o600);
  const errno = lock(handle.fd);
  if (errno === 0) {
    return { fd: handle.fd, release: () => handle.close() };
  }
  await handle.close();
  const error = systemError(`lock "${path}"`, errno);
  if (error.code === "EAGAIN") {
    return undefined;
  }
  throw error;
}
