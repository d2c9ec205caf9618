/** The programs of programs.bpf.c, loaded and pinned, beside a pair of namespaces to attach them in. */
import { join } from "node:path";
import { BpfObject } from "libbpf-ts";
import { Bpffs } from "./bpffs.ts";
import { toNumber, u32 } from "./bytes.ts";
import { VethPair } from "./veth.ts";

export class World {
  readonly bpffs: Bpffs;
  readonly veth: VethPair;
  readonly object: BpfObject;

  /** @param image of programs.bpf.c */
  static async create(image: Uint8Array): Promise<World> {
    const world = new World(await Bpffs.mount(), await VethPair.create(), BpfObject.open(image, { name: "programs" }));
    world.object.load();
    for (const program of world.object.programs) {
      program.pin(world.bpffs.path(program.name));
    }
    return world;
  }

  private constructor(bpffs: Bpffs, veth: VethPair, object: BpfObject) {
    this.bpffs = bpffs;
    this.veth = veth;
    this.object = object;
  }

  async remove(): Promise<void> {
    this.object.close();
    await this.veth.remove();
    await this.bpffs.unmount();
  }

  /** What child.ts answers, run in the far namespace: a process of its own, which has ended by then. */
  async ask(verb: string, options: object) {
    const child = join(import.meta.dirname, "child.ts");
    const request = JSON.stringify({ ifindex: this.veth.ifindex, ...options });
    const { stdout } = await this.veth.inFar(process.execPath, child, verb, request);
    return JSON.parse(stdout);
  }

  /** How many echo requests the first and the second programs have seen. */
  echoes(): (number | undefined)[] {
    return [0, 1].map((slot) => toNumber(this.object.map("echoes").get(u32(slot))));
  }
}
