/** Writes the documents of a `file` datastore, as an operator's tool would: beside, then renamed. */
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Block, blockName, type ClusterSettings, type Node, type Pool } from "../../src/datastore/documents.ts";

export class LabDatastore {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  writeSettings(settings: Omit<ClusterSettings, "kind">): Promise<void> {
    return this.write("cluster.json", { kind: "ClusterSettings", ...settings });
  }

  writeNode(node: Node): Promise<void> {
    return this.write(`nodes/${node.name}.json`, node);
  }

  /** What is left out has its default. */
  writePool(pool: Partial<Pool> & Pick<Pool, "name" | "cidr">): Promise<void> {
    return this.write(`pools/${pool.name}.json`, pool);
  }

  writeBlock(block: Block): Promise<void> {
    return this.write(`blocks/${blockName(block.cidr)}.json`, block);
  }

  async removeNode(name: string): Promise<void> {
    await rm(join(this.path, `nodes/${name}.json`));
  }

  async removeBlock(cidr: string): Promise<void> {
    await rm(join(this.path, `blocks/${blockName(cidr)}.json`));
  }

  /** Any content under any name: tests also write documents that are wrong. */
  async write(file: string, document: unknown): Promise<void> {
    const path = join(this.path, file);
    const beside = join(dirname(path), `.${process.pid}.new`);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(beside, `${JSON.stringify(document, undefined, 2)}\n`);
    await rename(beside, path);
  }
}
