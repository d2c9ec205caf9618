import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { DiskLeases } from "../../../src/ipam/disk-leases.ts";
import type { LeaseOwner } from "../../../src/ipam/lease-store.ts";
import { Pool } from "../../../src/ipam/pool.ts";

const node = { blocks: ["10.100.15.128/26"], tunnelAddress: "10.100.15.128" };
let directory: string;
let pool: Pool;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "leases-"));
  pool = new Pool(new DiskLeases(directory));
});

afterEach(() => rm(directory, { recursive: true }));

const owner = (containerId: string, interfaceName = "eth0", network = "pods"): LeaseOwner => ({
  network,
  containerId,
  interfaceName,
});

async function reserve(containerId: string, addresses = node): Promise<string> {
  return (await pool.reserve(owner(containerId), addresses)).address;
}

test("reserve() gives every address of a block but the tunnel's, each once", async () => {
  const given: string[] = [];
  for (let container = 0; container < 63; container++) {
    given.push(await reserve(`container-${container}`));
  }
  expect(given).toEqual(Array.from({ length: 63 }, (_, index) => `10.100.15.${129 + index}`));
});

test("reserve() names the counts when every address is leased", async () => {
  const addresses = { blocks: ["10.0.0.0/30", "10.0.1.0/31"], tunnelAddress: "10.0.0.0" };
  for (let container = 0; container < 5; container++) {
    await reserve(`container-${container}`, addresses);
  }
  await expect(reserve("late", addresses)).rejects.toMatchObject({
    code: 100,
    message: `Cannot reserve an address for "late": none of 5 in the node's blocks (10.0.0.0/30, 10.0.1.0/31) is free`,
  });
});

test("reserve() refuses on a node without blocks", async () => {
  await expect(reserve("early", { blocks: [], tunnelAddress: "10.0.0.0" })).rejects.toMatchObject({
    code: 100,
    message: `Cannot reserve an address for "early": none of 0 in the node's blocks (it has none) is free`,
  });
});

test("reserve() goes on in the second block when the first is full", async () => {
  const addresses = { blocks: ["10.0.9.0/31", "10.0.1.0/31"], tunnelAddress: "10.0.9.0" };
  expect([await reserve("a", addresses), await reserve("b", addresses), await reserve("c", addresses)]).toEqual([
    "10.0.9.1",
    "10.0.1.0",
    "10.0.1.1",
  ]);
});

test("reserve() gives the same container and interface the lease it has", async () => {
  const first = await pool.reserve(owner("a"), node);
  expect(await pool.reserve(owner("a"), node)).toEqual(first);
});

test("reserve() gives another interface or network of the same container another address", async () => {
  const leases = [
    await pool.reserve(owner("a", "eth0", "pods"), node),
    await pool.reserve(owner("a", "net1", "pods"), node),
    await pool.reserve(owner("a", "eth0", "storage"), node),
  ];
  expect(new Set(leases.map(({ address }) => address)).size).toBe(3);
});

test("reserve() does not give the address that was released last", async () => {
  const first = await reserve("a");
  await pool.release(owner("a"));
  expect(await reserve("b")).not.toBe(first);
});

test("reserve() comes back to released addresses when the others are leased", async () => {
  const addresses = { blocks: ["10.0.0.0/30"], tunnelAddress: "10.0.0.0" };
  for (const container of ["a", "b", "c"]) {
    await reserve(container, addresses);
  }
  await pool.release(owner("b"));
  expect(await reserve("d", addresses)).toBe("10.0.0.2");
});

test("two stores on one directory that reserve at once never give one address twice", async () => {
  const other = new Pool(new DiskLeases(directory));
  const leases = await Promise.all(
    Array.from({ length: 60 }, (_, index) => (index % 2 ? pool : other).reserve(owner(`container-${index}`), node)),
  );
  expect(new Set(leases.map(({ address }) => address)).size).toBe(60);
});

test("release() is content when there is no lease", async () => {
  await expect(pool.release(owner("nobody"))).resolves.toBeUndefined();
});

test("release() gives back nothing of another owner", async () => {
  const kept = await pool.reserve(owner("a", "net1"), node);
  await pool.reserve(owner("a"), node);
  await pool.release(owner("a"));
  expect(await pool.leasesOf(owner("a"))).toEqual([]);
  expect(await pool.leasesOf(owner("a", "net1"))).toEqual([kept]);
});

test("release() finds a lease in a block that the node no longer has", async () => {
  await reserve("a", { blocks: ["10.0.0.0/30"], tunnelAddress: "10.0.0.0" });
  await pool.release(owner("a"));
  expect(await readdir(join(directory, "10-0-0-0-30"))).not.toContain("10.0.0.1");
});

test("a lease file tells who has the address, and nothing else is left beside it", async () => {
  await pool.reserve({ ...owner("a"), pod: "web", namespace: "shop" }, node);
  const block = join(directory, "10-100-15-128-26");
  expect((await readdir(block)).sort()).toEqual([".last-given", "10.100.15.129"]);
  expect(JSON.parse(await readFile(join(block, "10.100.15.129"), "utf8"))).toEqual({
    address: "10.100.15.129",
    block: "10.100.15.128/26",
    owner: { network: "pods", containerId: "a", interfaceName: "eth0", pod: "web", namespace: "shop" },
    time: expect.stringMatching(/^20\d\d-.*Z$/),
  });
});

test("garbage among the leases breaks no reserve(), and an address with an unreadable lease is not given", async () => {
  const block = join(directory, "10-100-15-128-26");
  await mkdir(block);
  await writeFile(join(directory, "a-file-among-the-blocks"), "");
  await writeFile(join(block, ".last-given"), "not an address");
  await writeFile(join(block, ".5b7c"), '{"half":');
  await writeFile(join(block, "README"), "not a lease");
  await writeFile(join(block, "10.100.15.129"), "");
  await writeFile(join(block, "10.100.15.130"), '{"address":"10.100.15.130"}');
  await mkdir(join(block, "10.100.15.131"));
  expect(await reserve("a")).toBe("10.100.15.132");
  await pool.release(owner("a"));
});

test("a lease file copied under another address is nobody's lease", async () => {
  const { address } = await pool.reserve(owner("a"), node);
  const block = join(directory, "10-100-15-128-26");
  await writeFile(join(block, "10.100.15.150"), await readFile(join(block, address), "utf8"));
  expect(await pool.leasesOf(owner("a"))).toHaveLength(1);
});

test("reserve() says which directory it cannot write in", async () => {
  await writeFile(join(directory, "10-100-15-128-26"), "a file where the block's directory belongs");
  await expect(reserve("a")).rejects.toMatchObject({
    code: 5,
    message: expect.stringContaining(`Cannot write a lease in "${directory}/10-100-15-128-26": EEXIST`),
  });
});
