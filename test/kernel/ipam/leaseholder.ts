/** A process that leases: `leaseholder.ts race <work>` or `leaseholder.ts <verb> <directory> <call to die at>`. */
import { open, unlink } from "node:fs/promises";
import { join } from "node:path";
import { CniError } from "@containernetworking/cni-types-ts";
import { DiskLeases } from "../../../src/ipam/disk-leases.ts";
import type { LeaseStore } from "../../../src/ipam/lease-store.ts";
import { Pool } from "../../../src/ipam/pool.ts";
import { dyingFiles } from "../../lib/dying-files.ts";
import { block, type RaceWork, victim } from "./leasing.ts";

const now = new Date();

const verbs: Readonly<Record<string, (store: LeaseStore) => Promise<unknown>>> = {
  reserve: (store) => store.reserve(victim, block, { now, mayGive: () => true, isRested: () => true }),
  reserveAddress: (store) => store.reserveAddress(victim, block, "10.0.0.3", now),
  release: (store) => store.release(victim, now),
  openBlock: (store) => store.openBlock(block),
  "openBlock with a pod that lives": (store) => store.openBlock(block, [{ owner: victim, address: "10.0.0.3" }], now),
  adopt: (store) => store.adopt({ owner: victim, address: "10.0.0.3" }, block, now),
  closeBlock: (store) => store.closeBlock(block),
  forgetBlock: (store) => store.forgetBlock(block),
  recover: (store) => store.recover([block], new Date(now.getTime() + 3_600_000)),
};

/** Leases and releases, and proves with a file for each address that nobody else has it. */
async function race({ directory, proofs, name, rounds, held, blocks }: RaceWork): Promise<void> {
  const pool = new Pool(new DiskLeases(directory));
  const holding: { owner: typeof victim; proof: string }[] = [];
  let given = 0;
  for (let round = 0; round < rounds; round++) {
    const owner = { network: "race", containerId: `${name}-${round}`, interfaceName: "eth0" };
    const lease = await pool.reserve(owner, { blocks }).catch((error) => {
      if (CniError.from(error).code !== 100) {
        throw error;
      }
    });
    if (lease) {
      given++;
      const proof = join(proofs, lease.address);
      await (await open(proof, "wx")).close(); // throws when somebody has the address
      holding.push({ owner, proof });
    }
    while (holding.length > held || (holding.length > 0 && !lease)) {
      const { owner: last, proof } = holding.shift() as (typeof holding)[number];
      await unlink(proof);
      await pool.release(last);
    }
  }
  for (const { owner, proof } of holding) {
    await unlink(proof);
    await pool.release(owner);
  }
  process.stdout.write(`${given}\n`);
}

const [verb = "", directory = "", at] = process.argv.slice(2);
if (verb === "race") {
  await race(JSON.parse(directory));
} else {
  const die = (): never => {
    process.kill(process.pid, "SIGKILL");
    throw new Error("Cannot go on: killed");
  };
  await verbs[verb]?.(new DiskLeases(directory, dyingFiles(Number(at), die)));
}
