/** BPF programs: loaded by an object, pinned, or found by their id. */
import { addon, type ProgramDescription } from "./addon.ts";
import { Descriptor, KernelObject } from "./descriptor.ts";
import { orThrow } from "./error.ts";
import { checkRange } from "./range.ts";

/** By how much a program may lengthen a packet in a test run: the most an IPv4 packet can have. Bytes. */
const GROWTH = 65_536;

export interface TestRun {
  /** The packet, from the Ethernet header on: at least 14 bytes, for IPv4 under tc at least 34. */
  readonly data: Uint8Array;
  /** A `struct __sk_buff` or `struct xdp_md` of linux/bpf.h; the kernel refuses fields that it does not take. */
  readonly context?: Uint8Array;
  /** How often the program runs on the packet; its changes add up. */
  readonly repeat?: number;
}

export interface TestRunResult {
  /** Signed: TC_ACT_UNSPEC and TCX_NEXT are -1. */
  readonly returnValue: number;
  /** The packet afterwards. */
  readonly data: Uint8Array;
  /** Mean of the repetitions. */
  readonly durationNs: number;
}

export class BpfProgram extends KernelObject {
  readonly #description: ProgramDescription;

  constructor(description: ProgramDescription, descriptor: Descriptor, pinPath?: string) {
    super(descriptor, pinPath);
    this.#description = description;
  }

  /** Throws a `BpfError` when there is no program at `path`. The name is then the kernel's: at most 15 bytes. */
  static openPinned(path: string): BpfProgram {
    return BpfProgram.#fromDescriptor(Descriptor.openPinned("program", path), path);
  }

  /** A program that is loaded, by whomever; needs CAP_SYS_ADMIN. Throws a `BpfError` with ENOENT when there is none. */
  static fromId(id: number): BpfProgram {
    return BpfProgram.#fromDescriptor(
      orThrow(addon.programById(id), () => `Cannot open the program with the id ${id}`),
    );
  }

  static #fromDescriptor(number: number, pinPath?: string): BpfProgram {
    const description = orThrow(addon.programInfo(number), () => "Cannot describe a program");
    return new BpfProgram(description, new Descriptor("program", description.name, number), pinPath);
  }

  get name(): string {
    return this.#description.name;
  }

  /** As libbpf and bpftool write it: "xdp", "sched_cls". */
  get type(): string {
    return this.#description.type;
  }

  /** The kernel's number of this program, never used for two. */
  get id(): number {
    return this.#info().id;
  }

  /** The kernel's hash of the instructions, 16 hexadecimal digits: equal programs have equal tags. */
  get tag(): string {
    return this.#info().tag;
  }

  /** The number of the open descriptor, for the kernel interfaces that take a program. */
  get fd(): number {
    return this.descriptor.number;
  }

  /** Runs the program on a packet without a device: BPF_PROG_TEST_RUN, docs.kernel.org/bpf/bpf_prog_run.html. */
  testRun({ data, context = new Uint8Array(0), repeat = 1 }: TestRun): TestRunResult {
    checkRange("number of repetitions", repeat);
    const answer = new Uint8Array(data.length + GROWTH);
    const { returnValue, size, durationNs } = orThrow(
      addon.programTestRun(this.fd, data, context, repeat, answer),
      () => `Cannot run ${this.descriptor.label} on a packet of ${data.length} bytes`,
    );
    return { returnValue, data: answer.slice(0, size), durationNs };
  }

  #info() {
    return orThrow(addon.programInfo(this.fd), () => `Cannot describe ${this.descriptor.label}`);
  }
}
