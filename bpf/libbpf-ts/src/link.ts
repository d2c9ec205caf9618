/** BPF links: a program on a device, for as long as the link is open or pinned somewhere. */
import { constants } from "node:os";
import { addon } from "./addon.ts";
import { Descriptor, KernelObject } from "./descriptor.ts";
import { BpfError, orThrow } from "./error.ts";
import type { BpfProgram } from "./program.ts";
import { checkRange } from "./range.ts";

/** enum bpf_attach_type of linux/bpf.h; headers older than Linux 6.6 lack the tcx ones. */
const ATTACH_TYPES = { xdp: 37, tcx_ingress: 46, tcx_egress: 47 } as const;

/** enum bpf_link_type of linux/bpf.h. */
const LINK_TYPES = { xdp: 6, tcx: 11 } as const;

/** XDP_FLAGS_DRV_MODE and XDP_FLAGS_SKB_MODE of linux/if_link.h. */
const XDP_MODES = { native: 1 << 2, generic: 1 << 1 } as const;

export type XdpMode = keyof typeof XDP_MODES;

export interface LinkInfo {
  readonly id: number;
  readonly programId: number;
  readonly type: keyof typeof LINK_TYPES;
  readonly attachType: keyof typeof ATTACH_TYPES;
  /** 0 once the device is gone or the link is detached. */
  readonly ifindex: number;
}

/** Devices are those of the calling thread's network namespace. */
export class BpfLink extends KernelObject {
  /**
   * Attaches an XDP program. Throws a `BpfError`, among others with EBUSY or EEXIST (other mode) where the device has an XDP program and
   * EOPNOTSUPP where its driver has no native XDP.
   */
  static attachXdp(program: BpfProgram, ifindex: number, mode: XdpMode): BpfLink {
    return attach(program, ifindex, { name: `${mode} XDP`, type: ATTACH_TYPES.xdp, flags: XDP_MODES[mode] });
  }

  /**
   * Attaches a tc program to the ingress of a device, behind the tcx programs that it has: Linux 6.6 and later. Throws a
   * `BpfError`, among others with EEXIST where the device has this very program.
   */
  static attachTcx(program: BpfProgram, ifindex: number): BpfLink {
    return attach(program, ifindex, { name: "tcx ingress", type: ATTACH_TYPES.tcx_ingress, flags: 0 });
  }

  /** Throws a `BpfError` when there is no link at `path`. */
  static openPinned(path: string): BpfLink {
    return new BpfLink(new Descriptor("link", path, Descriptor.openPinned("link", path)), path);
  }

  /**
   * Exchanges the program between two packets. With `expected` only if that is the one it has now: otherwise a `BpfError`
   * with EPERM. ENOLINK says that the device is gone.
   */
  update(program: BpfProgram, { expected }: { expected?: BpfProgram } = {}): void {
    orThrow(
      addon.linkUpdate(this.descriptor.number, program.fd, expected?.fd ?? -1),
      () => `Cannot put program "${program.name}" on ${this.descriptor.label}`,
    );
  }

  /** Throws a `BpfError` with EINVAL for a link that is neither XDP nor tcx. */
  info(): LinkInfo {
    const action = () => `Cannot describe ${this.descriptor.label}`;
    const { id, programId, ifindex, ...numbers } = orThrow(addon.linkInfo(this.descriptor.number), action);
    if (numbers.type === LINK_TYPES.xdp) {
      return { id, programId, ifindex, type: "xdp", attachType: "xdp" };
    }
    if (numbers.type === LINK_TYPES.tcx) {
      const attachType = numbers.attachType === ATTACH_TYPES.tcx_ingress ? "tcx_ingress" : "tcx_egress";
      return { id, programId, ifindex, type: "tcx", attachType };
    }
    const detail = `its type is ${numbers.type}, it must be ${LINK_TYPES.xdp} (xdp) or ${LINK_TYPES.tcx} (tcx)`;
    throw new BpfError(action(), constants.errno.EINVAL, { detail });
  }

  /** Takes the program off the device at once, whoever else has the link open or pinned. */
  detach(): void {
    orThrow(addon.linkDetach(this.descriptor.number), () => `Cannot detach ${this.descriptor.label}`);
  }
}

/**
 * Whether the running kernel has tcx links, found by asking for one on a device that cannot exist. Throws a `BpfError`,
 * with EPERM where the process may not load programs.
 */
export function supportsTcx(): boolean {
  const answer = addon.probeTcx(ATTACH_TYPES.tcx_ingress);
  if (answer === -constants.errno.ENODEV) {
    return true;
  }
  if (answer === -constants.errno.EINVAL) {
    return false;
  }
  throw new BpfError("Cannot tell whether this kernel has tcx links", -answer);
}

function attach(
  program: BpfProgram,
  ifindex: number,
  { name, type, flags }: { readonly name: string; readonly type: number; readonly flags: number },
): BpfLink {
  checkRange("interface index", ifindex);
  const number = orThrow(
    addon.linkCreate(program.fd, ifindex, type, flags),
    () => `Cannot attach program "${program.name}" to device ${ifindex} as ${name}`,
  );
  return new BpfLink(new Descriptor("link", `${program.name} on device ${ifindex}`, number));
}
