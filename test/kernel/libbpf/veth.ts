/** Two network namespaces joined by a veth pair: `near` sends, `far` is where programs are attached. */
import { type Output, run } from "../../../src/exec.ts";

let made = 0;

export class VethPair {
  readonly #near: string;
  readonly #far: string;
  /** Of the far end, in its namespace. */
  readonly ifindex: number;

  private constructor(near: string, far: string, ifindex: number) {
    this.#near = near;
    this.#far = far;
    this.ifindex = ifindex;
  }

  static async create(): Promise<VethPair> {
    made += 1;
    const [near, far] = [`libbpf-near-${process.pid}-${made}`, `libbpf-far-${process.pid}-${made}`];
    for (const args of [
      ["netns", "add", near],
      ["netns", "add", far],
      ["-n", near, "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", far],
      ["-n", near, "address", "add", "192.0.2.1/24", "dev", "near"],
      ["-n", far, "address", "add", "192.0.2.2/24", "dev", "far"],
      ["-n", near, "link", "set", "near", "up"],
      ["-n", far, "link", "set", "far", "up"],
    ]) {
      await run({ file: "ip", args });
    }
    const { stdout } = await run({ file: "ip", args: ["-n", far, "-json", "link", "show", "dev", "far"] });
    return new VethPair(near, far, JSON.parse(stdout)[0].ifindex);
  }

  /** Runs a program in the far namespace; mounts, and so pins, stay those of the caller. */
  inFar(file: string, ...args: string[]): Promise<Output> {
    return run({ file: "nsenter", args: [`--net=/run/netns/${this.#far}`, file, ...args] });
  }

  /** Sends echo requests from near to far; throws when one is not answered. */
  async ping({ count, intervalMs = 2 }: { count: number; intervalMs?: number }): Promise<void> {
    const { stdout } = await run({
      file: "nsenter",
      args: [
        ...[`--net=/run/netns/${this.#near}`, "ping", "-n", "-q", "-c", `${count}`, "-i", `${intervalMs / 1000}`],
        "192.0.2.2",
      ],
    });
    if (!stdout.includes(` ${count} received, 0% packet loss`)) {
      throw new Error(`Cannot ping through the veth pair without loss: ${stdout}`);
    }
  }

  async remove(): Promise<void> {
    await run({ file: "ip", args: ["netns", "delete", this.#near] });
    await run({ file: "ip", args: ["netns", "delete", this.#far] });
  }
}
