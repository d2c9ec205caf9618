/** Filters on the ingress of the clsact qdisc: how programs are attached where the kernel has no tcx links. */
import { constants } from "node:os";
import { addon } from "./addon.ts";
import { BpfError, orThrowWithLog } from "./error.ts";
import { BpfProgram } from "./program.ts";
import { checkRange } from "./range.ts";

/** Which filter of a device; all else than these whole numbers is a `RangeError`. */
export interface FilterPlace {
  /** 1 to 65535; smaller ones run first. */
  readonly priority: number;
  /** 1 to 2147483647. */
  readonly handle: number;
}

const MAX_PRIORITY = 0xffff;

export interface Filter {
  readonly programId: number;
  /** Absent when the program was unloaded in between. */
  readonly tag?: string;
}

/**
 * Attaches a tc program (direct action) to the ingress of a device of the calling thread's network namespace, with its
 * clsact qdisc when that is missing. A BPF filter that is at this place is replaced between two packets, whoever made it:
 * ask `queryClsact` first.
 */
export function attachClsact(program: BpfProgram, ifindex: number, { priority, handle }: FilterPlace): void {
  checkPlace(ifindex, priority, handle);
  orThrowWithLog(
    addon.clsactAttach(program.fd, ifindex, priority, handle),
    () => `Cannot attach program "${program.name}" to the clsact ingress of device ${ifindex}`,
  );
}

/** The BPF filter at this place, undefined when there is none (or no clsact qdisc). Needs CAP_SYS_ADMIN for the tag. */
export function queryClsact(ifindex: number, { priority, handle }: FilterPlace): Filter | undefined {
  checkPlace(ifindex, priority, handle);
  const answer = addon.clsactQuery(ifindex, priority, handle);
  if (isAbsent(answer)) {
    return undefined;
  }
  const programId = orThrowWithLog(answer, () => `Cannot query the clsact ingress of device ${ifindex}`);
  const tag = tagOf(programId);
  return tag === undefined ? { programId } : { programId, tag };
}

/** Removes the filter at this place and nothing else: the qdisc stays, others' filters may be in it. Answers whether it was there. */
export function detachClsact(ifindex: number, { priority, handle }: FilterPlace): boolean {
  checkPlace(ifindex, priority, handle);
  const answer = addon.clsactDetach(ifindex, priority, handle);
  if (isAbsent(answer)) {
    return false;
  }
  orThrowWithLog(answer, () => `Cannot detach from the clsact ingress of device ${ifindex}`);
  return true;
}

// The kernel takes a priority or handle of 0 as "choose one", and a filter that nobody can name again is the result.
function checkPlace(ifindex: number, priority: number, handle: number): void {
  checkRange("interface index", ifindex);
  checkRange("priority", priority, MAX_PRIORITY);
  checkRange("handle", handle);
}

/** ENOENT is said of a filter, EINVAL of a qdisc that is not there. */
function isAbsent(answer: number): boolean {
  return answer === -constants.errno.ENOENT || answer === -constants.errno.EINVAL;
}

function tagOf(programId: number): string | undefined {
  try {
    using program = BpfProgram.fromId(programId);
    return program.tag;
  } catch (error) {
    if (error instanceof BpfError && error.code === "ENOENT") {
      return undefined;
    }
    throw error;
  }
}
