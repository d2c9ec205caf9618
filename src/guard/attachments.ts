/** Where a guard's programs run: on which devices, through which hooks. */
import { mkdirSync, readdirSync } from "node:fs";
import type { BpfProgram } from "libbpf-ts";
import { ClsactHook } from "./clsact-hook.ts";
import type { Device, Hook, HookName } from "./hook.ts";
import { LinkHook } from "./link-hook.ts";

const pinPattern = /^(tcx|clsact|xdp-native|xdp-generic)-([0-9]+)$/;

export class Attachments {
  readonly #directory: string;
  readonly #hooks: Readonly<Record<HookName, Hook>>;

  /**
   * @param directory on a bpffs, for the pins of this guard's attachments only
   * @param ownPrefix with which the names of the guard's tc programs begin, and no other guard's
   */
  constructor(directory: string, ownPrefix: string) {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    this.#directory = directory;
    this.#hooks = {
      tcx: new LinkHook("tcx", directory),
      clsact: new ClsactHook(directory, ownPrefix),
      "xdp-native": new LinkHook("xdp-native", directory),
      "xdp-generic": new LinkHook("xdp-generic", directory),
    };
  }

  /** What the kernel really has, by ifindex. Pins of devices that are gone, or lost the program, are removed. */
  list(): Map<number, HookName[]> {
    const found = new Map<number, HookName[]>();
    for (const [name, ifindex] of this.#notes()) {
      const hook = this.#hooks[name];
      if (hook.programId(ifindex) === undefined) {
        hook.detach(ifindex);
      } else {
        found.set(ifindex, [...(found.get(ifindex) ?? []), hook.name]);
      }
    }
    return found;
  }

  /** Devices that were ever attached to and not detached from, by ifindex, also those that are gone. Changes nothing. */
  noted(): number[] {
    return this.#notes().map(([, ifindex]) => ifindex);
  }

  isAttached(name: HookName, ifindex: number): boolean {
    return this.#hooks[name].programId(ifindex) !== undefined;
  }

  /**
   * Changes nothing when the program is there already; another program of the guard is replaced between two packets.
   *
   * @throws AttachmentRefused; BpfError with ENODEV when the device is gone
   */
  attach(name: HookName, device: Device, program: BpfProgram): void {
    const hook = this.#hooks[name];
    const present = hook.programId(device.index);
    if (present === undefined) {
      hook.attach(device, program);
    } else if (present !== program.id) {
      hook.replace(device.index, program);
    }
  }

  /** Content when it is not there. */
  detach(name: HookName, ifindex: number): void {
    this.#hooks[name].detach(ifindex);
  }

  #notes(): [name: HookName, ifindex: number][] {
    const matches = readdirSync(this.#directory).map((name) => pinPattern.exec(name));
    return matches.filter((match) => match !== null).map((match) => [match[1] as HookName, Number(match[2])]);
  }
}
