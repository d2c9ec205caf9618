/** What is on the disk, and what foreign hands, a crash or a bad disk can make of it. */
import * as files from "node:fs/promises";
import {
  cp,
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { run } from "../../../src/exec.ts";
import { DiskLeases } from "../../../src/ipam/disk-leases.ts";
import { ringBytes } from "../../../src/ipam/free-ring.ts";
import { ownerFileName } from "../../../src/ipam/lease-store.ts";
import { addressOf, anyAddress, at, owner, start } from "../../lib/lease-store-contract.ts";

const block = "10.0.0.0/29";

let scratch: string;
let directory: string;
let blockPath: string;
let store: DiskLeases;

beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "leases-"));
  directory = join(scratch, "leases");
  blockPath = join(directory, "blocks/10-0-0-0-29");
  store = new DiskLeases(directory);
  await store.openBlock(block);
});

afterEach(() => rm(scratch, { recursive: true }));

const ownerPath = (containerId: string) => join(directory, "owners", ownerFileName(owner(containerId)));

const reserve = async (containerId: string, now = start) =>
  addressOf(await store.reserve(owner(containerId), block, anyAddress(now)));

const fifo = (path: string) => run({ file: "mkfifo", args: [path] });

test("a lease is one file with two names, readable for root alone, and nothing else is left", async () => {
  await store.reserve(owner("a", { pod: "web", namespace: "shop" }), block, anyAddress());
  expect((await readdir(directory, { recursive: true })).toSorted()).toEqual([
    "blocks",
    "blocks.lock",
    "blocks/10-0-0-0-29",
    "blocks/10-0-0-0-29/.free",
    "blocks/10-0-0-0-29/10.0.0.0",
    "owners",
    `owners/${ownerFileName(owner("a"))}`,
  ]);
  const [address, own] = [await stat(join(blockPath, "10.0.0.0")), await stat(ownerPath("a"))];
  expect({ isSame: address.ino === own.ino, mode: own.mode & 0o777 }).toEqual({ isSame: true, mode: 0o600 });
  expect(JSON.parse(await readFile(ownerPath("a"), "utf8"))).toEqual({
    version: 1,
    address: "10.0.0.0",
    block,
    owner: { network: "pods", containerId: "a", interfaceName: "eth0", pod: "web", namespace: "shop" },
    time: "2026-01-01T00:00:00.000Z",
  });
});

test("release() leaves no name of the lease", async () => {
  await reserve("a");
  await store.release(owner("a"), start);
  expect(await readdir(blockPath)).toEqual([".free"]);
  expect(await readdir(join(directory, "owners"))).toEqual([]);
});

test("an owner's file without the address's name is no lease, and is listed", async () => {
  await reserve("a");
  await rm(join(blockPath, "10.0.0.0"));
  expect(await store.leaseOf(owner("a"))).toBeUndefined();
  expect(await store.owners()).toEqual([owner("a")]);
  await store.release(owner("a"), start);
  expect(await store.owners()).toEqual([]);
});

/** What a place can hold that is none of ours. */
const foreign: readonly [string, (path: string) => Promise<unknown>][] = [
  ["an empty file", (path) => writeFile(path, "")],
  ["half a lease", (path) => writeFile(path, '{"version":1,"address":"10.0.0')],
  ["other JSON", (path) => writeFile(path, "[1]")],
  [
    "a lease without owner",
    (path) => writeFile(path, '{"version":1,"address":"10.0.0.0","block":"10.0.0.0/29","time":""}'),
  ],
  ["a newer version", (path) => writeFile(path, lease({ version: 2 }))],
  ["an address outside of its block", (path) => writeFile(path, lease({ address: "10.0.1.0" }))],
  ["a block with host bits", (path) => writeFile(path, lease({ block: "10.0.0.1/29" }))],
  [
    "a huge file",
    async (path) => {
      await writeFile(path, "{");
      await truncate(path, 5_000_000_000);
    },
  ],
  ["a FIFO", fifo],
  [
    "a directory with something in it",
    async (path) => {
      await mkdir(path);
      await writeFile(join(path, "x"), "");
    },
  ],
  [
    "a symbolic link to a lease",
    async (path) => {
      await writeFile(join(scratch, "x"), lease());
      await symlink(join(scratch, "x"), path);
    },
  ],
  ["a symbolic link to nowhere", (path) => symlink("/nonexistent/x", path)],
];

function lease(changes: object = {}): string {
  return JSON.stringify({ version: 1, address: "10.0.0.0", block, owner: owner("a"), time: "", ...changes });
}

describe.each(foreign)("%s", (_, put) => {
  test("in the place of a lease keeps that address from being given, and no other; it is reported", async () => {
    await put(join(blockPath, "10.0.0.0"));
    expect(await store.leaseAt("10.0.0.0")).toBe("damaged");
    expect(await store.list()).toEqual([]);
    expect(await reserve("b")).toBe("10.0.0.1");
    expect(await store.reserveAddress(owner("c"), block, "10.0.0.0", start)).toEqual({ kind: "taken" });
    const { damaged, setAside } = await store.recover([block]);
    expect(damaged).toEqual([expect.stringContaining(`Cannot read "${blockPath}/10.0.0.0" as a lease: `)]);
    expect(setAside).toEqual([]);
    expect(await store.taken(block)).toEqual(new Set(["10.0.0.0", "10.0.0.1"]));
    expect(await store.closeBlock(block)).toBe(false);
  });

  test("in the place of an owner's file is set aside, and hinders nobody", async () => {
    await put(ownerPath("b"));
    expect(await store.leaseOf(owner("b"))).toBeUndefined();
    expect(await reserve("b")).toBe("10.0.0.0");
    await put(ownerPath("c"));
    await store.release(owner("c"), start);
    await put(ownerPath("d"));
    const { setAside } = await store.recover([block]);
    expect(setAside).toHaveLength(3);
    expect(await store.owners()).toEqual([owner("b")]);
  });

  test("in the place of the free addresses is set aside, and the free addresses are found out", async () => {
    await reserve("a");
    await rm(join(blockPath, ".free"));
    await put(join(blockPath, ".free"));
    expect(await reserve("b")).toBe("10.0.0.1");
    await rm(join(blockPath, ".free"));
    await put(join(blockPath, ".free"));
    await store.release(owner("a"), start);
    const left = await Promise.all(["c", "d", "e", "f", "g", "h", "i", "j"].map((containerId) => reserve(containerId)));
    expect(left.filter((address) => address !== "full").toSorted()).toEqual([
      "10.0.0.0",
      ...["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7"],
    ]);
    expect((await store.recover([block])).setAside).toHaveLength(2);
  });
});

describe.each(foreign.slice(0, 1).concat(foreign.slice(-4)))("%s", (_, put) => {
  test("in the place of a block's directory is set aside by sync, and the other blocks go on", async () => {
    await store.openBlock("10.0.1.0/29");
    await rm(blockPath, { recursive: true });
    await put(blockPath);
    expect(addressOf(await store.reserve(owner("a"), "10.0.1.0/29", anyAddress()))).toBe("10.0.1.0");
    const other = new DiskLeases(directory);
    await rm(join(directory, "broken"), { recursive: true, force: true });
    await other.recover([block]);
    await other.openBlock(block);
    expect(await reserve("b")).toMatch(/^10\.0\.0\.[0-7]$/);
  });
});

test("names that belong to nobody are set aside by recover(), and hinder nobody before", async () => {
  await writeFile(join(blockPath, "README"), "");
  await writeFile(join(blockPath, "10.9.9.9"), lease());
  await mkdir(join(directory, "blocks/elsewhere"));
  await mkdir(join(directory, "blocks/10-0-0-1-29"));
  await writeFile(join(directory, "owners/README"), "");
  expect(await reserve("a")).toBe("10.0.0.0");
  expect(await store.blocks()).toEqual([block]);
  const { setAside, damaged } = await store.recover([block]);
  expect(setAside).toHaveLength(5);
  expect(setAside[0]).toMatch(new RegExp(`^${directory}/broken/10-0-0-0-29-10\\.9\\.9\\.9\\.[0-9a-f]{8}$`));
  expect(damaged).toEqual([]);
  expect((await store.recover([block])).setAside).toEqual(setAside);
});

test("a lease file copied under another address is nobody's lease, and its address is not given", async () => {
  await reserve("a");
  await link(join(blockPath, "10.0.0.0"), join(blockPath, "10.0.0.1"));
  expect(await store.leaseAt("10.0.0.1")).toBe("damaged");
  expect(await reserve("b")).toBe("10.0.0.2");
  expect((await store.recover([block])).damaged).toEqual([
    `Cannot read "${blockPath}/10.0.0.1" as a lease: it is the lease of 10.0.0.0 in 10.0.0.0/29`,
  ]);
});

test("recover() makes a directory whole that was copied without its hard links", async () => {
  await reserve("a");
  await reserve("b");
  const leases = await store.list();
  await cp(directory, join(scratch, "copy"), { recursive: true });
  const copy = new DiskLeases(join(scratch, "copy"));
  expect(await copy.leaseOf(owner("a"))).toBeUndefined();
  expect(await copy.recover([block])).toMatchObject({ damaged: [], setAside: [] });
  expect(await copy.leaseOf(owner("a"))).toEqual(leases.find(({ address }) => address === "10.0.0.0"));
  await copy.release(owner("b"), start);
  expect(await copy.taken(block)).toEqual(new Set(["10.0.0.0"]));
});

test("a lease whose owner's file is lost, or is not readable any more, is still the owner's", async () => {
  await reserve("a");
  await reserve("b");
  await rm(ownerPath("a"));
  await store.recover([block]);
  expect(await store.leaseOf(owner("a"))).toMatchObject({ address: "10.0.0.0" });
  await rm(ownerPath("b"));
  await writeFile(ownerPath("b"), "x");
  expect(await store.leaseOf(owner("b"))).toMatchObject({ address: "10.0.0.1" });
  await store.release(owner("b"), start);
  expect(await store.taken(block)).toEqual(new Set(["10.0.0.0"]));
});

test.each<[string, (path: string) => Promise<unknown>]>([
  ["nothing", (path) => rm(path)],
  ["half a lease", (path) => truncate(path, 20)],
  ["another lease", (path) => rm(path).then(() => cp(join(blockPath, "10.0.0.1"), path))],
  ["a directory", (path) => rm(path).then(() => mkdir(path))],
])("a pod that lives has its lease again, and the other name of it, where %s is", async (_, spoil) => {
  await reserve("a");
  await reserve("b");
  await spoil(join(blockPath, "10.0.0.0"));
  await store.openBlock(block, [{ owner: owner("a"), address: "10.0.0.0" }]);
  expect(await store.recover([block])).toMatchObject({ damaged: [] });
  expect(await store.leaseOf(owner("a"))).toMatchObject({ address: "10.0.0.0" });
  expect(await store.leaseOf(owner("b"))).toMatchObject({ address: "10.0.0.1" });
  await store.release(owner("a"), start);
  expect(await store.taken(block)).toEqual(new Set(["10.0.0.1"]));
});

test("a block is open when all pods that live have their leases, and not before", async () => {
  const renamed: string[][] = [];
  const rename: typeof files.rename = async (from, to) => {
    if (to === blockPath) {
      renamed.push(await readdir(from));
    }
    return files.rename(from, to);
  };
  await rm(directory, { recursive: true });
  const lost = new DiskLeases(directory, { ...files, rename });
  await lost.openBlock(block, [
    { owner: owner("a"), address: "10.0.0.3" },
    { owner: owner("b"), address: "10.0.0.5" },
  ]);
  expect(renamed).toEqual([["10.0.0.3", "10.0.0.5"]]);
});

test("a lease that is written while somebody looks for it is not taken for a damaged one", async () => {
  let isLate = true;
  const open: typeof files.open = async (path, ...more) => {
    if (path === ownerPath("a") && isLate) {
      isLate = false;
      await files.open(path, ...more).catch(() => reserve("a")); // nothing is there, and a moment later the lease
      throw Object.assign(new Error("nothing there"), { code: "ENOENT" });
    }
    return files.open(path, ...more);
  };
  expect(await new DiskLeases(directory, { ...files, open }).leaseOf(owner("a"))).toMatchObject({
    address: "10.0.0.0",
  });
  expect((await store.recover([block])).setAside).toEqual([]);
});

test("owners() reads no file of those that it leaves out", async () => {
  await reserve("a");
  await reserve("b");
  const opened: string[] = [];
  const open: typeof files.open = (path, ...more) => {
    opened.push(String(path));
    return files.open(path, ...more);
  };
  await new DiskLeases(directory, { ...files, open }).owners([owner("a")]);
  expect(opened).toEqual([ownerPath("b")]);
});

test("recover() opens a half closed block that has a lease, though it is not ours any more", async () => {
  await reserve("a");
  await rename(blockPath, join(directory, "blocks/.closed-10-0-0-0-29"));
  expect(await reserve("b")).toBe("closed");
  expect(await store.recover([])).toMatchObject({ reopened: [block], removed: [] });
  expect(await store.leaseOf(owner("a"))).toMatchObject({ address: "10.0.0.0" });
});

test("recover() removes intentions that nobody is at work on, and leaves young ones", async () => {
  await reserve("a");
  await reserve("b");
  await rm(join(blockPath, "10.0.0.0"));
  await rm(join(blockPath, "10.0.0.1"));
  await writeFile(join(directory, "owners/.0.new"), "");
  await writeFile(join(directory, "owners/.1.new"), "");
  for (const old of [ownerPath("a"), join(directory, "owners/.0.new")]) {
    await utimes(old, at(0), at(-61));
  }
  for (const young of [ownerPath("b"), join(directory, "owners/.1.new")]) {
    await utimes(young, at(0), at(-59));
  }
  await store.recover([block], start);
  expect((await readdir(join(directory, "owners"))).toSorted()).toEqual([".1.new", ownerFileName(owner("b"))]);
});

test("a free address that a killed process took out is given again when there is no other, at once", async () => {
  await store.openBlock("10.0.2.0/31");
  const give = (containerId: string) => store.reserve(owner(containerId), "10.0.2.0/31", anyAddress());
  await give("a");
  await rm(join(directory, "blocks/10-0-2-0-31/10.0.2.0")); // as if it had never come to the claim
  expect([addressOf(await give("b")), addressOf(await give("c")), addressOf(await give("d"))]).toEqual([
    "10.0.2.1",
    "10.0.2.0",
    "full",
  ]);
});

test("an address whose release was killed is given again after the owner's next release", async () => {
  await store.openBlock("10.0.2.0/32");
  await store.reserve(owner("a"), "10.0.2.0/32", anyAddress());
  expect(addressOf(await store.reserve(owner("b"), "10.0.2.0/32", anyAddress()))).toBe("full"); // it is seen as leased now
  await rm(join(directory, "blocks/10-0-2-0-32/10.0.2.0"));
  expect(addressOf(await store.reserve(owner("b"), "10.0.2.0/32", anyAddress()))).toBe("full");
  await store.release(owner("a"), start);
  expect(addressOf(await store.reserve(owner("b"), "10.0.2.0/32", anyAddress()))).toBe("10.0.2.0");
});

test("a state directory that is a file is named, with what is wrong with it", async () => {
  await writeFile(join(scratch, "file"), "");
  await expect(new DiskLeases(join(scratch, "file/leases")).openBlock(block)).rejects.toMatchObject({
    code: 5,
    message: expect.stringContaining(`Cannot open the block ${block} in "${scratch}/file/leases": ENOTDIR`),
  });
});

/** Counts the calls, also those of the files that are opened. */
function counted(): { operations: typeof files; count: () => number } {
  let calls = 0;
  const watch = <Part extends object>(part: Part): Part =>
    new Proxy(part, {
      get(target, key) {
        const value = Reflect.get(target, key);
        if (typeof value !== "function") {
          return value;
        }
        return async (...args: unknown[]) => {
          calls++;
          const result = await Reflect.apply(value, target, args);
          return key === "open" ? watch(result as object) : result;
        };
      },
    });
  return { operations: watch({ ...files }), count: () => calls };
}

test("as many calls are needed with 4,000 leases as with 10", async () => {
  const { operations, count } = counted();
  const large = new DiskLeases(join(scratch, "large"), operations);
  await large.openBlock("10.1.0.0/20");
  const callsWith = async (leases: number) => {
    await fill(join(scratch, "large"), leases);
    const before = count();
    const offer = await large.reserve(owner("x"), "10.1.0.0/20", anyAddress());
    await large.leaseOf(owner("x"));
    await large.leaseAt(addressOf(offer));
    await large.release(owner("x"), start);
    return count() - before;
  };
  const few = await callsWith(10);
  expect(few).toBeLessThan(50);
  expect(await callsWith(4000)).toBe(few);
  expect((await stat(join(scratch, "large/blocks/10-1-0-0-20/.free"))).size).toBe(ringBytes(4096));
});

/** As if so many had been leased, and seen to be. */
async function fill(place: string, leases: number): Promise<void> {
  const filler = new DiskLeases(place);
  const path = join(place, "blocks/10-1-0-0-20");
  for (let index = 0; index < leases; index++) {
    await writeFile(join(path, `10.1.${index >> 8}.${index & 255}`), "");
  }
  await filler.recover(["10.1.0.0/20"]);
}
