/** A small cluster to play: one node and one pool of sixteen blocks of sixteen addresses. */
import type { Block } from "../../src/datastore/documents.ts";
import { PlayedDatastore, PlayedNode, type PlayedNodeOptions } from "./played-node.ts";

export const main = { name: "main", cidr: "10.100.0.0/24", blockSize: 28 } as const;

export class PlayedCluster {
  readonly datastore = new PlayedDatastore();

  constructor() {
    this.datastore.addNode("node1");
    this.datastore.writePool(main);
  }

  /** A node that has not looked at anything yet. */
  start(options: Partial<PlayedNodeOptions> = {}): Promise<PlayedNode> {
    return PlayedNode.start({ name: "node1", datastore: this.datastore, ...options });
  }

  /** A node that has what it needs. */
  async started(options: Partial<PlayedNodeOptions> = {}): Promise<PlayedNode> {
    const node = await this.start(options);
    await node.settle();
    return node;
  }

  /** As an operator writes it. */
  writeBlock(block: Block): void {
    this.datastore.blocks.set(block.cidr.replace("/", "-"), block);
  }

  /** In the order they were claimed. */
  blocksOf(nodeName: string): Block[] {
    const blocks = [...this.datastore.blocks.values()] as Block[];
    return blocks.filter(({ node }) => node === nodeName).sort((a, b) => (a.claimOrder ?? -1) - (b.claimOrder ?? -1));
  }
}
