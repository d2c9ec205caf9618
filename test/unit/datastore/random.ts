/** Random choices that a seed repeats (mulberry32, public domain by T. Ettinger). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** A whole number from 0 to `bound` - 1. */
  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let bits = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) % bound;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)] as T;
  }

  oneIn(count: number): boolean {
    return this.below(count) === 0;
  }

  shuffled<T>(items: Iterable<T>): T[] {
    const result = [...items];
    for (let end = result.length - 1; end > 0; end--) {
      const other = this.below(end + 1);
      [result[end], result[other]] = [result[other] as T, result[end] as T];
    }
    return result;
  }
}
