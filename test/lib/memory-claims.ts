/** Block claims of one process that go with it: for clusters that are played in tests. */
import { isDeepStrictEqual } from "node:util";
import type { BlockClaims } from "../../src/datastore/block-claims.ts";
import { type Block, blockName, parseDocument } from "../../src/datastore/documents.ts";

/** All nodes share the documents, by name; each has claims of its own. */
export class MemoryClaims implements BlockClaims {
  readonly #documents: Map<string, unknown>;
  /** Called before each access: it may throw, and it may take its time. */
  readonly #access: () => Promise<void> | void;

  constructor(documents: Map<string, unknown>, access: () => Promise<void> | void = () => {}) {
    this.#documents = documents;
    this.#access = access;
  }

  claim(block: Block): Promise<boolean> {
    return this.#attempt("claim", block.cidr, () => {
      const name = blockName(block.cidr);
      const isFree = !this.#documents.has(name);
      if (isFree) {
        this.#documents.set(name, block);
      }
      return isFree;
    });
  }

  replace(expected: Block, next: Block): Promise<boolean> {
    return this.#attempt("replace", expected.cidr, () => {
      const isExpected = this.#isAsExpected(expected);
      if (isExpected) {
        this.#documents.set(blockName(expected.cidr), next);
      }
      return isExpected;
    });
  }

  giveBack(expected: Block): Promise<boolean> {
    return this.#attempt("give back", expected.cidr, () => {
      return this.#isAsExpected(expected) && this.#documents.delete(blockName(expected.cidr));
    });
  }

  read(cidr: string): Promise<Block | undefined> {
    return this.#attempt("read", cidr, () => {
      const document = this.#documents.get(blockName(cidr));
      return document === undefined ? undefined : parseDocument("block", blockName(cidr), document);
    });
  }

  #isAsExpected(expected: Block): boolean {
    return isDeepStrictEqual(this.#documents.get(blockName(expected.cidr)), expected);
  }

  async #attempt<Result>(verb: string, cidr: string, work: () => Result): Promise<Result> {
    try {
      await this.#access();
      return work();
    } catch (error) {
      throw new Error(`Cannot ${verb} the block "${cidr}": ${(error as Error).message}`, { cause: error });
    }
  }
}
