/** Maps: what BPF programs and user space share. */
import { constants } from "node:os";
import { addon, type MapDescription } from "./addon.ts";
import { deleteKeys, type Entry, setEntries } from "./batch.ts";
import { Descriptor, KernelObject } from "./descriptor.ts";
import { BpfError, orThrow } from "./error.ts";
import { checkRange } from "./range.ts";

/** BPF_ANY, BPF_NOEXIST, BPF_EXIST of linux/bpf.h. */
const MODES = { any: 0, create: 1, update: 2 } as const;

const PER_CPU_TYPES = new Set(["percpu_hash", "percpu_array", "lru_percpu_hash", "percpu_cgroup_storage"]);

/** What can be said about a map of an object before it is loaded. */
export interface MapDraft {
  reuse(descriptor: number): void;
  setMaxEntries(entries: number): void;
}

export class BpfMap extends KernelObject {
  #description: MapDescription;
  readonly #draft: MapDraft | undefined;

  constructor(
    description: MapDescription,
    descriptor: Descriptor,
    options: { draft?: MapDraft; pinPath?: string } = {},
  ) {
    super(descriptor, options.pinPath);
    this.#description = description;
    this.#draft = options.draft;
  }

  /** Throws a `BpfError` when there is no map at `path`. The name is then the kernel's: at most 15 bytes. */
  static openPinned(path: string): BpfMap {
    const number = Descriptor.openPinned("map", path);
    const description = orThrow(addon.mapInfo(number), () => `Cannot describe pinned map "${path}"`);
    return new BpfMap(description, new Descriptor("map", description.name, number), { pinPath: path });
  }

  get name(): string {
    return this.#description.name;
  }

  /** As libbpf and bpftool write it: "hash", "lpm_trie", "percpu_array". */
  get type(): string {
    return this.#description.type;
  }

  /** Bytes. */
  get keySize(): number {
    return this.#description.keySize;
  }

  /** Bytes; in a per-CPU map of the value of one CPU. */
  get valueSize(): number {
    return this.#description.valueSize;
  }

  get maxEntries(): number {
    return this.#description.maxEntries;
  }

  /** The kernel's number of this map, never used for two. */
  get id(): number {
    return orThrow(addon.mapInfo(this.descriptor.number), () => `Cannot describe ${this.descriptor.label}`).id;
  }

  /**
   * Before the load: take the map that is pinned at `path` instead of a new one. Throws a `BpfError` when there is none,
   * or with EINVAL when it is of another type, size or limit than the object's.
   */
  reusePinned(path: string): void {
    const draft = this.#beforeLoad();
    using pinned = BpfMap.openPinned(path);
    for (const property of ["type", "keySize", "valueSize", "maxEntries"] as const) {
      if (pinned[property] !== this[property]) {
        throw new BpfError(`Cannot reuse pinned map "${path}" as ${this.descriptor.label}`, constants.errno.EINVAL, {
          detail: `its ${property} is ${pinned[property]}, it must be ${this[property]}`,
        });
      }
    }
    draft.reuse(pinned.descriptor.number);
  }

  /** Before the load: another limit than the one in the object. */
  setMaxEntries(entries: number): void {
    checkRange("limit of entries", entries);
    this.#beforeLoad().setMaxEntries(entries);
    this.#description = { ...this.#description, maxEntries: entries };
  }

  /** The value of a key, undefined when it is absent. */
  get(key: Uint8Array): Uint8Array | undefined {
    if (this.#isPerCpu) {
      throw new TypeError(`Cannot get one value from ${this.descriptor.label}: its type is "${this.type}"`);
    }
    this.#checkLength("key", key, this.keySize);
    return this.#lookup(key, this.valueSize);
  }

  /** The value of a key on each possible CPU, in their order; none when the key is absent. */
  getPerCpu(key: Uint8Array): Uint8Array[] {
    if (!this.#isPerCpu) {
      throw new TypeError(
        `Cannot get the values of each CPU from ${this.descriptor.label}: its type is "${this.type}"`,
      );
    }
    this.#checkLength("key", key, this.keySize);
    const stride = this.#perCpuStride;
    const values = this.#lookup(key, stride * addon.possibleCpus());
    return values === undefined
      ? []
      : Array.from({ length: values.length / stride }, (_, cpu) =>
          values.slice(cpu * stride, cpu * stride + this.valueSize),
        );
  }

  /**
   * Stores a value; in a per-CPU map for every CPU. Mode "create" is refused with EEXIST where the key is present,
   * "update" with ENOENT where it is absent, any with E2BIG or ENOSPC where the map is full.
   */
  set(key: Uint8Array, value: Uint8Array, { mode = "any" }: { mode?: keyof typeof MODES } = {}): void {
    const answer = addon.mapSet(this.descriptor.number, ...this.#toStored([key, value]), MODES[mode]);
    orThrow(answer, () => `Cannot store an entry in ${this.descriptor.label}`, { detail: this.#limit });
  }

  /** Whether the key was there. */
  delete(key: Uint8Array): boolean {
    this.#checkLength("key", key, this.keySize);
    const answer = addon.mapDelete(this.descriptor.number, key);
    if (answer === -constants.errno.ENOENT) {
      return false;
    }
    orThrow(answer, () => `Cannot delete an entry of ${this.descriptor.label}`);
    return true;
  }

  /**
   * Stores many entries in order, by one system call where the map's type has one. When one is refused the ones before
   * it are stored: the `BpfError` says how many.
   */
  setBatch(entries: Iterable<Entry>): void {
    const list = Array.from(entries, (entry) => this.#toStored(entry));
    const { error, done } = setEntries(this.descriptor.number, list);
    orThrow(error, () => `Cannot store ${list.length} entries in ${this.descriptor.label}`, {
      detail: `${done} stored; ${this.#limit}`,
    });
  }

  /** Deletes many keys; answers how many were there. */
  deleteBatch(keys: Iterable<Uint8Array>): number {
    const list = [...keys];
    for (const key of list) {
      this.#checkLength("key", key, this.keySize);
    }
    const { error, done } = deleteKeys(this.descriptor.number, list);
    orThrow(error, () => `Cannot delete ${list.length} entries of ${this.descriptor.label}`, {
      detail: `${done} deleted`,
    });
    return done;
  }

  /**
   * The keys, each once, while anyone may change the map: every key that is there from the first step to the last is
   * among them, one that is deleted meanwhile may be.
   */
  *keys(): Generator<Uint8Array, void, void> {
    // The kernel begins again at the first key when the one it is asked about is gone.
    const seen = new Set<string>();
    let key = this.#keyAfter(new Uint8Array(0));
    while (key !== undefined) {
      // Asked before the reader has the key and may delete it: else emptying a map would begin again at each key.
      const next = this.#keyAfter(key);
      const text = Buffer.from(key).toString("latin1");
      if (!seen.has(text)) {
        seen.add(text);
        yield key;
      }
      key = next;
    }
  }

  /** As `keys`, with the values; a key that is deleted before its value is read is left out. */
  *entries(): Generator<Entry, void, void> {
    for (const key of this.keys()) {
      const value = this.get(key);
      if (value !== undefined) {
        yield [key, value];
      }
    }
  }

  get #isPerCpu(): boolean {
    return PER_CPU_TYPES.has(this.type);
  }

  /** The kernel rounds the value of each CPU up to 8 bytes. */
  get #perCpuStride(): number {
    return Math.ceil(this.valueSize / 8) * 8;
  }

  get #limit(): string {
    return `the map holds at most ${this.maxEntries} entries`;
  }

  #beforeLoad(): MapDraft {
    if (this.#draft === undefined) {
      throw new BpfError(`Cannot change ${this.descriptor.label}`, constants.errno.EBUSY, { detail: "it is loaded" });
    }
    return this.#draft;
  }

  /** No bytes stand before the first key. */
  #keyAfter(key: Uint8Array): Uint8Array | undefined {
    const next = new Uint8Array(this.keySize);
    const answer = addon.mapNextKey(this.descriptor.number, key, next);
    if (answer === -constants.errno.ENOENT) {
      return undefined;
    }
    orThrow(answer, () => `Cannot list the keys of ${this.descriptor.label}`);
    return next;
  }

  #lookup(key: Uint8Array, size: number): Uint8Array | undefined {
    const value = new Uint8Array(size);
    const answer = addon.mapGet(this.descriptor.number, key, value);
    if (answer === -constants.errno.ENOENT) {
      return undefined;
    }
    orThrow(answer, () => `Cannot read an entry of ${this.descriptor.label}`);
    return value;
  }

  /** Checks an entry and gives it the form in which the kernel takes it. */
  #toStored([key, value]: Entry): Entry {
    this.#checkLength("key", key, this.keySize);
    this.#checkLength("value", value, this.valueSize);
    if (!this.#isPerCpu) {
      return [key, value];
    }
    const stored = new Uint8Array(this.#perCpuStride * addon.possibleCpus());
    for (let offset = 0; offset < stored.length; offset += this.#perCpuStride) {
      stored.set(value, offset);
    }
    return [key, stored];
  }

  #checkLength(what: "key" | "value", bytes: Uint8Array, size: number): void {
    if (bytes.length !== size) {
      throw new RangeError(
        `Cannot use a ${what} of ${bytes.length} bytes in ${this.descriptor.label}: it must have ${size} bytes`,
      );
    }
  }
}
