/** Blocks under this node's name that this installation of it did not claim. */
import type { BlockClaims } from "../../datastore/block-claims.ts";
import type { Block } from "../../datastore/documents.ts";
import type { HeldBlocks } from "./held-blocks.ts";
import { type ClusterBlocks, nextClaimOrder } from "./own-blocks.ts";

interface AdoptionOptions {
  readonly nodeName: string;
  readonly instance: string;
  readonly claims: BlockClaims;
  readonly held: HeldBlocks;
}

export class Adoption {
  readonly #nodeName: string;
  readonly #instance: string;
  readonly #claims: BlockClaims;
  readonly #held: HeldBlocks;

  constructor({ nodeName, instance, claims, held }: AdoptionOptions) {
    this.#nodeName = nodeName;
    this.#instance = instance;
    this.#claims = claims;
    this.#held = held;
  }

  /**
   * A node that was installed anew takes over what it had before, with the claim order, so that its tunnel address is the
   * same again.
   *
   * @throws an error that names the block when the node is not new: another machine has taken it over, and taking it back
   * would begin a fight
   */
  async takeOver(cluster: ClusterBlocks): Promise<void> {
    const others = this.#held.ofAnotherInstance(cluster);
    if (others.length === 0) {
      this.#held.takenOver();
    } else if (this.#held.isReinstalled) {
      for (const block of others) {
        await this.#claims.replace(block, { ...block, instance: this.#instance });
      }
    } else {
      throw this.#twoMachines(others);
    }
  }

  /** Blocks that were written by hand have no instance yet, and often no claim order: they get both. */
  async sign(cluster: ClusterBlocks): Promise<void> {
    const blocks = [...cluster.blocks.values()].filter(({ node }) => node === this.#nodeName);
    let claimOrder = nextClaimOrder(blocks.filter((block) => block.claimOrder !== undefined));
    for (const block of this.#held.unsigned(cluster)) {
      await this.#claims.replace(block, { claimOrder: claimOrder++, ...block, instance: this.#instance });
    }
  }

  #twoMachines(others: readonly Block[]): Error {
    const [first] = others;
    const which = `${others.length === 1 ? "the block" : `${others.length} blocks,`} "${first?.cidr}"`;
    return new Error(
      `Cannot use ${which}: two machines use the node name "${this.#nodeName}", the instance "${first?.instance}" has claimed it and this one is "${this.#instance}"; give one of them another name, or remove the field "instance" from the block when the other machine is gone`,
    );
  }
}
