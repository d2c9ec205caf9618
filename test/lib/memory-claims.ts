/** Block claims of one process that go with it: for clusters that are played in tests. */
import { isDeepStrictEqual } from "node:util";
import type { BlockClaims } from "../../src/datastore/block-claims.ts";
import { type Block, blockName, parseDocument } from "../../src/datastore/documents.ts";

export class MemoryClaims implements BlockClaims {
  readonly #documents: Map<string, unknown>;
  readonly #nodes: ReadonlyMap<string, unknown>;
  /** Called before each access: it may throw, and it may take its time. */
  readonly #access: () => Promise<void> | void;

  /** Each node has claims of its own, on the same documents. */
  constructor(
    { blocks, nodes }: { readonly blocks: Map<string, unknown>; readonly nodes: ReadonlyMap<string, unknown> },
    access: () => Promise<void> | void,
  ) {
    this.#documents = blocks;
    this.#nodes = nodes;
    this.#access = access;
  }

  claim(block: Block): Promise<boolean> {
    return this.#attempt(`claim the block "${block.cidr}"`, () => {
      const name = blockName(block.cidr);
      const isFree = !this.#documents.has(name);
      if (isFree) {
        this.#documents.set(name, block);
      }
      return isFree;
    });
  }

  replace(expected: Block, next: Block): Promise<boolean> {
    return this.#attempt(`replace the block "${expected.cidr}"`, () => {
      const isExpected = this.#isAsExpected(expected);
      if (isExpected) {
        this.#documents.set(blockName(expected.cidr), next);
      }
      return isExpected;
    });
  }

  giveBack(expected: Block): Promise<boolean> {
    return this.#attempt(`give back the block "${expected.cidr}"`, () => {
      return this.#isAsExpected(expected) && this.#documents.delete(blockName(expected.cidr));
    });
  }

  read(cidr: string): Promise<Block | undefined> {
    return this.#attempt(`read the block "${cidr}"`, () => {
      const document = this.#documents.get(blockName(cidr));
      return document === undefined ? undefined : parseDocument("block", blockName(cidr), document);
    });
  }

  hasNode(name: string): Promise<boolean> {
    return this.#attempt(`look for the node "${name}"`, () => this.#nodes.has(name));
  }

  #isAsExpected(expected: Block): boolean {
    return isDeepStrictEqual(this.#documents.get(blockName(expected.cidr)), expected);
  }

  async #attempt<Result>(action: string, work: () => Result): Promise<Result> {
    try {
      await this.#access();
      return work();
    } catch (error) {
      throw new Error(`Cannot ${action}: ${(error as Error).message}`, { cause: error });
    }
  }
}
