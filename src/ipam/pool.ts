/** Which of the node's addresses a container gets. */
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { containsAddress, formatAddress, parseAddress, parseCidr } from "../cidr.ts";
import {
  type Choice,
  describeOwner,
  isSameOwner,
  type Lease,
  type LeaseOwner,
  type LeaseStore,
  tunnelOwner,
} from "./lease-store.ts";

/** The node's part of the pod network. */
export interface NodeAddresses {
  /** CIDRs, in the order in which they are used up. */
  readonly blocks: readonly string[];
  /** Belongs to tunl0; absent while that has none. */
  readonly tunnelAddress?: string;
  /** CIDRs that are never given. */
  readonly reserved?: readonly string[];
}

/** Others still send to who had the address before. */
const coolDownSeconds = 60;

export class Pool {
  readonly #store: LeaseStore;
  readonly #now: () => Date;

  constructor(store: LeaseStore, now: () => Date = () => new Date()) {
    this.#store = store;
    this.#now = now;
  }

  /**
   * Leases an address of the first block that has one at rest, and where all are given or were released in the last
   * minute, the one that rests longest. Who has a lease gets the same again, also from a block that is not used up any
   * more. One call an owner at a time.
   *
   * @param wanted the one address to lease, if any will not do
   * @throws CniError with `PoolExhausted`; with `InvalidConfiguration` or `Conflict` when the wanted address cannot be
   *   had; with `TryAgainLater` when sync has opened none of the blocks
   */
  async reserve(owner: LeaseOwner, node: NodeAddresses, wanted?: string): Promise<Lease> {
    const own = await this.#store.leaseOf(owner);
    if (wanted !== undefined) {
      return this.#reserveWanted(owner, node, wanted, own);
    }
    if (own) {
      return own;
    }
    const choice = this.#choice(owner, node);
    const resting: { block: string; since: number }[] = [];
    let closed = 0;
    for (const block of node.blocks) {
      const offer = await this.#store.reserve(owner, block, choice);
      if (offer.kind === "lease") {
        return offer.lease;
      }
      if (offer.kind === "resting") {
        resting.push({ block, since: offer.since });
      }
      closed += offer.kind === "closed" ? 1 : 0;
    }
    for (const { block } of resting.sort((one, other) => one.since - other.since)) {
      const offer = await this.#store.reserve(owner, block, { ...choice, isRested: () => true });
      if (offer.kind === "lease") {
        return offer.lease;
      }
    }
    const action = `Cannot reserve an address for "${owner.containerId}"`;
    throw closed > 0 && closed === node.blocks.length
      ? this.#notOpen(action, node)
      : await this.#exhausted(action, node);
  }

  /** Gives back the lease of the owner; content when there is none. */
  release(owner: LeaseOwner): Promise<void> {
    return this.#store.release(owner, this.#now());
  }

  leaseOf(owner: LeaseOwner): Promise<Lease | undefined> {
    return this.#store.leaseOf(owner);
  }

  /** Who has the address, `undefined` when nobody has, or nobody that can be read. */
  async ownerOf(address: string): Promise<LeaseOwner | undefined> {
    const lease = await this.#store.leaseAt(address);
    return lease === "damaged" ? undefined : lease?.owner;
  }

  /** Who has an address of this network, or may have begun to get one. The tunnel is in none, whatever its name. */
  async ownersIn(network: string): Promise<LeaseOwner[]> {
    const owners = await this.#store.owners();
    return owners.filter((owner) => owner.network === network && !isSameOwner(owner, tunnelOwner));
  }

  /** How many more addresses the node can give. Takes longer the more are leased. */
  async countFree(node: NodeAddresses): Promise<number> {
    const counts = await this.#counts(node);
    return counts.usable - counts.leased;
  }

  async #reserveWanted(owner: LeaseOwner, node: NodeAddresses, address: string, own?: Lease): Promise<Lease> {
    const action = `Cannot reserve ${address} for "${owner.containerId}"`;
    if (own) {
      if (own.address === address) {
        return own;
      }
      throw new CniError(
        CniCode.Conflict,
        `${action}: it has ${own.address} already, allowed is one address an interface`,
      );
    }
    const block = blockToGiveFrom(action, node, owner, address);
    const answer = await this.#store.reserveAddress(owner, block, address, this.#now());
    switch (answer.kind) {
      case "lease":
        return answer.lease;
      case "closed":
        throw this.#notOpen(action, { blocks: [block] });
      case "taken": {
        const other = await this.ownerOf(address);
        const holder = other ? describeOwner(other) : "an unreadable lease";
        throw new CniError(CniCode.Conflict, `${action}: ${holder} has it, allowed is an address that is free`);
      }
    }
  }

  #choice(owner: LeaseOwner, node: NodeAddresses): Choice {
    const now = this.#now();
    const seconds = now.getTime() / 1000;
    const isReserved = isReservedBy(node);
    const tunnelAddress = tunnelAddressFor(owner, node);
    return {
      now,
      mayGive: (address) => address !== tunnelAddress && !isReserved(address),
      // In both directions: a clock that was set back makes nobody rest for long.
      isRested: (releasedAt) => Math.abs(seconds - releasedAt) >= coolDownSeconds,
    };
  }

  #notOpen(action: string, { blocks }: NodeAddresses): CniError {
    return new CniError(
      CniCode.TryAgainLater,
      `${action}: ${blocks.join(", ")} cannot be leased from in "${this.#store.place}", sync has not opened it yet or uses another stateDir`,
    );
  }

  async #exhausted(action: string, node: NodeAddresses): Promise<CniError> {
    const { usable, leased } = await this.#counts(node);
    const { blocks } = node;
    const where =
      blocks.length === 0
        ? "the node has no block of a pool that pods get addresses from unasked"
        : `blocks ${blocks.length} (${blocks.join(", ")})`;
    return new CniError(
      CniCode.PoolExhausted,
      `${action}: no address is free, leases ${leased} of ${usable}, ${where}`,
    );
  }

  /** Of the open blocks, without what is never given to a pod. */
  async #counts(node: NodeAddresses): Promise<{ usable: number; leased: number }> {
    const { mayGive } = this.#choice({ ...tunnelOwner, containerId: "" }, node);
    let usable = 0;
    let leased = 0;
    for (const block of node.blocks) {
      const taken = await this.#store.taken(block);
      const { first, last } = parseCidr(block);
      for (let address = first; taken !== undefined && address <= last; address++) {
        usable += mayGive(address) ? 1 : 0;
        leased += mayGive(address) && taken.has(formatAddress(address)) ? 1 : 0;
      }
    }
    return { usable, leased };
  }
}

/** @throws CniError when no block of the node can give the address to the owner */
function blockToGiveFrom(action: string, node: NodeAddresses, owner: LeaseOwner, address: string): string {
  const number = parseAddress(address);
  const block = node.blocks.find((cidr) => containsAddress(parseCidr(cidr), number));
  const allowed = node.blocks.length === 0 ? "which has none" : `allowed are the others in ${node.blocks.join(", ")}`;
  const refuse = (reason: string) => new CniError(CniCode.InvalidConfiguration, `${action}: ${reason}, ${allowed}`);
  if (block === undefined) {
    throw refuse("it is not in the blocks that this node gives from");
  }
  if (number === tunnelAddressFor(owner, node)) {
    throw refuse("it is the address of the tunnel");
  }
  const reserved = node.reserved?.find((cidr) => containsAddress(parseCidr(cidr), number));
  if (reserved !== undefined) {
    throw refuse(`it is reserved by ${reserved}`);
  }
  return block;
}

/** The one address that the owner must not get: the tunnel may have its own. */
function tunnelAddressFor(owner: LeaseOwner, { tunnelAddress }: NodeAddresses): number | undefined {
  return tunnelAddress === undefined || isSameOwner(owner, tunnelOwner) ? undefined : parseAddress(tunnelAddress);
}

function isReservedBy({ reserved = [] }: NodeAddresses): (address: number) => boolean {
  const ranges = reserved.map(parseCidr);
  return (address) => ranges.some((range) => containsAddress(range, address));
}
