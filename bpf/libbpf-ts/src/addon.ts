/** Loads the native addon and says what its functions take and answer. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

/** An object that was opened and not loaded yet; freed with the value. */
export type ObjectHandle = { readonly handle: unique symbol };

export interface ProgramDescription {
  /** From an object the whole name; from the kernel its first 15 bytes. */
  readonly name: string;
  /** As libbpf and bpftool write it: "xdp", "sched_cls". */
  readonly type: string;
}

export interface MapDescription {
  /** From an object the whole name; from the kernel its first 15 bytes. */
  readonly name: string;
  /** As libbpf and bpftool write it: "hash", "lpm_trie", "percpu_array". */
  readonly type: string;
  /** Bytes. */
  readonly keySize: number;
  /** Bytes; in a per-CPU map of the value of one CPU. */
  readonly valueSize: number;
  readonly maxEntries: number;
}

interface BatchResult {
  readonly error: number;
  readonly done: number;
}

/** Every function answers a negative errno (a number) when the kernel or libbpf refuses. */
interface Addon {
  readLog(): string;
  errorText(errno: number): string;
  pin(descriptor: number, path: string): number;
  openPinned(path: string): number;

  objectOpen(image: Uint8Array, name: string): ObjectHandle | number;
  objectContents(object: ObjectHandle): { maps: MapDescription[]; programs: ProgramDescription[] } | number;
  objectSetMaxEntries(object: ObjectHandle, map: string, entries: number): number;
  objectReuseMap(object: ObjectHandle, map: string, descriptor: number): number;
  objectLoad(object: ObjectHandle): number[] | number;
  objectClose(object: ObjectHandle): number;

  mapInfo(descriptor: number): (MapDescription & { readonly id: number }) | number;
  mapGet(descriptor: number, key: Uint8Array, value: Uint8Array): number;
  mapSet(descriptor: number, key: Uint8Array, value: Uint8Array, flags: number): number;
  mapDelete(descriptor: number, key: Uint8Array): number;
  mapNextKey(descriptor: number, key: Uint8Array, next: Uint8Array): number;
  mapSetBatch(descriptor: number, keys: Uint8Array, values: Uint8Array, count: number): BatchResult;
  mapDeleteBatch(descriptor: number, keys: Uint8Array, count: number): BatchResult;
  possibleCpus(): number;

  programInfo(descriptor: number): (ProgramDescription & { readonly id: number; readonly tag: string }) | number;
  programById(id: number): number;
  programTestRun(
    descriptor: number,
    data: Uint8Array,
    context: Uint8Array,
    repeat: number,
    answer: Uint8Array,
  ): { readonly returnValue: number; readonly size: number; readonly durationNs: number } | number;

  linkCreate(program: number, ifindex: number, attachType: number, flags: number): number;
  linkUpdate(link: number, program: number, expected: number): number;
  linkDetach(link: number): number;
  linkInfo(link: number): LinkNumbers | number;
  probeTcx(attachType: number): number;

  clsactAttach(program: number, ifindex: number, priority: number, handle: number): number;
  clsactQuery(ifindex: number, priority: number, handle: number): number;
  clsactDetach(ifindex: number, priority: number, handle: number): number;
}

interface LinkNumbers {
  readonly type: number;
  readonly id: number;
  readonly programId: number;
  readonly ifindex: number;
  readonly attachType: number;
}

// A bundled program has the addon and its libraries beside itself, the package has them in build/.
const beside = new URL("./libbpf.node", import.meta.url);
const location = existsSync(beside) ? beside : new URL("../build/libbpf.node", import.meta.url);

export const addon: Addon = createRequire(import.meta.url)(fileURLToPath(location));
