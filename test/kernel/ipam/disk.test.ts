/** A disk that is full, and one that cannot be written. */
import { mkdir, mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { run } from "../../../src/exec.ts";
import { DiskLeases } from "../../../src/ipam/disk-leases.ts";
import { Pool } from "../../../src/ipam/pool.ts";
import { owner } from "../../lib/lease-store-contract.ts";

const node = { blocks: ["10.0.0.0/29"] };

let scratch: string;
let disk: string;
let store: DiskLeases;
let pool: Pool;

beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "lease-disk-"));
  disk = join(scratch, "disk");
  await mkdir(disk);
  await run({ file: "mount", args: ["-t", "tmpfs", "-o", "size=128k", "tmpfs", disk] });
  store = new DiskLeases(join(disk, "leases"));
  pool = new Pool(store);
  await store.openBlock("10.0.0.0/29");
  await pool.reserve(owner("a"), node);
  await pool.reserve(owner("b"), node);
});

afterEach(async () => {
  await run({ file: "umount", args: [disk] });
  await rm(scratch, { recursive: true });
});

/** Fills the disk to the last byte. */
async function fillDisk(): Promise<void> {
  const filling = writeFile(join(disk, "filling"), Buffer.alloc(1_000_000));
  await expect(filling).rejects.toMatchObject({ code: "ENOSPC" });
}

/** So many that are free can be leased, once each. */
async function expectNothingLost(free: number): Promise<void> {
  expect(await pool.leaseOf(owner("a"))).toMatchObject({ address: "10.0.0.0" });
  const given = new Set<string>();
  for (let index = 0; index < free; index++) {
    given.add((await pool.reserve(owner(`later-${index}`), node)).address);
  }
  expect(given.size).toBe(free);
}

test("a full disk is named, releases go on, and nothing is lost", async () => {
  await fillDisk();
  const problem = { code: 5, message: expect.stringContaining(`Cannot write a lease in "${disk}/leases": ENOSPC`) };
  for (const containerId of ["c", "d", "e"]) {
    await expect(pool.reserve(owner(containerId), node)).rejects.toMatchObject(problem);
    await expect(pool.reserve(owner(containerId), node, "10.0.0.5")).rejects.toMatchObject(problem);
  }
  await expect(store.openBlock("10.0.1.0/29")).rejects.toMatchObject({ code: 5 });
  await pool.release(owner("b"));
  await pool.release(owner("c"));
  expect(await store.taken("10.0.0.0/29")).toEqual(new Set(["10.0.0.0"]));
  expect(await pool.ownersIn("pods")).toEqual([owner("a")]);
  await rm(join(disk, "filling"));
  await expect(store.openBlock("10.0.1.0/29")).resolves.toBeUndefined();
  await expectNothingLost(7);
});

test("a release on a full disk goes on where the free addresses are not known any more", async () => {
  await truncate(join(disk, "leases/blocks/10-0-0-0-29/.free"), 3);
  await fillDisk();
  await pool.release(owner("b"));
  expect(await pool.ownersIn("pods")).toEqual([owner("a")]);
  await rm(join(disk, "filling"));
  await expectNothingLost(7);
});

test("a disk that cannot be written is named, what is on it can be read, and nothing is lost", async () => {
  await run({ file: "mount", args: ["-o", "remount,ro", disk] });
  const problem = { code: 5, message: expect.stringMatching(new RegExp(`in "${disk}/leases": EROFS`)) };
  await expect(pool.reserve(owner("c"), node)).rejects.toMatchObject(problem);
  await expect(pool.release(owner("a"))).rejects.toMatchObject(problem);
  expect(await pool.reserve(owner("a"), node)).toMatchObject({ address: "10.0.0.0" });
  expect(await pool.ownerOf("10.0.0.1")).toEqual(owner("b"));
  await run({ file: "mount", args: ["-o", "remount,rw", disk] });
  await expectNothingLost(6);
});
