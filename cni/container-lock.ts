/** One call at a time for each container: a second ADD, or a DEL that overtakes its ADD, waits for the first. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { type Lock, lockName, tryLockName } from "../src/linux/lock.ts";

/** Longer than any ADD takes on a busy node, shorter than the patience of runtimes (2 to 4 minutes). */
const timeoutMs = 60_000;

/**
 * @param signal ends the waiting
 * @throws CniError with `TryAgainLater` when the time is over
 */
export async function lockContainer(runDir: string, containerId: string, signal: AbortSignal): Promise<Lock> {
  const lock = await lockName(await lockPath(runDir), containerId, { timeoutMs, signal });
  if (lock === undefined) {
    throw new CniError(
      CniCode.TryAgainLater,
      `Cannot begin: another call for the container "${containerId}" is still at work after ${timeoutMs / 1000} s`,
    );
  }
  return lock;
}

/** @returns `undefined` when a call for the container is at work */
export async function tryLockContainer(runDir: string, containerId: string): Promise<Lock | undefined> {
  return tryLockName(await lockPath(runDir), containerId);
}

async function lockPath(runDir: string): Promise<string> {
  await mkdir(runDir, { recursive: true });
  return join(runDir, "containers.lock");
}
