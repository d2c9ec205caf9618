/** Hooks whose attachment is a BPF link: the pinned link is all that holds the program there. */
import { join } from "node:path";
import { BpfError, BpfLink, type BpfProgram } from "libbpf-ts";
import { AttachmentRefused, type Device, type Hook, pinName, type RefusalReason } from "./hook.ts";

export type LinkHookName = "tcx" | "xdp-native" | "xdp-generic";

const attachers: Record<LinkHookName, (program: BpfProgram, ifindex: number) => BpfLink> = {
  tcx: (program, ifindex) => BpfLink.attachTcx(program, ifindex),
  "xdp-native": (program, ifindex) => BpfLink.attachXdp(program, ifindex, "native"),
  "xdp-generic": (program, ifindex) => BpfLink.attachXdp(program, ifindex, "generic"),
};

const reasons: Readonly<Record<string, RefusalReason>> = {
  EOPNOTSUPP: "not-supported",
  EBUSY: "taken", // a link holds the hook
  EEXIST: "taken", // a program without link does, or one of the other XDP mode
};

export class LinkHook implements Hook {
  readonly name: LinkHookName;
  readonly #directory: string;

  constructor(name: LinkHookName, directory: string) {
    this.name = name;
    this.#directory = directory;
  }

  programId(ifindex: number): number | undefined {
    using link = this.#open(ifindex);
    const info = link?.info();
    // A link outlives its device and says 0 then, also when another device has got the number since.
    return info?.ifindex === ifindex ? info.programId : undefined;
  }

  attach(device: Device, program: BpfProgram): void {
    this.detach(device.index); // the pin of an earlier device of this number
    using link = this.#create(device, program);
    link.pin(this.#path(device.index));
  }

  replace(ifindex: number, program: BpfProgram): void {
    using link = BpfLink.openPinned(this.#path(ifindex));
    link.update(program);
  }

  detach(ifindex: number): void {
    using link = this.#open(ifindex);
    // Not by removing the pin alone: the kernel frees a link some time later, and the hook is taken until then.
    link?.detach();
    link?.unpin();
  }

  /** Undefined also when another process removes the pin at this moment. */
  #open(ifindex: number): BpfLink | undefined {
    try {
      return BpfLink.openPinned(this.#path(ifindex));
    } catch (error) {
      if (error instanceof BpfError && error.code === "ENOENT") {
        return undefined;
      }
      throw error;
    }
  }

  #create(device: Device, program: BpfProgram): BpfLink {
    try {
      return attachers[this.name](program, device.index);
    } catch (error) {
      if (error instanceof BpfError && error.code !== "ENODEV") {
        const reason = reasons[error.code] ?? "refused";
        throw new AttachmentRefused(this.name, device, reason, { detail: error.message, cause: error });
      }
      throw error;
    }
  }

  #path(ifindex: number): string {
    return join(this.#directory, pinName(this.name, ifindex));
  }
}
