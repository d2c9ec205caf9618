/** Blocks in the datastore, as nodes claim them and give them back: compare and swap, so that a race has one winner. */
import type { Block } from "./documents.ts";

/**
 * Each method changes one block or nothing. They throw an error that says what could not be done to which block when
 * the datastore is away or does not let us write.
 */
export interface BlockClaims {
  /** @returns false when somebody has the block already, also one that cannot be read: of two that try at once one gets true */
  claim(block: Block): Promise<boolean>;
  /** @returns false when the block is not as expected any more: nothing is changed then */
  replace(expected: Block, next: Block): Promise<boolean>;
  /** @returns false when the block is not as expected any more */
  giveBack(expected: Block): Promise<boolean>;
  /**
   * As it is in the datastore at this moment; `undefined` when nobody has it.
   *
   * @throws also when what is there is no block
   */
  read(cidr: string): Promise<Block | undefined>;
  /** Whether there is a document of the node at this moment, right or wrong: a watch may have been late to tell. */
  hasNode(name: string): Promise<boolean>;
}
