/** Where the guard's programs run: on which devices, through which hooks. */
import { mkdirSync, readdirSync } from "node:fs";
import type { BpfProgram } from "libbpf-ts";
import { ClsactHook } from "./clsact-hook.ts";
import type { Device, Hook, HookName } from "./hook.ts";
import { LinkHook } from "./link-hook.ts";

const pinPattern = /^(tcx|clsact|xdp-native|xdp-generic)-([0-9]+)$/;

export class Attachments {
  readonly #directory: string;
  readonly #hooks: Readonly<Record<HookName, Hook>>;

  /** @param directory on a bpffs, for the pins of attachments only */
  constructor(directory: string) {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    this.#directory = directory;
    this.#hooks = {
      tcx: new LinkHook("tcx", directory),
      clsact: new ClsactHook(directory),
      "xdp-native": new LinkHook("xdp-native", directory),
      "xdp-generic": new LinkHook("xdp-generic", directory),
    };
  }

  /** What the kernel really has, by ifindex. Pins of devices that are gone, or lost the program, are removed. */
  list(): Map<number, HookName[]> {
    const found = new Map<number, HookName[]>();
    for (const name of readdirSync(this.#directory)) {
      const match = pinPattern.exec(name);
      if (match === null) {
        continue;
      }
      const hook = this.#hooks[match[1] as HookName];
      const ifindex = Number(match[2]);
      if (hook.programId(ifindex) === undefined) {
        hook.detach(ifindex);
      } else {
        found.set(ifindex, [...(found.get(ifindex) ?? []), hook.name]);
      }
    }
    return found;
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
}
