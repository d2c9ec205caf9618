/** The tc hook of kernels without tcx: a filter of the clsact qdisc, which needs nobody to hold it. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { attachClsact, BpfError, BpfProgram, detachClsact, queryClsact } from "libbpf-ts";
import { AttachmentRefused, type Device, type Hook, pinName } from "./hook.ts";

/** Before all other filters, as one that accepts the packet hides those behind it; the handle only has to be known. */
const place = { priority: 1, handle: 1 } as const;

export class ClsactHook implements Hook {
  readonly name = "clsact";
  readonly #directory: string;
  readonly #ownPrefix: string;

  /** @param ownPrefix how a guard's filters are told from others at the same place: its tc programs' names begin so */
  constructor(directory: string, ownPrefix: string) {
    this.#directory = directory;
    this.#ownPrefix = ownPrefix;
  }

  programId(ifindex: number): number | undefined {
    using program = attachedProgram(ifindex);
    return program?.name.startsWith(this.#ownPrefix) ? program.id : undefined;
  }

  attach(device: Device, program: BpfProgram): void {
    using foreign = attachedProgram(device.index);
    if (foreign !== undefined) {
      const detail = `priority ${place.priority} is taken by program "${foreign.name}"`;
      throw new AttachmentRefused(this.name, device, "taken", { detail });
    }
    this.replace(device.index, program);
  }

  replace(ifindex: number, program: BpfProgram): void {
    this.#remember(ifindex, program); // first: of a filter without note nobody would know
    attachClsact(program, ifindex, place);
  }

  detach(ifindex: number): void {
    if (this.programId(ifindex) !== undefined) {
      detachClsact(ifindex, place);
    }
    rmSync(this.#path(ifindex), { force: true });
  }

  /** The pin is no more than a note of the device's number: where to look for filters. */
  #remember(ifindex: number, program: BpfProgram): void {
    const path = this.#path(ifindex);
    rmSync(path, { force: true });
    program.pin(path);
  }

  #path(ifindex: number): string {
    return join(this.#directory, pinName(this.name, ifindex));
  }
}

/** Undefined also when the device is gone. */
function attachedProgram(ifindex: number): BpfProgram | undefined {
  try {
    const filter = queryClsact(ifindex, place);
    return filter && BpfProgram.fromId(filter.programId);
  } catch (error) {
    if (error instanceof BpfError && (error.code === "ENODEV" || error.code === "ENOENT")) {
      return undefined;
    }
    throw error;
  }
}
