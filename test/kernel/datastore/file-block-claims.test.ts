import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { FileBlockClaims } from "../../../src/datastore/file-block-claims.ts";
import { start } from "../../../src/exec.ts";
import { tryLockName } from "../../../src/linux/lock.ts";
import { type ClaimsWorld, describeBlockClaims } from "../../lib/block-claims-contract.ts";

class FileClaimsWorld implements ClaimsWorld {
  readonly path: string;
  readonly #base: string;

  static async make(): Promise<FileClaimsWorld> {
    const world = new FileClaimsWorld(await mkdtemp(join(tmpdir(), "claims-")));
    await mkdir(join(world.path, "blocks"), { recursive: true });
    await mkdir(join(world.path, "nodes"));
    await writeFile(join(world.path, "cluster.json"), '{"kind": "ClusterSettings"}');
    return world;
  }

  private constructor(base: string) {
    this.#base = base;
    this.path = join(base, "cluster");
  }

  open(): FileBlockClaims {
    return new FileBlockClaims(this.path);
  }

  put(name: string, data: unknown): Promise<void> {
    return writeFile(join(this.path, "blocks", `${name}.json`), JSON.stringify(data));
  }

  async putNode(name: string, data: unknown): Promise<void> {
    await mkdir(join(this.path, "nodes"), { recursive: true });
    await writeFile(join(this.path, "nodes", `${name}.json`), JSON.stringify(data));
  }

  goAway(): Promise<void> {
    return rename(this.path, `${this.path}.away`);
  }

  comeBack(): Promise<void> {
    return rename(`${this.path}.away`, this.path);
  }

  async close(): Promise<void> {
    await rm(this.#base, { recursive: true });
  }
}

describeBlockClaims("file", FileClaimsWorld.make);

describe("FileBlockClaims", () => {
  const block = { cidr: "10.100.0.0/26", node: "node1" };
  let world: FileClaimsWorld;
  let claims: FileBlockClaims;

  beforeEach(async () => {
    world = await FileClaimsWorld.make();
    claims = world.open();
  });

  afterEach(() => world.close());

  const files = () => readdir(join(world.path, "blocks"));

  test("leaves nothing beside the documents, whether a claim was won or lost", async () => {
    await claims.claim(block);
    await claims.claim(block);
    await claims.replace(block, { ...block, instance: "one" });
    expect(await files()).toEqual(["10.100.0.0-26.json"]);
  });

  test("removes what a killed writer left, but not what a living one works on", async () => {
    await writeFile(join(world.path, "blocks/.claim-10.100.0.64-26.dead"), "{");
    await writeFile(join(world.path, "blocks/.claim-10.100.0.128-26.alive"), "{");
    const lock = await tryLockName(join(world.path, ".claims.lock"), "10.100.0.128-26");
    await claims.claim(block);
    await lock?.release();
    expect((await files()).toSorted()).toEqual([".claim-10.100.0.128-26.alive", "10.100.0.0-26.json"]);
    expect(await world.open().read("10.100.0.128/26")).toBeUndefined();
  });

  test("makes the directory of the blocks in a new datastore", async () => {
    await rm(join(world.path, "blocks"), { recursive: true });
    expect(await claims.read(block.cidr)).toBeUndefined();
    expect(await claims.claim(block)).toBe(true);
  });

  test("names the directory in which no datastore is, and makes none", async () => {
    await rm(join(world.path, "cluster.json"));
    await expect(claims.claim(block)).rejects.toThrow(
      `Cannot claim the block "10.100.0.0/26": no datastore is in "${world.path}", ENOENT`,
    );
    expect(await files()).toEqual([]);
  });

  test("believes of no node that it is gone while the directory of the nodes is", async () => {
    await rm(join(world.path, "nodes"), { recursive: true });
    await expect(claims.hasNode("node1")).rejects.toThrow('Cannot look for the node "node1": ENOENT');
  });

  test("names the directory that cannot be written", async () => {
    // As root the mode of a directory means nothing, so something else is in its place.
    await rm(join(world.path, "blocks"), { recursive: true });
    await writeFile(join(world.path, "blocks"), "");
    await expect(claims.claim(block)).rejects.toThrow(
      `Cannot claim the block "10.100.0.0/26" in "${join(world.path, "blocks")}": EEXIST`,
    );
  });

  describe("between processes", () => {
    const names = Array.from({ length: 8 }, (_, index) => `node${index}`);

    /** 128 blocks, of which 28 are reserved. */
    const pool = {
      name: "main",
      cidr: "10.100.0.0/21",
      blockSize: 28,
      reservedCidrs: ["10.100.0.0/24", "10.100.1.0/25", "10.100.1.128/26"],
    };

    const claimer = (name: string, onOutput = (_: string) => {}) =>
      start({
        file: process.execPath,
        args: [join(import.meta.dirname, "claimer.ts"), world.path, JSON.stringify(pool), name, "20"],
        onOutput,
      });

    /** Resolves when the process has claimed so many blocks and was killed, or has come to its end before that. */
    const killedBehind = async (name: string, count: number) => {
      let won = 0;
      const started = claimer(name, (text) => {
        won += text.split("\n").length - 1;
        if (won >= count) {
          started.kill("SIGKILL");
        }
      });
      await started.ended.catch(() => undefined);
    };

    const linesOf = ({ stdout }: { readonly stdout: string }) => stdout.split("\n").filter((line) => line !== "");

    test("8 that want 20 of 100 blocks each get all of them, and none twice", async () => {
      const outputs = await Promise.all(names.map((name) => claimer(name).ended));
      const won = outputs.flatMap(linesOf);
      expect([won.length, new Set(won).size]).toEqual([100, 100]);
      for (const [index, output] of outputs.entries()) {
        for (const cidr of linesOf(output)) {
          expect(await claims.read(cidr)).toMatchObject({ cidr, node: names[index] });
        }
      }
      expect((await files()).filter((name) => name.startsWith("."))).toEqual([]);
    }, 60_000);

    test("one that is killed at any moment leaves whole documents alone, and the next goes on", async () => {
      await Promise.all(names.map((name, index) => killedBehind(name, index + 1)));
      await claimer("heir").ended;
      for (const name of await files()) {
        expect(name).toMatch(/^[\d.]+-28\.json$/);
        expect(await claims.read(name.replace("-28.json", "/28"))).toMatchObject({ node: expect.any(String) });
      }
    }, 60_000);
  });
});
