import type { BlockClaims } from "../../../../src/datastore/block-claims.ts";
import { type ClaimsWorld, describeBlockClaims } from "../../../lib/block-claims-contract.ts";
import { MemoryClaims } from "../../../lib/memory-claims.ts";

class MemoryClaimsWorld implements ClaimsWorld {
  readonly #blocks = new Map<string, unknown>();
  readonly #nodes = new Map<string, unknown>();
  #isAway = false;

  open(): BlockClaims {
    return new MemoryClaims({ blocks: this.#blocks, nodes: this.#nodes }, () => {
      if (this.#isAway) {
        throw new Error("the datastore is away");
      }
    });
  }

  async put(name: string, data: unknown): Promise<void> {
    this.#blocks.set(name, data);
  }

  async putNode(name: string, data: unknown): Promise<void> {
    this.#nodes.set(name, data);
  }

  async goAway(): Promise<void> {
    this.#isAway = true;
  }

  async comeBack(): Promise<void> {
    this.#isAway = false;
  }

  async close(): Promise<void> {}
}

describeBlockClaims("memory", async () => new MemoryClaimsWorld());
