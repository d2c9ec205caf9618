/** A point in a device's receive path where a guard's programs can run. */
import type { BpfProgram } from "libbpf-ts";

/** tcx (Linux 6.6 and later) or a filter of the clsact qdisc; XDP in the driver or on the finished skb. */
export type HookName = "tcx" | "clsact" | "xdp-native" | "xdp-generic";

export interface Device {
  readonly index: number;
  /** For error sentences. */
  readonly name: string;
}

/** Devices are those of the calling thread's network namespace. */
export interface Hook {
  readonly name: HookName;
  /** The id of the guard's program that the kernel runs on the device, undefined when there is none. */
  programId(ifindex: number): number | undefined;
  /** Nothing of the guard's runs there yet. @throws AttachmentRefused */
  attach(device: Device, program: BpfProgram): void;
  /** Exchanges the guard's program between two packets. */
  replace(ifindex: number, program: BpfProgram): void;
  /** Removes the guard's program and what remembers it; content when there is none. */
  detach(ifindex: number): void;
}

export type RefusalReason =
  /** The device's driver has no XDP of this mode. */
  | "not-supported"
  /** A program of somebody else is there. */
  | "taken"
  /** XDP reads an Ethernet header, which the device's packets lack. */
  | "not-ethernet"
  /** Anything else, such as an MTU that does not fit: the cause tells. */
  | "refused";

/** The kernel, or somebody else's program, does not let a guard onto a hook. */
export class AttachmentRefused extends Error {
  override readonly name = "AttachmentRefused";
  readonly hook: HookName;
  readonly reason: RefusalReason;

  constructor(hook: HookName, device: Device, reason: RefusalReason, options: { detail: string; cause?: unknown }) {
    const { detail, cause } = options;
    super(`Cannot attach the guard to "${device.name}" by ${hook}: ${detail}`, { cause });
    this.hook = hook;
    this.reason = reason;
  }
}

/** One pin for each attachment, whose name tells hook and device. */
export function pinName(hook: HookName, ifindex: number): string {
  return `${hook}-${ifindex}`;
}
