/** Which of the node's addresses a container gets. */
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { containsAddress, formatAddress, parseAddress, parseCidr } from "../cidr.ts";
import { describeOwner, isSameOwner, type Lease, type LeaseOwner, type LeaseStore } from "./lease-store.ts";

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
   * block the search goes on behind the address given last, so that one just released rests as long as possible. One
   * call an owner at a time.
   *
   * @param wanted the one address to lease, if any will not do
   * @throws CniError with `PoolExhausted`; with `InvalidConfiguration` or `Conflict` when the wanted address cannot be had
   */
  async reserve(owner: LeaseOwner, node: NodeAddresses, wanted?: string): Promise<Lease> {
    const own = (await this.leasesOf(owner)).find(({ block }) => node.blocks.includes(block));
    if (wanted !== undefined) {
      return this.#reserveWanted(owner, node, wanted, own);
    }
    if (own) {
      return own;
    }
    const { blocks } = node;
    let usable = 0;
    for (const block of blocks) {
      const addresses = usableAddresses(block, node);
      usable += addresses.length;
      const taken = await this.#store.taken(block);
      for (const address of startingBehind(await this.#store.lastGiven(block), addresses)) {
        const lease = newLease(owner, block, address);
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
    await this.#store.tidy(owner);
  }

  async leasesOf(owner: LeaseOwner): Promise<Lease[]> {
    return (await this.#store.list()).filter((lease) => isSameOwner(lease.owner, owner));
  }

  /** Who has the address, `undefined` when nobody has, or nobody that can be read. */
  async ownerOf(address: string): Promise<LeaseOwner | undefined> {
    return (await this.#store.list()).find((lease) => lease.address === address)?.owner;
  }

  /** Who has an address of this network. */
  async ownersIn(network: string): Promise<LeaseOwner[]> {
    return (await this.#store.list()).map(({ owner }) => owner).filter((owner) => owner.network === network);
  }

  async hasFree(node: NodeAddresses): Promise<boolean> {
    for (const block of node.blocks) {
      const taken = await this.#store.taken(block);
      if (usableAddresses(block, node).some((address) => !taken.has(address))) {
        return true;
      }
    }
    return false;
  }

  async #reserveWanted(owner: LeaseOwner, node: NodeAddresses, address: string, own?: Lease): Promise<Lease> {
    const action = `Cannot reserve ${address} for "${owner.containerId}"`;
    if (own && own.address !== address) {
      throw new CniError(
        CniCode.Conflict,
        `${action}: it has ${own.address} already, allowed is one address an interface`,
      );
    }
    const block = node.blocks.find((cidr) => containsAddress(parseCidr(cidr), parseAddress(address)));
    if (block === undefined || address === node.tunnelAddress) {
      const reason = block === undefined ? "it is not in the blocks of this node" : "it is the address of the tunnel";
      throw new CniError(
        CniCode.InvalidConfiguration,
        `${action}: ${reason}, allowed are the others in ${node.blocks.join(", ") || "no block: the node has none"}`,
      );
    }
    const lease = own ?? newLease(owner, block, address);
    if (!own && !(await this.#store.create(lease))) {
      const other = await this.ownerOf(address);
      const holder = other ? describeOwner(other) : "an unreadable lease";
      throw new CniError(CniCode.Conflict, `${action}: ${holder} has it, allowed is an address that is free`);
    }
    return lease;
  }
}

function newLease(owner: LeaseOwner, block: string, address: string): Lease {
  return { address, block, owner, time: new Date().toISOString() };
}

function usableAddresses(block: string, { tunnelAddress }: NodeAddresses): string[] {
  return addressesOf(block).filter((address) => address !== tunnelAddress);
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
