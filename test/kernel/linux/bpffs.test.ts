import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { run } from "../../../src/exec.ts";
import { ensureBpffs } from "../../../src/linux/bpffs.ts";

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "bpffs-test-"));
});

afterEach(async () => {
  await run({ file: "umount", args: [join(directory, "bpf")], okExitCodes: [1, 32] });
  await rm(directory, { recursive: true });
});

test("ensureBpffs() mounts once, for root alone", async () => {
  const target = join(directory, "bpf");
  await ensureBpffs(target);
  const first = await stat(target);
  await ensureBpffs(target);
  expect((await stat(target)).dev).toBe(first.dev);
  const { stdout } = await run({ file: "findmnt", args: ["-n", "-o", "FSTYPE,OPTIONS", target] });
  expect(stdout).toMatch(/^bpf\s+rw,nosuid,nodev,noexec,relatime,mode=700$/);
});
