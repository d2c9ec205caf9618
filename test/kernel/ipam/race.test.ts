/** Real processes that lease from the same blocks at once. */
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { type Process, start as startProgram } from "../../../src/exec.ts";
import { DiskLeases } from "../../../src/ipam/disk-leases.ts";
import { Pool } from "../../../src/ipam/pool.ts";
import { waitFor } from "../../lib/wait.ts";
import type { RaceWork } from "./leasing.ts";

jest.setTimeout(240_000);

const program = join(import.meta.dirname, "leaseholder.ts");
const blocks = ["10.0.0.0/29", "10.0.1.0/28"];
const addresses = 24;

let scratch: string;
let directory: string;
let proofs: string;

beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "lease-race-"));
  directory = join(scratch, "leases");
  proofs = join(scratch, "proofs");
  await mkdir(proofs);
  const store = new DiskLeases(directory);
  for (const block of blocks) {
    await store.openBlock(block);
  }
});

afterEach(() => rm(scratch, { recursive: true }));

function racer(name: string, rounds: number): Process {
  const work: RaceWork = { directory, proofs, name, rounds, held: 2, blocks };
  return startProgram({ file: process.execPath, args: [program, "race", JSON.stringify(work)] });
}

/** Every address can be leased, once each. */
async function expectAllFree(): Promise<void> {
  const pool = new Pool(new DiskLeases(directory));
  expect(await readdir(join(directory, "owners"))).toEqual([]);
  expect(await pool.countFree({ blocks })).toBe(addresses);
  const given = new Set<string>();
  for (let index = 0; index < addresses; index++) {
    const owner = { network: "race", containerId: `last-${index}`, interfaceName: "eth0" };
    given.add((await pool.reserve(owner, { blocks })).address);
  }
  expect(given.size).toBe(addresses);
}

test("16 processes that want more than there is: no address has two owners, and all are free at the end", async () => {
  const racers = Array.from({ length: 16 }, (_, index) => racer(`p${index}`, 40));
  const outputs = await Promise.all(racers.map(({ ended }) => ended));
  const given = outputs.reduce((sum, { stdout }) => sum + Number(stdout), 0);
  expect(given).toBeGreaterThan(addresses * 4);
  await expectAllFree();
});

test("8 processes, half of which are killed at work: what they held is theirs until GC, and nothing is lost", async () => {
  const [killed, others] = [
    ["k0", "k1", "k2", "k3"],
    ["o0", "o1", "o2", "o3"],
  ];
  const doomed = killed.map((name) => racer(name, 100_000));
  const racers = others.map((name) => racer(name, 40));
  for (const [index, process] of doomed.entries()) {
    const isAtWork = async () =>
      (await new DiskLeases(directory).list()).some(({ owner }) => owner.containerId.startsWith(`k${index}-`));
    await waitFor(isAtWork, { what: "the racer at work", timeoutMs: 30_000 });
    process.kill("SIGKILL");
    await process.ended.catch(() => undefined);
  }
  await Promise.all(racers.map(({ ended }) => ended));
  const store = new DiskLeases(directory);
  const pool = new Pool(store);
  const left = await pool.ownersIn("race");
  expect(left.every(({ containerId }) => containerId.startsWith("k"))).toBe(true);
  for (const owner of left) {
    await pool.release(owner);
  }
  await store.recover(blocks, new Date(Date.now() + 3_600_000)); // what was only being written belongs to nobody
  await expectAllFree();
});

test("a block that is closed and opened all the time loses no lease and gives no address twice", async () => {
  const store = new DiskLeases(directory);
  const racers = Array.from({ length: 6 }, (_, index) => racer(`p${index}`, 40));
  let isDone = false;
  const ended = Promise.all(racers.map((each) => each.ended)).finally(() => {
    isDone = true;
  });
  let closings = 0;
  while (!isDone) {
    closings += (await store.closeBlock("10.0.1.0/28")) ? 1 : 0;
    await store.openBlock("10.0.1.0/28");
  }
  await ended;
  expect(closings).toBeGreaterThan(0);
  await expectAllFree();
});
