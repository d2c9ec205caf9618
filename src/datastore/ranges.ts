/** Address ranges of which no two overlap, each with its owner. */
import { type AddressRange, overlaps } from "../cidr.ts";

export class Ranges<Owner extends AddressRange> {
  /** In the order of their addresses. */
  readonly #owners: Owner[] = [];

  /** The first owner that has one of these addresses. */
  overlapping(range: AddressRange): Owner | undefined {
    const owner = this.#owners[this.#position(range)];
    return owner && overlaps(owner, range) ? owner : undefined;
  }

  /** Throws a RangeError when an address has an owner already. */
  add(owner: Owner): void {
    const position = this.#position(owner);
    const next = this.#owners[position];
    if (next && overlaps(next, owner)) {
      throw new RangeError(`Cannot add range ${owner.first}-${owner.last}: ${next.first}-${next.last} is there`);
    }
    this.#owners.splice(position, 0, owner);
  }

  /** Removes every owner that has one of these addresses and returns them. */
  clear(range: AddressRange): Owner[] {
    const start = this.#position(range);
    let end = start;
    for (let owner = this.#owners[end]; owner && overlaps(owner, range); owner = this.#owners[end]) {
      end++;
    }
    return this.#owners.splice(start, end - start);
  }

  /** Index of the first owner that does not end before the range begins. */
  #position({ first }: AddressRange): number {
    let low = 0;
    let high = this.#owners.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#owners[middle] as Owner).last < first) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
}
