/** A pod as the workload guard knows it: the neighbour behind e0 of a guarded node. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { BpfProgram } from "libbpf-ts";
import { assetPath } from "../../../src/assets.ts";
import { HostNetGuard } from "../../../src/guard/guard.ts";
import type { Counter, PodDrop } from "../../../src/guard/layout.ts";
import { WorkloadGuard, type WorkloadPolicy } from "../../../src/guard/workload-guard.ts";
import { data, eth, frame, ipv4, udp } from "../../lib/packets.ts";
import { type GuardedLink, GuardedNode, image } from "./guarded-node.ts";

export const POD = "10.100.9.193";
export const SECOND = "10.100.9.194";
export const OTHER_POD = "10.100.15.129";

const images = [image, readFileSync(assetPath("bpf/workload_guard.bpf.o"))];

/** Return values of linux/pkt_cls.h: TC_ACT_UNSPEC and TC_ACT_SHOT */
const actions: Readonly<Record<number, string>> = { [-1]: "pass", 2: "drop" };

const policy: WorkloadPolicy = {
  containerId: "c1",
  addresses: [POD],
  allowedSources: [],
  allowIpip: false,
  allowIpv6: false,
};

export class GuardedPod {
  readonly world: GuardedNode;
  readonly link: GuardedLink;
  readonly host: HostNetGuard;
  readonly guard: WorkloadGuard;
  readonly policy = policy;

  /** Both guards are loaded, and on no link yet. */
  static async create(): Promise<GuardedPod> {
    const world = await GuardedNode.create();
    return new GuardedPod(world, await world.link());
  }

  private constructor(world: GuardedNode, link: GuardedLink) {
    this.world = world;
    this.link = link;
    this.host = HostNetGuard.open({ pinDirectory: world.pinDirectory, images });
    this.guard = this.open();
  }

  /** As another process has it. */
  open(): WorkloadGuard {
    const opened = WorkloadGuard.openPinned(this.world.pinDirectory);
    if (opened === undefined) {
      throw new Error("Cannot open the workload guard: it is not pinned");
    }
    return opened;
  }

  protect(changes: Partial<WorkloadPolicy> = {}, on: GuardedLink = this.link): void {
    this.world.enter(() => this.guard.protect(on, { ...policy, ...changes }));
  }

  forget(ifindex = this.link.index): void {
    this.world.enter(() => this.guard.forget(ifindex));
  }

  isAttached(): boolean {
    return this.world.enter(() => this.guard.isAttached(this.link.index));
  }

  /** Reasons that were ever given for the link's packets, with how many. */
  drops(): Partial<Record<PodDrop, Counter>> {
    const seen = Object.entries(this.guard.drops(this.link.index) ?? {}).filter(([, { packets }]) => packets > 0n);
    return Object.fromEntries(seen);
  }

  /** By a test run of the pinned program, as if the packet had come in on the link. */
  judge(packet: Uint8Array, { ifindex = this.link.index } = {}): string {
    const context = Buffer.alloc(180); // struct __sk_buff of linux/bpf.h
    context.writeUInt32LE(ifindex, 40);
    using program = BpfProgram.openPinned(join(this.world.pinDirectory, "programs/guard_workload"));
    const { returnValue } = this.world.enter(() => program.testRun({ data: packet, context }));
    return actions[returnValue] ?? `returned ${returnValue}`;
  }

  async remove(): Promise<void> {
    this.guard.close();
    this.host.close();
    await this.world.remove();
  }
}

export function packetFrom(source: string): Buffer {
  return frame(eth(), ipv4(source, OTHER_POD), udp(40000, 53), data(32));
}

export function ipip(source: string, destination: string): Buffer {
  return frame(eth(), ipv4(source, destination), ipv4(POD, OTHER_POD), udp(40000, 53), data(8));
}
