/** What every kind of datastore has to do with block claims, as tests. */
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import type { BlockClaims } from "../../src/datastore/block-claims.ts";
import type { Block } from "../../src/datastore/documents.ts";

/** A real datastore that can be away. */
export interface ClaimsWorld {
  /** Another one on the same datastore, as another node has it. */
  open(): BlockClaims;
  /** Writes a block's document as an operator would, valid or not, in place of the one that is there. */
  put(name: string, data: unknown): Promise<void>;
  /** The same for a node, which has no other document yet. */
  putNode(name: string, data: unknown): Promise<void>;
  /** The datastore cannot be reached until `comeBack`. */
  goAway(): Promise<void>;
  comeBack(): Promise<void>;
  close(): Promise<void>;
}

const free: Block = { cidr: "10.100.0.0/26", node: "node1", claimOrder: 1, instance: "one" };
const others: Block = { ...free, node: "node2", instance: "two" };
/** As an operator may write it. */
const bare: Block = { cidr: "10.100.0.64/26", node: "node1" };

export function describeBlockClaims(name: string, makeWorld: () => Promise<ClaimsWorld>): void {
  describe(`block claims in the ${name} datastore`, () => {
    let world: ClaimsWorld;
    let claims: BlockClaims;
    let rival: BlockClaims;

    beforeEach(async () => {
      world = await makeWorld();
      [claims, rival] = [world.open(), world.open()];
    });

    afterEach(() => world.close());

    test("claim() takes a free block, and everybody can read whose it is", async () => {
      expect(await rival.read(free.cidr)).toBeUndefined();
      expect(await claims.claim(free)).toBe(true);
      expect(await rival.read(free.cidr)).toEqual(free);
    });

    test("claim() of a block that somebody has changes nothing", async () => {
      await claims.claim(free);
      expect(await rival.claim(others)).toBe(false);
      expect(await claims.claim(free)).toBe(false);
      expect(await claims.read(free.cidr)).toEqual(free);
    });

    test("claim() leaves a block alone whose document is wrong", async () => {
      await world.put("10.100.0.0-26", { cidr: free.cidr, node: 7 });
      expect(await claims.claim(free)).toBe(false);
      await expect(claims.read(free.cidr)).rejects.toThrow('Cannot read the block "10.100.0.0/26": ');
      expect(await claims.replace(free, others)).toBe(false);
      expect(await claims.giveBack(free)).toBe(false);
    });

    test("of eight that claim one block at once exactly one gets it", async () => {
      const rivals = Array.from({ length: 8 }, (_, index) => ({ ...free, node: `node${index}` }));
      const answers = await Promise.all(rivals.map((block) => world.open().claim(block)));
      expect(answers.filter((isWon) => isWon)).toHaveLength(1);
      expect(await claims.read(free.cidr)).toEqual(rivals[answers.indexOf(true)]);
    });

    test("replace() exchanges a block that is as expected, also one without claim order and instance", async () => {
      await world.put("10.100.0.64-26", bare);
      const adopted = { ...bare, claimOrder: 0, instance: "one" };
      expect(await claims.replace(bare, adopted)).toBe(true);
      expect(await rival.read(bare.cidr)).toEqual(adopted);
    });

    test.each([
      ["another instance has it", { ...free, instance: "two" }],
      ["another node has it", others],
      ["it has no instance any more", { cidr: free.cidr, node: free.node, claimOrder: 1 }],
      ["its claim order is another", { ...free, claimOrder: 2 }],
    ])("replace() and giveBack() change nothing when %s", async (_, changed) => {
      await world.put("10.100.0.0-26", changed);
      expect(await claims.replace(free, { ...free, claimOrder: 7 })).toBe(false);
      expect(await claims.giveBack(free)).toBe(false);
      expect(await claims.read(free.cidr)).toEqual(changed);
    });

    test("replace() and giveBack() of a block that nobody has make none", async () => {
      expect(await claims.replace(free, others)).toBe(false);
      expect(await claims.giveBack(free)).toBe(false);
      expect(await claims.read(free.cidr)).toBeUndefined();
    });

    test("of eight that replace one block at once exactly one does", async () => {
      await claims.claim(free);
      const rivals = Array.from({ length: 8 }, (_, index) => ({ ...free, instance: `rival-${index}` }));
      const answers = await Promise.all(rivals.map((block) => world.open().replace(free, block)));
      expect(answers.filter((isWon) => isWon)).toHaveLength(1);
      expect(await claims.read(free.cidr)).toEqual(rivals[answers.indexOf(true)]);
    });

    test("of one that replaces a block and one that gives it back exactly one does", async () => {
      await claims.claim(free);
      const [isReplaced, isGivenBack] = await Promise.all([claims.replace(free, others), rival.giveBack(free)]);
      expect([isReplaced, isGivenBack].filter((isDone) => isDone)).toHaveLength(1);
      expect(await claims.read(free.cidr)).toEqual(isReplaced ? others : undefined);
    });

    test("a block that was given back can be claimed by another node", async () => {
      await claims.claim(free);
      expect(await claims.giveBack(free)).toBe(true);
      expect(await claims.giveBack(free)).toBe(false);
      expect(await rival.claim(others)).toBe(true);
      expect(await claims.read(free.cidr)).toEqual(others);
    });

    test("hasNode() knows a node by its document, also by one that says something wrong", async () => {
      expect(await claims.hasNode("node1")).toBe(false);
      await world.putNode("node1", { name: "node1" });
      expect(await claims.hasNode("node1")).toBe(true);
      expect(await claims.hasNode("node")).toBe(false);
    });

    test("while the datastore is away each of them throws, and nothing is changed", async () => {
      await claims.claim(free);
      await world.goAway();
      await expect(claims.claim({ ...bare, instance: "one" })).rejects.toThrow(
        'Cannot claim the block "10.100.0.64/26"',
      );
      await expect(claims.replace(free, others)).rejects.toThrow('Cannot replace the block "10.100.0.0/26"');
      await expect(claims.giveBack(free)).rejects.toThrow('Cannot give back the block "10.100.0.0/26"');
      await expect(claims.read(free.cidr)).rejects.toThrow('Cannot read the block "10.100.0.0/26"');
      await expect(claims.hasNode("node1")).rejects.toThrow('Cannot look for the node "node1"');
      await world.comeBack();
      expect(await claims.read(free.cidr)).toEqual(free);
      expect(await claims.read(bare.cidr)).toBeUndefined();
      expect(await claims.claim(bare)).toBe(true);
    });
  });
}
