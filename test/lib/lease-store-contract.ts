/** What every lease store does, whatever it is made of. */
import { describe, expect, test } from "@jest/globals";
import { parseAddress } from "../../src/cidr.ts";
import type { Choice, LeaseOwner, LeaseStore, Offer } from "../../src/ipam/lease-store.ts";

export const start = new Date("2026-01-01T00:00:00Z");

export function at(seconds: number): Date {
  return new Date(start.getTime() + seconds * 1000);
}

export function seconds(date: Date): number {
  return date.getTime() / 1000;
}

export function owner(containerId: string, others: Partial<LeaseOwner> = {}): LeaseOwner {
  return { network: "pods", containerId, interfaceName: "eth0", ...others };
}

export function anyAddress(now: Date = start, changes: Partial<Choice> = {}): Choice {
  return { now, mayGive: () => true, isRested: () => true, ...changes };
}

/** The address, or why there is none. */
export function addressOf(offer: Offer): string {
  return offer.kind === "lease" ? offer.lease.address : offer.kind;
}

const block = "10.0.0.0/30";
const addresses = ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3"];

/** @param create a store without any block */
export function describeLeaseStore(kind: string, create: () => Promise<LeaseStore>): void {
  describe(kind, () => {
    async function opened(...blocks: string[]): Promise<LeaseStore> {
      const store = await create();
      for (const each of blocks.length === 0 ? [block] : blocks) {
        await store.openBlock(each);
      }
      return store;
    }

    const reserve = async (store: LeaseStore, containerId: string, now = start) =>
      addressOf(await store.reserve(owner(containerId), block, anyAddress(now)));

    async function reserveAll(store: LeaseStore): Promise<string[]> {
      return [
        await reserve(store, "a"),
        await reserve(store, "b"),
        await reserve(store, "c"),
        await reserve(store, "d"),
      ];
    }

    test("reserve() gives every address once, then says that the block is full", async () => {
      const store = await opened();
      expect(await reserveAll(store)).toEqual(addresses);
      expect(await reserve(store, "e")).toBe("full");
      expect(await store.leaseOf(owner("e"))).toBeUndefined();
    });

    test("reserve() tells whose the lease is, and when and where it was given", async () => {
      const store = await opened();
      const who = owner("a", { pod: "web", namespace: "shop" });
      const lease = { address: "10.0.0.0", block, owner: who, time: "2026-01-01T00:00:00.000Z" };
      expect(await store.reserve(who, block, anyAddress())).toEqual({ kind: "lease", lease });
      expect(await store.leaseOf(owner("a"))).toEqual(lease);
      expect(await store.leaseAt("10.0.0.0")).toEqual(lease);
      expect(await store.list()).toEqual([lease]);
      expect(await store.owners()).toEqual([who]);
      expect(await store.taken(block)).toEqual(new Set(["10.0.0.0"]));
    });

    test("reserve() gives what was never given first, then what was released longest ago", async () => {
      const store = await opened();
      await reserve(store, "a");
      await reserve(store, "b");
      await reserve(store, "c");
      await store.release(owner("b"), at(1));
      await store.release(owner("a"), at(2));
      expect([await reserve(store, "e"), await reserve(store, "f"), await reserve(store, "g")]).toEqual([
        "10.0.0.3",
        "10.0.0.1",
        "10.0.0.0",
      ]);
    });

    test("reserve() says since when the address rests that rests longest", async () => {
      const store = await opened();
      await reserveAll(store);
      await store.release(owner("c"), at(5));
      await store.release(owner("a"), at(7));
      const resting = { kind: "resting", since: seconds(at(5)) };
      const choice = anyAddress(at(8), { isRested: (releasedAt) => releasedAt < seconds(at(5)) });
      expect(await store.reserve(owner("e"), block, choice)).toEqual(resting);
      expect(await store.reserve(owner("e"), block, choice)).toEqual(resting);
      expect(await reserve(store, "e")).toBe("10.0.0.2");
    });

    test("reserve() passes over what may not be given, which keeps its place", async () => {
      const store = await opened();
      const mayGive = (address: number) => address === parseAddress("10.0.0.2");
      const give = (containerId: string) => store.reserve(owner(containerId), block, anyAddress(start, { mayGive }));
      expect([addressOf(await give("a")), addressOf(await give("b"))]).toEqual(["10.0.0.2", "full"]);
      expect([await reserve(store, "b"), await reserve(store, "c"), await reserve(store, "d")]).toEqual([
        "10.0.0.0",
        "10.0.0.1",
        "10.0.0.3",
      ]);
    });

    test.each(["0.0.0.0/32", "255.255.255.255/32", "255.255.255.252/30", "10.0.0.0/20"])(
      "reserve() gives from %s",
      async (each) => {
        const store = await opened(each);
        expect(addressOf(await store.reserve(owner("a"), each, anyAddress()))).toBe(each.split("/")[0]);
        await store.release(owner("a"), start);
        expect(await store.taken(each)).toEqual(new Set());
      },
    );

    test("reserve() and reserveAddress() give nothing from a block that was never opened", async () => {
      for (const store of [await create(), await opened("10.0.1.0/30")]) {
        expect(await reserve(store, "a")).toBe("closed");
        expect(await store.reserveAddress(owner("a"), block, "10.0.0.1", start)).toEqual({ kind: "closed" });
        expect(await store.leaseOf(owner("a"))).toBeUndefined();
        expect(await store.owners()).toEqual([]);
      }
    });

    test("an empty store answers everything", async () => {
      const store = await create();
      await store.release(owner("a"), start);
      expect(await store.leaseOf(owner("a"))).toBeUndefined();
      expect(await store.leaseAt("10.0.0.1")).toBeUndefined();
      expect(await store.taken(block)).toBeUndefined();
      expect(await store.closeBlock(block)).toBe(false);
      await store.forgetBlock(block);
      expect([await store.blocks(), await store.list(), await store.owners()]).toEqual([[], [], []]);
    });

    test("reserveAddress() gives the address, unless somebody has it", async () => {
      const store = await opened();
      const lease = { address: "10.0.0.2", block, owner: owner("a"), time: start.toISOString() };
      expect(await store.reserveAddress(owner("a"), block, "10.0.0.2", start)).toEqual({ kind: "lease", lease });
      expect(await store.reserveAddress(owner("b"), block, "10.0.0.2", start)).toEqual({ kind: "taken" });
      expect(await store.leaseOf(owner("b"))).toBeUndefined();
      expect([await reserve(store, "c"), await reserve(store, "d"), await reserve(store, "e")]).toEqual([
        "10.0.0.0",
        "10.0.0.1",
        "10.0.0.3",
      ]);
      expect(await reserve(store, "f")).toBe("full");
    });

    test("an address that was taken by name and released waits its turn like any other", async () => {
      const store = await opened();
      await store.reserveAddress(owner("x"), block, "10.0.0.1", start);
      await store.release(owner("x"), at(1));
      expect(await reserveAll(store)).toEqual(["10.0.0.0", "10.0.0.2", "10.0.0.3", "10.0.0.1"]);
    });

    test("release() frees the owner's address and no other, and may be repeated", async () => {
      const store = await opened();
      await reserveAll(store);
      await store.release(owner("b"), start);
      await store.release(owner("b"), start);
      await store.release(owner("nobody"), start);
      expect(await store.leaseOf(owner("b"))).toBeUndefined();
      expect(await store.leaseAt("10.0.0.1")).toBeUndefined();
      expect((await store.taken(block))?.size).toBe(3);
      expect(await reserve(store, "e")).toBe("10.0.0.1");
      expect(await reserve(store, "f")).toBe("full");
    });

    test.each<[string, Partial<LeaseOwner>]>([
      ["another interface", { interfaceName: "net1" }],
      ["another network", { network: "storage" }],
      ["another container", { containerId: "A" }],
    ])("%s is another owner", async (_, others) => {
      const store = await opened();
      await reserve(store, "a");
      await store.reserve(owner("a", others), block, anyAddress());
      await store.release(owner("a"), start);
      expect(await store.leaseOf(owner("a", others))).toMatchObject({ address: "10.0.0.1" });
    });

    test("openBlock() changes nothing in a block that is open", async () => {
      const store = await opened();
      await reserve(store, "a");
      await store.openBlock(block);
      expect(await store.leaseOf(owner("a"))).toMatchObject({ address: "10.0.0.0" });
      expect(await reserve(store, "b")).toBe("10.0.0.1");
    });

    test("openBlock() leases to who lives what they have, and to others only what is left", async () => {
      const store = await create();
      const live = [
        { owner: owner("x", { pod: "web", namespace: "shop" }), address: "10.0.0.2" },
        { owner: owner("y"), address: "10.0.0.0" },
        { owner: owner("z"), address: "10.0.0.0" },
        { owner: owner("y"), address: "10.0.0.3" },
      ];
      await store.openBlock(block, live.slice(0, 3), start);
      await store.openBlock(block, live, start);
      const lease = { address: "10.0.0.2", block, owner: live[0]?.owner, time: start.toISOString() };
      expect(await store.leaseOf(owner("x"))).toEqual(lease);
      expect((await store.leaseAt("10.0.0.0")) as object).toMatchObject({ owner: owner("y") });
      expect(await store.leaseOf(owner("z"))).toBeUndefined();
      expect([await reserve(store, "a"), await reserve(store, "b"), await reserve(store, "c")]).toEqual([
        "10.0.0.1",
        "10.0.0.3",
        "full",
      ]);
      await store.release(owner("x"), start);
      expect(await reserve(store, "c")).toBe("10.0.0.2");
    });

    test("openBlock() does the same in one that was closed", async () => {
      const store = await opened();
      await store.closeBlock(block);
      await store.openBlock(block, [{ owner: owner("x"), address: "10.0.0.0" }]);
      expect(await reserve(store, "a")).toBe("10.0.0.1");
    });

    test("adopt() leases an address that nobody has, and tells which lease stands against it", async () => {
      const store = await opened();
      await reserve(store, "a");
      const adopt = (containerId: string, address: string) =>
        store.adopt({ owner: owner(containerId), address }, block, start);
      const lease = { address: "10.0.0.1", block, owner: owner("x"), time: start.toISOString() };
      expect(await adopt("x", "10.0.0.1")).toEqual(lease);
      expect(await adopt("x", "10.0.0.1")).toEqual(lease);
      expect(await adopt("x", "10.0.0.2")).toEqual(lease);
      expect(await adopt("y", "10.0.0.0")).toMatchObject({ address: "10.0.0.0", owner: owner("a") });
      expect(await store.leaseOf(owner("y"))).toBeUndefined();
      expect([await reserve(store, "b"), await reserve(store, "c")]).toEqual(["10.0.0.2", "10.0.0.3"]);
    });

    test("adopt() opens no block", async () => {
      const store = await opened();
      await store.closeBlock(block);
      expect(await store.adopt({ owner: owner("x"), address: "10.0.0.1" }, block, start)).toBeUndefined();
      expect([await store.blocks(), await store.owners()]).toEqual([[], []]);
    });

    test("owners() leaves out those that it is told", async () => {
      const store = await opened();
      await reserve(store, "a");
      await reserve(store, "b");
      expect(await store.owners([owner("a"), owner("nobody")])).toEqual([owner("b")]);
    });

    test("closeBlock() refuses while there is a lease, and the block stays open", async () => {
      const store = await opened();
      await reserve(store, "a");
      expect(await store.closeBlock(block)).toBe(false);
      expect(await store.blocks()).toEqual([block]);
      expect(await reserve(store, "b")).toBe("10.0.0.1");
    });

    test("closeBlock() ends the leasing, until openBlock(), which knows the order of releases still", async () => {
      const store = await opened();
      await reserve(store, "a");
      await store.release(owner("a"), start);
      expect(await store.closeBlock(block)).toBe(true);
      expect([await reserve(store, "b"), await store.blocks(), await store.taken(block)]).toEqual([
        "closed",
        [],
        undefined,
      ]);
      expect(await store.closeBlock(block)).toBe(false);
      await store.openBlock(block);
      expect(await reserveAll(store)).toEqual(["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.0"]);
    });

    test("forgetBlock() drops a closed block for good, and leaves an open one", async () => {
      const store = await opened(block, "10.0.1.0/30");
      await reserve(store, "a");
      await store.release(owner("a"), start);
      await store.forgetBlock("10.0.1.0/30");
      expect(await store.closeBlock(block)).toBe(true);
      await store.forgetBlock(block);
      expect(await store.blocks()).toEqual(["10.0.1.0/30"]);
      await store.openBlock(block);
      expect(await reserve(store, "a")).toBe("10.0.0.0");
    });

    test("recover() opens half closed blocks that are ours and drops the others", async () => {
      const store = await opened(block, "10.0.1.0/30", "10.0.2.0/30");
      await store.closeBlock(block);
      await store.closeBlock("10.0.1.0/30");
      expect(await store.recover([block])).toEqual({
        reopened: [block],
        removed: ["10.0.1.0/30"],
        damaged: [],
        setAside: [],
      });
      expect((await store.blocks()).toSorted()).toEqual([block, "10.0.2.0/30"]);
      expect(await reserve(store, "a")).toBe("10.0.0.0");
    });

    test("recover() changes nothing where nothing is wrong", async () => {
      const store = await opened();
      await reserve(store, "a");
      await reserve(store, "b");
      await store.release(owner("a"), start);
      const leases = await store.list();
      expect(await store.recover([block])).toEqual({ reopened: [], removed: [], damaged: [], setAside: [] });
      expect(await store.list()).toEqual(leases);
      expect([await reserve(store, "c"), await reserve(store, "d"), await reserve(store, "e")]).toEqual([
        "10.0.0.2",
        "10.0.0.3",
        "10.0.0.0",
      ]);
    });

    test("many at once never get one address twice, and find out when there is no more", async () => {
      const store = await opened("10.0.0.0/28");
      const offers = await Promise.all(
        Array.from({ length: 24 }, (_, index) => store.reserve(owner(`c${index}`), "10.0.0.0/28", anyAddress())),
      );
      const given = offers.filter(({ kind }) => kind === "lease").map(addressOf);
      expect(new Set(given).size).toBe(16);
      expect(given).toHaveLength(16);
      expect(offers.filter(({ kind }) => kind === "full")).toHaveLength(8);
    });
  });
}
