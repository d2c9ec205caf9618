/** Which of the node's addresses a container gets. */
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { formatAddress, parseCidr } from "../cidr.ts";
import { isSameOwner, type Lease, type LeaseOwner, type LeaseStore } from "./lease-store.ts";

/** The node's part of the pod network. */
export interface NodeAddresses {
  /** CIDRs, in the order in which they are used up. */
  readonly blocks: readonly string[];
  /** Lies in one of the blocks and belongs to tunl0. */
  readonly tunnelAddress: string;
}

export class Pool {
  readonly #store: LeaseStore;

  constructor(store: LeaseStore) {
    this.#store = store;
  }

  /**
   * Leases the next free address of the first block that has one; who has a lease already gets the same again. Within a
   * block the search goes on behind the address given last, so that one just released rests as long as possible.
   *
   * @throws CniError with `PoolExhausted`
   */
  async reserve(owner: LeaseOwner, { blocks, tunnelAddress }: NodeAddresses): Promise<Lease> {
    const own = (await this.leasesOf(owner)).find(({ block }) => blocks.includes(block));
    if (own) {
      return own;
    }
    let usable = 0;
    for (const block of blocks) {
      const addresses = addressesOf(block).filter((address) => address !== tunnelAddress);
      usable += addresses.length;
      const taken = await this.#store.taken(block);
      for (const address of startingBehind(await this.#store.lastGiven(block), addresses)) {
        const lease = { address, block, owner, time: new Date().toISOString() };
        if (!taken.has(address) && (await this.#store.create(lease))) {
          return lease;
        }
      }
    }
    const where = blocks.length === 0 ? "it has none" : blocks.join(", ");
    throw new CniError(
      CniCode.PoolExhausted,
      `Cannot reserve an address for "${owner.containerId}": none of ${usable} in the node's blocks (${where}) is free`,
    );
  }

  /** Gives back every lease of the owner; content when there is none. */
  async release(owner: LeaseOwner): Promise<void> {
    for (const lease of await this.leasesOf(owner)) {
      await this.#store.remove(lease);
    }
  }

  async leasesOf(owner: LeaseOwner): Promise<Lease[]> {
    return (await this.#store.list()).filter((lease) => isSameOwner(lease.owner, owner));
  }
}

/** All of them: with /32 addresses in the pods, network and broadcast address are as good as any. */
function addressesOf(block: string): string[] {
  const { first, last } = parseCidr(block);
  return Array.from({ length: last - first + 1 }, (_, offset) => formatAddress(first + offset));
}

function startingBehind(last: string | undefined, addresses: readonly string[]): string[] {
  const start = last === undefined ? 0 : addresses.indexOf(last) + 1;
  return [...addresses.slice(start), ...addresses.slice(0, start)];
}
