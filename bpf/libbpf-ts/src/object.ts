/** BPF objects: an ELF image with maps and programs, on its way into the kernel. */
import { constants } from "node:os";
import { addon, type MapDescription, type ObjectHandle } from "./addon.ts";
import { Descriptor } from "./descriptor.ts";
import { BpfError, orThrow, orThrowWithLog } from "./error.ts";
import { BpfMap, type MapDraft } from "./map.ts";
import { BpfProgram } from "./program.ts";

export class BpfObject {
  readonly name: string;
  /** With those that the compiler makes of global variables (".bss", ".rodata"). */
  readonly maps: readonly BpfMap[];
  readonly programs: readonly BpfProgram[];
  readonly #handle: ObjectHandle;
  /** Of all maps, then all programs: the order in which the addon answers what it loaded. */
  readonly #descriptors: readonly Descriptor[];
  #isSpent = false;

  private constructor(name: string, handle: ObjectHandle) {
    this.name = name;
    this.#handle = handle;
    const contents = orThrow(addon.objectContents(handle), () => `Cannot list object "${name}"`);
    const mapDescriptors = contents.maps.map((map) => new Descriptor("map", map.name));
    const programDescriptors = contents.programs.map((program) => new Descriptor("program", program.name));
    this.#descriptors = [...mapDescriptors, ...programDescriptors];
    this.maps = contents.maps.map((map, index) => {
      return new BpfMap(map, mapDescriptors[index] as Descriptor, { draft: this.#draftOf(map) });
    });
    this.programs = contents.programs.map((program, index) => {
      return new BpfProgram(program, programDescriptors[index] as Descriptor);
    });
  }

  /** Reads an image that clang -target bpf made; `name` is for messages. Throws a `BpfError` when it is none. */
  static open(image: Uint8Array, { name }: { name: string }): BpfObject {
    return new BpfObject(
      name,
      orThrowWithLog(addon.objectOpen(image, name), () => `Cannot open BPF object "${name}"`),
    );
  }

  /** Throws a `BpfError` with ENOENT when the object has no such map. */
  map(name: string): BpfMap {
    return this.#find("map", this.maps, name);
  }

  /** Throws a `BpfError` with ENOENT when the object has no such program (the C function's name). */
  program(name: string): BpfProgram {
    return this.#find("program", this.programs, name);
  }

  /**
   * Creates the maps and loads the programs, all or nothing. Throws a `BpfError`; when the verifier refuses a program the
   * end of its log is in the message and the whole in `log`. An object is loaded once: after a refusal open it anew.
   */
  load(): void {
    this.#refuseWhenSpent(`Cannot load BPF object "${this.name}"`);
    this.#isSpent = true;
    const numbers = orThrowWithLog(addon.objectLoad(this.#handle), () => `Cannot load BPF object "${this.name}"`);
    this.#descriptors.forEach((descriptor, index) => {
      descriptor.adopt(numbers[index] as number);
    });
  }

  /** Closes the object and all its maps and programs; what is pinned or attached stays. May be called again. */
  close(): void {
    this.#isSpent = true;
    addon.objectClose(this.#handle);
    for (const descriptor of this.#descriptors) {
      descriptor.close();
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #draftOf({ name }: MapDescription): MapDraft {
    return {
      reuse: (descriptor) => {
        const action = `Cannot reuse a pinned map as map "${name}" of BPF object "${this.name}"`;
        this.#refuseWhenSpent(action);
        orThrowWithLog(addon.objectReuseMap(this.#handle, name, descriptor), () => action);
      },
      setMaxEntries: (entries) => {
        const action = `Cannot set the limit of map "${name}" of BPF object "${this.name}" to ${entries} entries`;
        this.#refuseWhenSpent(action);
        orThrowWithLog(addon.objectSetMaxEntries(this.#handle, name, entries), () => action);
      },
    };
  }

  #refuseWhenSpent(action: string): void {
    if (this.#isSpent) {
      throw new BpfError(action, constants.errno.EBUSY, { detail: "it was loaded or closed before" });
    }
  }

  #find<Member extends { readonly name: string }>(kind: string, members: readonly Member[], name: string): Member {
    const member = members.find((candidate) => candidate.name === name);
    if (member === undefined) {
      const names = members.map((candidate) => `"${candidate.name}"`).join(", ");
      throw new BpfError(`Cannot find ${kind} "${name}" in BPF object "${this.name}"`, constants.errno.ENOENT, {
        detail: `it has ${names || "none"}`,
      });
    }
    return member;
  }
}
