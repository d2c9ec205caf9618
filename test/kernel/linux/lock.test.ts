import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { run, start } from "../../../src/exec.ts";
import { tryLock } from "../../../src/linux/lock.ts";
import { waitFor } from "../../lib/wait.ts";

let directory: string;
let path: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "lock-test-"));
  path = join(directory, "lock");
});

afterEach(() => rm(directory, { recursive: true }));

async function isFree(): Promise<boolean> {
  const { exitCode } = await run({ file: "flock", args: ["-n", path, "true"], okExitCodes: [1] });
  return exitCode === 0;
}

test("tryLock() gives the lock to one holder at a time", async () => {
  const lock = await tryLock(path);
  expect(lock).toBeDefined();
  expect(await tryLock(path)).toBeUndefined();
  expect(await isFree()).toBe(false);
  await lock?.release();
  expect(await isFree()).toBe(true);
  await (await tryLock(path))?.release();
});

test("the lock of a process that was killed is free", async () => {
  const holder = start({ file: "flock", args: [path, "sleep", "60"] });
  await waitFor(async () => !(await isFree()), { what: "the lock taken by another process", timeoutMs: 5000 });
  expect(await tryLock(path)).toBeUndefined();
  // flock(1) starts sleep(1), which holds the file too: both belong to the process group.
  await run({ file: "pkill", args: ["-KILL", "-P", String(holder.pid)] });
  holder.kill("SIGKILL");
  await holder.ended.catch(() => undefined);
  const lock = await tryLock(path);
  expect(lock).toBeDefined();
  await lock?.release();
});

test("tryLock() names what it cannot open", async () => {
  await expect(tryLock(join(directory, "missing/lock"))).rejects.toMatchObject({ code: "ENOENT" });
});
