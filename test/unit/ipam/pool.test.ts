import { beforeEach, describe, expect, test } from "@jest/globals";
import { tunnelOwner } from "../../../src/ipam/lease-store.ts";
import { MemoryLeases } from "../../../src/ipam/memory-leases.ts";
import { type NodeAddresses, Pool } from "../../../src/ipam/pool.ts";
import { at, owner } from "../../lib/lease-store-contract.ts";

const node: NodeAddresses = { blocks: ["10.0.0.0/30"], tunnelAddress: "10.0.0.0" };
const two: NodeAddresses = { blocks: ["10.0.9.0/31", "10.0.1.0/31"], tunnelAddress: "10.0.9.0" };

let store: MemoryLeases;
let pool: Pool;
/** Seconds since the test's begin. */
let now: number;

beforeEach(async () => {
  store = new MemoryLeases();
  for (const block of [...node.blocks, ...two.blocks]) {
    await store.openBlock(block);
  }
  now = 0;
  pool = new Pool(store, () => at(now));
});

async function reserve(containerId: string, addresses = node, wanted?: string): Promise<string> {
  return (await pool.reserve(owner(containerId), addresses, wanted)).address;
}

test("reserve() gives every address of a block but the tunnel's, each once", async () => {
  expect([await reserve("a"), await reserve("b"), await reserve("c")]).toEqual(["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
});

test("reserve() goes on in the second block when the first is full", async () => {
  expect([await reserve("a", two), await reserve("b", two), await reserve("c", two)]).toEqual([
    "10.0.9.1",
    "10.0.1.0",
    "10.0.1.1",
  ]);
});

test("reserve() gives the same owner the lease it has, also from a block that gives nothing new", async () => {
  const first = await pool.reserve(owner("a"), node);
  expect(await pool.reserve(owner("a"), node)).toEqual(first);
  expect(await pool.reserve(owner("a"), two)).toEqual(first);
});

describe("an address that was released less than a minute ago", () => {
  beforeEach(async () => {
    await reserve("a", two);
    await pool.release(owner("a"));
  });

  test("is not given while another block has one at rest", async () => {
    now = 59;
    expect([await reserve("b", two), await reserve("c", two)]).toEqual(["10.0.1.0", "10.0.1.1"]);
  });

  test("is given after that minute", async () => {
    now = 60;
    expect(await reserve("b", two)).toBe("10.0.9.1");
  });

  test("is given where nothing else is free, the one that rests longest first, of whatever block", async () => {
    now = 1;
    const [b, c] = [await reserve("b", two), await reserve("c", two)];
    now = 2;
    await pool.release(owner("c"));
    now = 3;
    await pool.release(owner("b"));
    expect([await reserve("d", two), await reserve("e", two), await reserve("f", two)]).toEqual(["10.0.9.1", c, b]);
  });

  test.each([
    ["is at rest as before when the clock was set back a little", -30, "10.0.1.0"],
    ["does not rest for long when the clock was set back by a year", -31_536_000, "10.0.9.1"],
    ["does not rest when the clock was set forward by a year", 31_536_000, "10.0.9.1"],
  ])("%s", async (_, step, address) => {
    now = step;
    expect(await reserve("b", two)).toBe(address);
  });
});

test("reserve() says how many leases and blocks there are when no address is free", async () => {
  for (const containerId of ["a", "b", "c"]) {
    await reserve(containerId, two);
  }
  await expect(reserve("late", two)).rejects.toMatchObject({
    code: 100,
    message:
      'Cannot reserve an address for "late": no address is free, leases 3 of 3, blocks 2 (10.0.9.0/31, 10.0.1.0/31)',
  });
});

test("reserve() refuses on a node without blocks", async () => {
  await expect(reserve("early", { blocks: [] })).rejects.toMatchObject({
    code: 100,
    message:
      'Cannot reserve an address for "early": no address is free, leases 0 of 0, the node has no block of a pool that pods get addresses from unasked',
  });
});

test("reserve() passes over a block that sync has not opened", async () => {
  expect(await reserve("a", { blocks: ["10.7.0.0/26", ...node.blocks] })).toBe("10.0.0.0");
});

test("reserve() names the place when sync has opened none of the blocks", async () => {
  await expect(reserve("a", { blocks: ["10.7.0.0/26", "10.8.0.0/26"] })).rejects.toMatchObject({
    code: 11,
    message:
      'Cannot reserve an address for "a": 10.7.0.0/26, 10.8.0.0/26 cannot be leased from in "memory", sync has not opened it yet or uses another stateDir',
  });
});

test("reserve() gives nothing of a reserved CIDR, and what is left of a block that it cuts", async () => {
  const reserved = ["10.0.0.2/31", "10.0.5.0/24"];
  expect(await reserve("a", { blocks: node.blocks, reserved })).toBe("10.0.0.0");
  expect(await reserve("b", { blocks: node.blocks, reserved })).toBe("10.0.0.1");
  await expect(reserve("c", { blocks: node.blocks, reserved })).rejects.toMatchObject({ code: 100 });
  expect(await reserve("d")).toBe("10.0.0.2");
});

describe("a wanted address", () => {
  test("is given, and given again", async () => {
    expect(await reserve("a", node, "10.0.0.3")).toBe("10.0.0.3");
    expect(await reserve("a", node, "10.0.0.3")).toBe("10.0.0.3");
  });

  test("is given though it was released just now", async () => {
    await reserve("a", node, "10.0.0.3");
    await pool.release(owner("a"));
    expect(await reserve("b", node, "10.0.0.3")).toBe("10.0.0.3");
  });

  test.each<[string, string, NodeAddresses, number, string]>([
    [
      "in no block",
      "10.0.1.1",
      node,
      7,
      "it is not in the blocks that this node gives from, allowed are the others in 10.0.0.0/30",
    ],
    [
      "on a node without block",
      "10.0.1.1",
      { blocks: [] },
      7,
      "it is not in the blocks that this node gives from, which has none",
    ],
    ["that is the tunnel's", "10.0.0.0", node, 7, "it is the address of the tunnel"],
    ["that is reserved", "10.0.0.3", { ...node, reserved: ["10.0.0.2/31"] }, 7, "it is reserved by 10.0.0.2/31"],
    [
      "that another has",
      "10.0.0.1",
      node,
      101,
      '"eth0" of the container "other" has it, allowed is an address that is',
    ],
    ["of a closed block", "10.7.0.1", { blocks: ["10.7.0.0/26"] }, 11, '10.7.0.0/26 cannot be leased from in "memory"'],
  ])("%s is refused", async (_, address, addresses, code, problem) => {
    await reserve("other");
    await expect(reserve("a", addresses, address)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(`Cannot reserve ${address} for "a": ${problem}`),
    });
    expect(await pool.leaseOf(owner("a"))).toBeUndefined();
  });

  test("that is not the one that the owner has is refused", async () => {
    await reserve("a");
    await expect(reserve("a", node, "10.0.0.2")).rejects.toMatchObject({
      code: 101,
      message: 'Cannot reserve 10.0.0.2 for "a": it has 10.0.0.1 already, allowed is one address an interface',
    });
  });
});

test("the tunnel gets its address, and no network owns it, whatever its name", async () => {
  expect(await pool.reserve(tunnelOwner, node, "10.0.0.0")).toMatchObject({ address: "10.0.0.0" });
  await pool.reserve(owner("a", { network: tunnelOwner.network }), node);
  expect(await pool.ownersIn(tunnelOwner.network)).toEqual([owner("a", { network: tunnelOwner.network })]);
});

test("ownersIn() lists the owners of one network", async () => {
  await reserve("a");
  await pool.reserve(owner("b", { network: "storage" }), node);
  expect(await pool.ownersIn("pods")).toEqual([owner("a")]);
});

test("ownerOf() tells who has an address", async () => {
  await reserve("a");
  expect(await pool.ownerOf("10.0.0.1")).toEqual(owner("a"));
  expect(await pool.ownerOf("10.0.0.2")).toBeUndefined();
  expect(await pool.ownerOf("192.0.2.1")).toBeUndefined();
});

test("countFree() counts what pods can get, of the blocks that are open", async () => {
  const all = { ...node, blocks: [...node.blocks, ...two.blocks, "10.7.0.0/26"], reserved: ["10.0.1.0/32"] };
  expect(await pool.countFree(all)).toBe(6);
  await reserve("a", all);
  await pool.reserve(tunnelOwner, node, "10.0.0.0");
  expect(await pool.countFree(all)).toBe(5);
});
