/** What reserve and release cost with 64, 1,024 and 16,384 leases held: `node bench/leases.ts [rounds]`. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DiskLeases } from "../src/ipam/disk-leases.ts";
import { Pool } from "../src/ipam/pool.ts";

const cases = [
  { leases: 64, blocks: ["10.0.0.0/26"] },
  { leases: 1024, blocks: ["10.0.0.0/22"] },
  { leases: 16_384, blocks: ["10.0.0.0/20", "10.0.16.0/20", "10.0.32.0/20", "10.0.48.0/20"] },
] as const;

/** Addresses of one block that are free again when the measuring begins. */
const room = 8;

const rounds = Number(process.argv[2] ?? 300);
const directory = await mkdtemp(join(tmpdir(), "bench-leases-"));
try {
  const pools: { name: string; reserve: () => Promise<void>; times: number[] }[] = [];
  for (const { leases, blocks } of cases) {
    for (const where of ["first", "last"] as const) {
      const reserve = await filled(join(directory, `${leases}-${where}`), { leases, blocks, where });
      pools.push({ name: `${leases} leases, room in the ${where} block`, reserve, times: [] });
    }
  }
  // In turns: whatever else the machine does meets all of them alike.
  for (let round = 0; round < rounds; round++) {
    for (const { reserve, times } of pools) {
      const began = performance.now();
      await reserve();
      times.push(performance.now() - began);
    }
  }
  const base = median(pools[0]?.times ?? []);
  for (const { name, times } of pools) {
    const ratio = (median(times) / base).toFixed(2);
    process.stdout.write(`${name}: reserve and release ${median(times).toFixed(2)} ms, ratio ${ratio}\n`);
  }
} finally {
  await rm(directory, { recursive: true });
}

interface Filling {
  readonly leases: number;
  readonly blocks: readonly string[];
  /** Which block has room. */
  readonly where: "first" | "last";
}

/** @returns what reserves an address and releases it again */
async function filled(path: string, { leases, blocks, where }: Filling): Promise<() => Promise<void>> {
  const store = new DiskLeases(path);
  for (const block of blocks) {
    await store.openBlock(block);
  }
  const owner = (containerId: string) => ({ network: "pods", containerId, interfaceName: "eth0" });
  let minutes = 0;
  const pool = new Pool(store, () => new Date(120_000 * minutes++)); // what is released is at rest with the next call
  for (let index = 0; index < leases; index++) {
    await pool.reserve(owner(String(index)), { blocks });
  }
  for (let index = 0; index < room; index++) {
    await pool.release(owner(String(where === "first" ? index : leases - 1 - index)));
  }
  return async () => {
    await pool.reserve(owner("measured"), { blocks });
    await pool.release(owner("measured"));
  };
}

function median(times: readonly number[]): number {
  return times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)] ?? Number.NaN;
}
