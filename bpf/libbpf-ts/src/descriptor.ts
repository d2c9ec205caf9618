/** A file descriptor of a BPF map, program or link: owned, closed once, never used after. */
import { closeSync, readlinkSync, rmSync } from "node:fs";
import { constants } from "node:os";
import { addon } from "./addon.ts";
import { BpfError, orThrow } from "./error.ts";

const CLOSED = -1;
const NOT_LOADED = -2;

/** What `/proc/self/fd` calls opened pins: the kernel's interfaces do not tell the kind. */
const KINDS = { map: "anon_inode:bpf-map", program: "anon_inode:bpf-prog", link: "anon_inode:bpf-link" } as const;

export type Kind = keyof typeof KINDS;

interface Holder {
  number: number;
}

const forgotten = new FinalizationRegistry<Holder>(closeHolder);

export class Descriptor {
  readonly #kind: Kind;
  readonly #name: string;
  readonly #holder: Holder = { number: NOT_LOADED };

  /** Without a number it belongs to an object that is not loaded: see `adopt`. */
  constructor(kind: Kind, name: string, number: number = NOT_LOADED) {
    this.#kind = kind;
    this.#name = name;
    this.#holder.number = number;
    forgotten.register(this, this.#holder, this);
  }

  /** Opens a pin. Throws a `BpfError` when nothing, or something of another kind, is pinned at `path`. */
  static openPinned(kind: Kind, path: string): number {
    const action = () => `Cannot open pinned ${kind} "${path}"`;
    const number = orThrow(addon.openPinned(path), action);
    const found = readlinkSync(`/proc/self/fd/${number}`);
    if (found !== KINDS[kind]) {
      closeSync(number);
      throw new BpfError(action(), constants.errno.EINVAL, { detail: `"${found}" is pinned there` });
    }
    return number;
  }

  /** `map "peers"`, for error messages. */
  get label(): string {
    return `${this.#kind} "${this.#name}"`;
  }

  /** The number to hand to the kernel. Throws a `BpfError` with EBADF before the load and after the close. */
  get number(): number {
    const { number } = this.#holder;
    if (number < 0) {
      const detail = number === CLOSED ? "it is closed" : "its object is not loaded";
      throw new BpfError(`Cannot use ${this.label}`, constants.errno.EBADF, { detail });
    }
    return number;
  }

  adopt(number: number): void {
    this.#holder.number = number;
  }

  /** May be called again. */
  close(): void {
    forgotten.unregister(this);
    closeHolder(this.#holder);
  }
}

/** What maps, programs and links have in common. */
export abstract class KernelObject {
  protected readonly descriptor: Descriptor;
  #pinPath: string | undefined;

  constructor(descriptor: Descriptor, pinPath?: string) {
    this.descriptor = descriptor;
    this.#pinPath = pinPath;
  }

  /**
   * Keeps it in the kernel when no process has it open: `path` is in a bpffs, does not exist, and its names have no
   * dot (the kernel answers EPERM).
   */
  pin(path: string): void {
    const { number, label } = this.descriptor;
    orThrow(addon.pin(number, path), () => `Cannot pin ${label} at "${path}"`);
    this.#pinPath = path;
  }

  /** Removes the pin that `pin` made or `openPinned` opened, if there is one; what is open stays open. */
  unpin(): void {
    if (this.#pinPath !== undefined) {
      rmSync(this.#pinPath, { force: true });
      this.#pinPath = undefined;
    }
  }

  /** Gives up this process's descriptor; what is pinned or attached stays. May be called again. */
  close(): void {
    this.descriptor.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function closeHolder(holder: Holder): void {
  const { number } = holder;
  holder.number = CLOSED;
  if (number >= 0) {
    closeSync(number);
  }
}
