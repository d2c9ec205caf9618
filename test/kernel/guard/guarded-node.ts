/** A node with a guard, and a neighbour on the other end of its cable that sends what it likes. */

import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { assetPath } from "../../../src/assets.ts";
import { type Process, run } from "../../../src/exec.ts";
import { HostNetGuard } from "../../../src/guard/guard.ts";
import { type VerdictName, verdictNames } from "../../../src/guard/layout.ts";
import { HostNetSet } from "../../../src/ipset/host-net-set.ts";
import { ensureBpffs } from "../../../src/linux/bpffs.ts";
import { NetworkNamespace } from "../../../src/linux/namespace.ts";
import type { Link } from "../../../src/netlink/link.ts";
import { Namespace } from "../../lib/namespace.ts";
import { waitFor } from "../../lib/wait.ts";

export const NODE = "10.0.0.1";
export const MEMBER = "10.0.0.2";
export const STRANGER = "10.0.0.66";
export const NODE_MAC = "02:00:00:00:00:01";

export const image: Uint8Array = readFileSync(assetPath("bpf/host_net_guard.bpf.o"));

const script = join(import.meta.dirname, "frames.py");

export type GuardedLink = Pick<Link, "index" | "name" | "type">;

let count = 0;

export class GuardedNode {
  readonly node: Namespace;
  readonly neighbour: Namespace;
  readonly pinDirectory: string;
  readonly #directory: string;
  readonly #network: NetworkNamespace;
  readonly #processes: Process[] = [];
  #guard: HostNetGuard | undefined;

  /** The node's e0 is up, the guard not open yet. */
  static async create(): Promise<GuardedNode> {
    count += 1;
    const [node, neighbour] = await Namespace.create(
      `guard-node-${process.pid}-${count}`,
      `guard-neighbour-${process.pid}-${count}`,
    );
    const directory = await mkdtemp("/run/guard-test-");
    await ensureBpffs(join(directory, "bpf"));
    const guarded = new GuardedNode(node, neighbour, directory, await NetworkNamespace.open(node.path));
    await node.ipBatch("link set lo up");
    await node.run({ file: "sysctl", args: ["-w", "net.ipv4.ip_forward=1"] });
    // Its stack would send IPv6 of its own for some seconds, among the frames that are counted.
    await neighbour.run({ file: "sysctl", args: ["-w", "net.ipv6.conf.default.disable_ipv6=1"] });
    await guarded.plug();
    return guarded;
  }

  private constructor(node: Namespace, neighbour: Namespace, directory: string, network: NetworkNamespace) {
    this.node = node;
    this.neighbour = neighbour;
    this.pinDirectory = join(directory, "bpf/guard/v1");
    this.#directory = directory;
    this.#network = network;
  }

  /** Connects the node's e0 with the neighbour's e1. */
  async plug({ index }: { index?: number } = {}): Promise<void> {
    const number = index === undefined ? "" : `index ${index}`;
    await this.node.ipBatch(
      `link add e0 ${number} address ${NODE_MAC} type veth peer name e1 netns ${this.neighbour.name}`,
      `address add ${NODE}/24 dev e0`,
      "link set e0 up",
    );
    await this.neighbour.ipBatch("link set e1 up");
  }

  async link(name = "e0"): Promise<GuardedLink> {
    const [{ ifindex, link_type }] = await this.node.ipJson("link", "show", name);
    return { index: ifindex, name, type: link_type === "ether" ? 1 : 0xfffe };
  }

  /** Opens the guard, or opens it again as a program that was restarted does. */
  open(options: { image?: Uint8Array } = {}): HostNetGuard {
    this.#guard?.close();
    this.#guard = this.enter(() =>
      HostNetGuard.open({ pinDirectory: this.pinDirectory, images: [options.image ?? image] }),
    );
    return this.#guard;
  }

  get guard(): HostNetGuard {
    return this.#guard ?? this.open();
  }

  enter<T>(action: () => T): T {
    return this.#network.enter(action);
  }

  setMembers(hosts: readonly string[]): void {
    new HostNetSet(this.guard.members).replace({ hosts, cidrs: [] });
  }

  /** Packets of each verdict that was ever given. */
  verdicts(): Partial<Record<VerdictName, number>> {
    const counters = this.guard.counters();
    const seen = verdictNames.filter((name) => counters[name].packets > 0n);
    return Object.fromEntries(seen.map((name) => [name, Number(counters[name].packets)]));
  }

  /** Waits until so many packets were judged, and says how. */
  async verdictsOf(packets: number): Promise<Partial<Record<VerdictName, number>>> {
    const judged = () => Object.values(this.verdicts()).reduce((sum, number) => sum + number, 0);
    await waitFor(() => judged() >= packets, { what: `${packets} packets judged`, timeoutMs: 5000 });
    return this.verdicts();
  }

  async send(...frames: readonly Uint8Array[]): Promise<void> {
    await this.neighbour.run({ file: "python3", args: [script, "send", "e1"], input: hexLines(frames) });
  }

  async receiveByTun(name: string, ...packets: readonly Uint8Array[]): Promise<void> {
    await this.node.run({ file: "python3", args: [script, "tun", name], input: hexLines(packets) });
  }

  /**
   * Lets the node receive frames on a link, each once for every length of the linear part of its skb from `first` to
   * `last` bytes, with all behind that in page fragments.
   *
   * @param by the cable, or a link of the node itself
   * @param frames longer than a page, of 4096 bytes: the kernel keeps others in one piece
   */
  async receiveInFragments(
    by: "e0" | "lo" | "tun0",
    { first, last }: { readonly first: number; readonly last: number },
    ...frames: readonly Uint8Array[]
  ): Promise<void> {
    const sender = by === "e0" ? this.neighbour : this.node;
    const mode = by === "tun0" ? "tun-fragments" : "fragments";
    const args = [script, mode, by === "e0" ? "e1" : by, String(first), String(last)];
    await sender.run({ file: "python3", args, input: hexLines(frames) });
  }

  /** Sends a frame without end. @returns stops it and says how many were sent */
  async flood(frame: Uint8Array): Promise<() => Promise<number>> {
    const args = [script, "flood", "e1", Buffer.from(frame).toString("hex")];
    const flood = await this.#startReady(this.neighbour, args);
    return async () => {
      flood.kill("SIGTERM");
      const { stdout } = await flood.ended;
      return Number(stdout.split("\n").at(-1));
    };
  }

  /** @returns the sources of the IPIP packets that the node's stack delivers from now on */
  async listen(): Promise<() => string[]> {
    let output = "";
    await this.#startReady(this.node, [script, "listen"], (text) => {
      output += text;
    });
    return () => output.split("\n").filter((line) => line !== "" && line !== "ready");
  }

  async remove(): Promise<void> {
    this.#guard?.close();
    for (const process of this.#processes) {
      process.kill("SIGKILL");
      await process.ended.catch(() => undefined);
    }
    await this.#network.close();
    await Namespace.remove([this.node, this.neighbour]);
    await run({ file: "umount", args: [join(this.#directory, "bpf")] });
    await rm(this.#directory, { recursive: true });
  }

  async #startReady(where: Namespace, args: string[], onOutput?: (text: string) => void): Promise<Process> {
    let output = "";
    const process = where.start({
      file: "python3",
      args,
      onOutput: (text) => {
        output += text;
        onOutput?.(text);
      },
    });
    this.#processes.push(process);
    await waitFor(() => output.includes("ready"), { what: `"${args.join(" ")}" ready`, timeoutMs: 60_000 });
    return process;
  }
}

function hexLines(frames: readonly Uint8Array[]): string {
  return frames.map((frame) => `${Buffer.from(frame).toString("hex")}\n`).join("");
}
