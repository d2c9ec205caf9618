import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "@jest/globals";
import { DiskLeases } from "../../../src/ipam/disk-leases.ts";
import { MemoryLeases } from "../../../src/ipam/memory-leases.ts";
import { describeLeaseStore } from "../../lib/lease-store-contract.ts";

const directories: string[] = [];

afterEach(async () => {
  for (const directory of directories.splice(0)) {
    await rm(directory, { recursive: true });
  }
});

describeLeaseStore("leases on disk", async () => {
  const directory = await mkdtemp(join(tmpdir(), "leases-"));
  directories.push(directory);
  return new DiskLeases(join(directory, "leases"));
});

describeLeaseStore("leases in memory", async () => new MemoryLeases());
