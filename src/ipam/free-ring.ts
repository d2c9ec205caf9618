/**
 * Which addresses of a block are free, in the order in which they were released: a ring of offsets into the block, and
 * one time for each address. It lies in a file, and is a hint there: a process can be killed between any two writes, so
 * the leases themselves decide.
 *
 * 32-bit words in the machine's order: magic, version, size, head, count; `size` slots of the ring; `size` times. Of a
 * free address the time is its release, 0 when it was never given. Of any other it is when the address was taken out of
 * the ring, until somebody has seen its lease, and 0 from then on.
 */

const magic = 0x65657266;
const version = 1;

const field = { magic: 0, version: 1, size: 2, head: 3, count: 4 } as const;
const headerWords = 5;

export const headerBytes = headerWords * Uint32Array.BYTES_PER_ELEMENT;

/** Bytes of a ring for so many addresses. */
export function ringBytes(size: number): number {
  return (headerWords + 2 * size) * Uint32Array.BYTES_PER_ELEMENT;
}

export class FreeRing {
  readonly #words: Uint32Array;
  readonly #slots: Uint32Array;
  readonly #times: Uint32Array;
  /** One for each address: 1 when it is in the ring. */
  readonly #isFree: Uint8Array;
  #isChanged = false;

  /** @param free offsets of addresses that were all released at that time, which is 0 for never given */
  static of(size: number, free: Iterable<number>, releasedAt: number): FreeRing {
    const ring = new FreeRing(new Uint32Array(ringBytes(size) / Uint32Array.BYTES_PER_ELEMENT), size);
    ring.#words.set([magic, version, size]);
    for (const offset of free) {
      ring.put(offset, releasedAt);
    }
    return ring;
  }

  /** @returns undefined when the bytes are not a ring of that size */
  static decode(bytes: Uint8Array, size: number): FreeRing | undefined {
    if (bytes.byteLength !== ringBytes(size)) {
      return undefined;
    }
    const ring = new FreeRing(new Uint32Array(new Uint8Array(bytes).buffer), size);
    return ring.#isWhole() ? ring : undefined;
  }

  private constructor(words: Uint32Array, size: number) {
    this.#words = words;
    this.#slots = words.subarray(headerWords, headerWords + size);
    this.#times = words.subarray(headerWords + size);
    this.#isFree = new Uint8Array(size);
  }

  get bytes(): Uint8Array {
    return new Uint8Array(this.#words.buffer);
  }

  /** Since it was made or decoded. */
  get isChanged(): boolean {
    return this.#isChanged;
  }

  get free(): number[] {
    return Array.from({ length: this.#count }, (_, index) => this.#at(index));
  }

  /** The first that may be given: none behind it was released before it. */
  next(mayGive: (offset: number) => boolean): { readonly offset: number; readonly releasedAt: number } | undefined {
    for (let index = 0; index < this.#count; index++) {
      const offset = this.#at(index);
      if (mayGive(offset)) {
        return { offset, releasedAt: this.#times[offset] as number };
      }
    }
    return undefined;
  }

  /** Takes an address out, also one that is not in the ring. @param now seconds since 1970, not 0 */
  take(offset: number, now: number): void {
    if (this.#isFree[offset] === 1) {
      this.#remove(offset);
    }
    this.#setTime(offset, now);
  }

  /** Makes an address the last of the ring. */
  put(offset: number, releasedAt: number): void {
    if (this.#isFree[offset] === 1) {
      this.#remove(offset);
    }
    this.#slots[this.#slot(this.#count)] = offset;
    this.#words[field.count] = this.#count + 1;
    this.#isFree[offset] = 1;
    this.#setTime(offset, releasedAt);
  }

  /** Addresses that were taken out and that nobody has seen the lease of yet. */
  unsettled(): number[] {
    const found: number[] = [];
    this.#times.forEach((time, offset) => {
      if (time !== 0 && this.#isFree[offset] === 0) {
        found.push(offset);
      }
    });
    return found;
  }

  /** The lease of an address has been seen. */
  settle(offset: number): void {
    if (this.#isFree[offset] === 1) {
      this.#remove(offset);
    }
    this.#setTime(offset, 0);
  }

  isSettled(offset: number): boolean {
    return this.#isFree[offset] === 0 && this.#times[offset] === 0;
  }

  get #count(): number {
    return this.#words[field.count] as number;
  }

  /** Where in the slots the entry is that so many others are before. */
  #slot(index: number): number {
    return ((this.#words[field.head] as number) + index) % this.#slots.length;
  }

  #at(index: number): number {
    return this.#slots[this.#slot(index)] as number;
  }

  #setTime(offset: number, time: number): void {
    this.#times[offset] = time;
    this.#isChanged = true;
  }

  /** Moves those before it up, which are none as a rule. */
  #remove(offset: number): void {
    let index = 0;
    while (this.#at(index) !== offset) {
      index++;
    }
    for (; index > 0; index--) {
      this.#slots[this.#slot(index)] = this.#at(index - 1);
    }
    this.#words[field.head] = this.#slot(1);
    this.#words[field.count] = this.#count - 1;
    this.#isFree[offset] = 0;
    this.#isChanged = true;
  }

  /** Every entry is an address of the block and none is there twice. Notes which are there. */
  #isWhole(): boolean {
    const size = this.#slots.length;
    const header = [magic, version, size];
    if (header.some((word, index) => this.#words[index] !== word)) {
      return false;
    }
    if ((this.#words[field.head] as number) >= size || this.#count > size) {
      return false;
    }
    for (let index = 0; index < this.#count; index++) {
      const offset = this.#at(index);
      if (offset >= size || this.#isFree[offset] === 1) {
        return false;
      }
      this.#isFree[offset] = 1;
    }
    return true;
  }
}

/** Seconds since 1970, never 0, whatever the clock says. */
export function ringTime(now: Date): number {
  return Math.min(Math.max(Math.floor(now.getTime() / 1000), 1), 0xffffffff);
}
