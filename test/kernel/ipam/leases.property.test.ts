/** Whatever happens to the leases of a node, and wherever a process dies at it: no address has two owners, none is lost. */
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { CniError } from "@containernetworking/cni-types-ts";
import { expect, jest, test } from "@jest/globals";
import { DiskLeases } from "../../../src/ipam/disk-leases.ts";
import { Pool } from "../../../src/ipam/pool.ts";
import { dyingFiles } from "../../lib/dying-files.ts";
import { at, owner } from "../../lib/lease-store-contract.ts";

jest.setTimeout(300_000);

const blocks = ["10.0.0.0/30", "10.0.1.0/29", "10.0.2.0/32"];
const addressCount = 13;
const containers = Array.from({ length: 16 }, (_, index) => `c${index}`);

const muchLater = at(4_000_000_000);

/** Each step is a few synced writes: in memory, where there is room for them. */
const scratchParent = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

/** mulberry32: small, and the same on every machine. */
function generator(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

function dead(): never {
  throw new Error("Cannot go on: dead");
}

class Model {
  readonly #directory: string;
  readonly #below: (limit: number) => number;
  readonly #whole: DiskLeases;
  /** The address of each container; undefined for none. */
  readonly #known = new Map<string, string>();
  /** Whose last call died: it may have a lease or not. */
  readonly #unknown = new Set<string>();
  #seconds = 0;
  steps = 0;

  constructor(directory: string, below: (limit: number) => number) {
    this.#directory = directory;
    this.#below = below;
    this.#whole = new DiskLeases(directory);
  }

  async begin(): Promise<void> {
    for (const block of blocks) {
      await this.#whole.openBlock(block);
    }
  }

  async step(): Promise<void> {
    this.steps++;
    this.#seconds += this.#below(40);
    const isDying = this.#below(4) === 0;
    const store = isDying ? new DiskLeases(this.#directory, dyingFiles(1 + this.#below(24), dead)) : this.#whole;
    const containerId = this.#pick(containers);
    const verbs: (() => Promise<unknown>)[] = [
      () => this.#reserve(store, containerId),
      () => this.#reserve(store, containerId),
      () => this.#reserve(store, containerId, `10.0.1.${this.#below(8)}`),
      () => this.#release(store, containerId),
      () => this.#release(store, containerId),
      () => this.#attempt(isDying, () => store.closeBlock(this.#pick(blocks))),
      () => this.#attempt(isDying, () => store.openBlock(this.#pick(blocks))),
      () => this.#attempt(isDying, () => store.recover(blocks, this.#pick([at(0), muchLater]))),
      () => rm(join(this.#directory, "blocks", this.#pick(["10-0-0-0-30", "10-0-1-0-29"]), ".free"), { force: true }),
      () => this.look(),
    ];
    await this.#pick(verbs)();
  }

  async #reserve(store: DiskLeases, containerId: string, wanted?: string): Promise<void> {
    const isSafe = store === this.#whole;
    const before = this.#known.get(containerId);
    const isUnknown = this.#unknown.has(containerId);
    const pool = new Pool(store, () => at(this.#seconds));
    const outcome = await pool.reserve(owner(containerId), { blocks }, wanted).then(
      ({ address }) => address,
      (error) => CniError.from(error).code,
    );
    this.#expect(containerId, outcome, [
      ...(typeof outcome === "string" && before === undefined ? [outcome] : [before]),
      ...(isSafe ? [] : [5]),
      ...(wanted === undefined || (wanted === before && !isUnknown) ? [] : [101]),
      ...(before === undefined ? [100, 11] : []),
    ]);
    if (typeof outcome === "string") {
      this.#expectNobodyElse(containerId, outcome);
      this.#known.set(containerId, outcome);
      this.#unknown.delete(containerId);
    } else if (outcome === 5 && before === undefined) {
      this.#unknown.add(containerId);
    } else if (outcome === 100 && isSafe) {
      // An address whose release died may be found with the next call of who had it.
      const free = await new Pool(this.#whole).countFree({ blocks });
      expect({ step: this.steps, isExhausted: free <= this.#unknown.size }).toEqual({
        step: this.steps,
        isExhausted: true,
      });
    }
  }

  async #release(store: DiskLeases, containerId: string): Promise<void> {
    const isDone = await this.#attempt(store !== this.#whole, () =>
      new Pool(store, () => at(this.#seconds)).release(owner(containerId)),
    );
    const had = this.#known.delete(containerId);
    if (isDone) {
      this.#unknown.delete(containerId);
    } else if (had) {
      this.#unknown.add(containerId);
    }
  }

  /** Compares what is on the disk with what must be. */
  async look(): Promise<void> {
    const seen = new Map<string, string>();
    for (const containerId of containers) {
      const address = (await this.#whole.leaseOf(owner(containerId)))?.address;
      const known = this.#known.get(containerId);
      this.#expect(containerId, address, this.#unknown.has(containerId) ? [address] : [known]);
      if (address !== undefined) {
        expect({ step: this.steps, address, other: seen.get(address) }).toEqual({ step: this.steps, address });
        seen.set(address, containerId);
      }
    }
    const listed = (await this.#whole.list()).map((lease) => [lease.address, lease.owner.containerId]);
    expect({ step: this.steps, leases: Object.fromEntries(listed) }).toEqual({
      step: this.steps,
      leases: Object.fromEntries(seen),
    });
  }

  /** After GC of everybody and the start of sync each address can be given, once. */
  async end(): Promise<void> {
    await this.look();
    for (const each of await this.#whole.owners()) {
      await this.#whole.release(each, at(this.#seconds));
    }
    const { damaged, setAside } = await this.#whole.recover(blocks, muchLater);
    // A ring is torn when its writer dies, and made anew.
    const others = setAside.filter((path) => !basename(path).includes("-.free."));
    expect({ damaged, others }).toEqual({ damaged: [], others: [] });
    const given = new Set<string>();
    for (let index = 0; index < addressCount; index++) {
      given.add((await new Pool(this.#whole).reserve(owner(`last-${index}`), { blocks })).address);
    }
    expect(given.size).toBe(addressCount);
  }

  async #attempt(isDying: boolean, call: () => Promise<unknown>): Promise<boolean> {
    const problem = await call().then(
      () => undefined,
      (error: Error) => error.message,
    );
    expect([undefined, ...(isDying ? [expect.stringContaining("dead")] : [])]).toContainEqual(problem);
    return problem === undefined;
  }

  #expectNobodyElse(containerId: string, address: string): void {
    const others = [...this.#known].filter(([other, theirs]) => other !== containerId && theirs === address);
    expect({ step: this.steps, address, others }).toEqual({ step: this.steps, address, others: [] });
  }

  #expect(containerId: string, actual: unknown, allowed: readonly unknown[]): void {
    expect({ step: this.steps, containerId, isAllowed: allowed.includes(actual), actual, allowed }).toMatchObject({
      isAllowed: true,
    });
  }

  #pick<Item>(items: readonly Item[]): Item {
    return items[this.#below(items.length)] as Item;
  }
}

test("10,000 random steps over leases on disk", async () => {
  const seed = Number(process.env.CNI_TEST_SEED ?? Date.now() % 2 ** 31);
  process.stdout.write(`leases: CNI_TEST_SEED=${seed}\n`);
  const scratch = await mkdtemp(join(scratchParent, "lease-model-"));
  try {
    const model = new Model(scratch, generator(seed));
    await model.begin();
    while (model.steps < 10_000) {
      await model.step();
    }
    await model.end();
  } finally {
    await rm(scratch, { recursive: true });
  }
});
