/** SIGKILL at every file operation of every verb: whoever comes next finds no address lost, and none that two have. */
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { start as startProgram } from "../../../src/exec.ts";
import { DiskLeases } from "../../../src/ipam/disk-leases.ts";
import { type LeaseOwner, type LeaseStore, ownerFileName } from "../../../src/ipam/lease-store.ts";
import { addressOf, anyAddress, owner } from "../../lib/lease-store-contract.ts";
import { block, victim } from "./leasing.ts";

jest.setTimeout(240_000); // a process for each operation

const program = join(import.meta.dirname, "leaseholder.ts");
const neighbour = owner("neighbour");

let scratch: string;

beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "lease-kill-"));
});

afterEach(() => rm(scratch, { recursive: true }));

/** @returns false when the verb came to its end before the operation of that number */
async function isKilledAt(verb: string, directory: string, at: number): Promise<boolean> {
  const child = startProgram({ file: process.execPath, args: [program, verb, directory, String(at)] });
  const cause = await child.ended.then(
    () => undefined,
    (error: Error) => error.cause,
  );
  expect([undefined, expect.objectContaining({ signal: "SIGKILL" })]).toContainEqual(cause);
  return cause !== undefined;
}

const reserve = (store: LeaseStore, who: LeaseOwner) => store.reserve(who, block, anyAddress(new Date()));

const later = () => new Date(Date.now() + 3_600_000);

/** Each brings the store into order by itself, and leaves the victim without a lease. */
const heirs: Readonly<Record<string, (store: LeaseStore) => Promise<void>>> = {
  async "a second try, then release()"(store) {
    const own = (await store.leaseOf(victim)) ?? (await reserve(store, victim));
    expect(own).toBeDefined();
    await store.release(victim, new Date());
  },
  async "release()"(store) {
    await store.release(victim, new Date());
  },
  async "GC, which releases every owner that is listed"(store) {
    for (const each of (await store.owners()).filter(({ containerId }) => containerId !== neighbour.containerId)) {
      await store.release(each, new Date());
    }
  },
  async "recover(), then release() of a lease that came about"(store) {
    await store.recover([block], later());
    const leases = await store.list();
    const owners = await store.owners();
    expect(owners.length).toBe(leases.length);
    await store.release(victim, new Date());
  },
};

/** All that is not the neighbour's can be leased, once each. */
async function expectNothingLost(directory: string, context: object): Promise<void> {
  const store = new DiskLeases(directory);
  await store.openBlock(block);
  const kept = (await store.leaseOf(neighbour))?.address;
  const given: string[] = [];
  for (const containerId of ["w", "x", "y", "z", "late"]) {
    given.push(addressOf(await reserve(store, owner(containerId))));
  }
  const all = ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3"].filter((address) => address !== kept);
  const leased = given.filter((address) => address !== "full").toSorted();
  expect({ ...context, leased }).toEqual({ ...context, leased: all });
}

/** Half written files, which nobody ever reads, may stay until the next start of sync. */
async function expectNoFileLeft(directory: string, context: object): Promise<void> {
  const foreign = async (ours: RegExp) => {
    const names = await readdir(join(directory, "owners")).catch(() => []);
    return names.filter((name) => name !== ownerFileName(neighbour) && !ours.test(name));
  };
  expect({ ...context, left: await foreign(/^\.|README/) }).toEqual({ ...context, left: [] });
  await new DiskLeases(directory).recover([block], later());
  expect({ ...context, left: await foreign(/^$/) }).toEqual({ ...context, left: [] });
}

const empty = async (_: LeaseStore) => {};
const withNeighbour = async (store: LeaseStore) => {
  await store.openBlock(block);
  await reserve(store, neighbour);
};

test.each<[string, string, (store: LeaseStore) => Promise<unknown>]>([
  ["reserve", "", withNeighbour],
  [
    "reserve",
    " of the last free address",
    async (store) => {
      await withNeighbour(store);
      await reserve(store, owner("b"));
      await reserve(store, owner("c"));
      await store.release(owner("b"), new Date());
      await store.release(owner("c"), new Date());
    },
  ],
  ["reserveAddress", "", withNeighbour],
  [
    "release",
    "",
    async (store) => {
      await withNeighbour(store);
      await reserve(store, victim);
    },
  ],
  ["openBlock", " of a new one", empty],
  [
    "openBlock",
    " of a closed one",
    async (store) => {
      await store.openBlock(block);
      await store.closeBlock(block);
    },
  ],
  ["openBlock with a pod that lives", "", empty],
  ["adopt", "", withNeighbour],
  ["closeBlock", "", (store) => store.openBlock(block)],
  [
    "forgetBlock",
    "",
    async (store) => {
      await store.openBlock(block);
      await store.closeBlock(block);
    },
  ],
  [
    "recover",
    "",
    async (store) => {
      await withNeighbour(store);
      await reserve(store, victim);
      await rm(join(store.place, "blocks/10-0-0-0-30/10.0.0.1"));
      await rm(join(store.place, "blocks/10-0-0-0-30/.free"));
      await writeFile(join(store.place, "owners/README"), "");
    },
  ],
])("%s()%s", async (verb, _, prepare) => {
  const names = Object.keys(heirs);
  let at = 1;
  for (let isKilled = true; isKilled; at++) {
    const directory = join(scratch, String(at));
    await mkdir(directory);
    await prepare(new DiskLeases(directory));
    isKilled = await isKilledAt(verb, directory, at);
    const heir = names[at % names.length] ?? "";
    await heirs[heir]?.(new DiskLeases(directory));
    // Every other time nobody starts sync before the next addresses are given.
    const checks = at % 8 < 4 ? [expectNothingLost] : [expectNoFileLeft, expectNothingLost];
    for (const check of checks) {
      await check(directory, { at, heir });
    }
  }
  expect(at).toBeGreaterThan(3);
});
