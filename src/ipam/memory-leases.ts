/** Leases of one process that go with it: for nodes that are played in tests. */
import { type Cidr, containsAddress, formatAddress, parseAddress, parseCidr } from "../cidr.ts";
import { FreeRing, ringTime } from "./free-ring.ts";
import {
  type Answer,
  type Choice,
  type Lease,
  type LeaseOwner,
  type LeaseStore,
  type LivePod,
  type Offer,
  ownerFileName,
  type Recovery,
} from "./lease-store.ts";

interface MemoryBlock {
  readonly cidr: Cidr;
  readonly ring: FreeRing;
  readonly leases: Map<string, Lease>;
  isOpen: boolean;
}

export class MemoryLeases implements LeaseStore {
  readonly place = "memory";
  readonly #blocks = new Map<string, MemoryBlock>();
  readonly #leases = new Map<string, Lease>();

  async openBlock(cidr: string, live: readonly LivePod[] = [], now = new Date()): Promise<void> {
    const block = this.#blocks.get(cidr) ?? newBlock(cidr);
    block.isOpen = true;
    this.#blocks.set(cidr, block);
    for (const pod of live) {
      await this.adopt(pod, cidr, now);
    }
  }

  async adopt({ owner, address }: LivePod, cidr: string, now: Date): Promise<Lease | undefined> {
    const block = this.#openBlock(cidr);
    const present = (await this.leaseOf(owner)) ?? block?.leases.get(address);
    return present ?? (block && this.#lease(owner, block, address, now));
  }

  async closeBlock(cidr: string): Promise<boolean> {
    const block = this.#openBlock(cidr);
    if (block === undefined || block.leases.size > 0) {
      return false;
    }
    block.isOpen = false;
    return true;
  }

  async forgetBlock(cidr: string): Promise<void> {
    if (this.#blocks.get(cidr)?.isOpen === false) {
      this.#blocks.delete(cidr);
    }
  }

  async blocks(): Promise<string[]> {
    return [...this.#blocks.values()].filter(({ isOpen }) => isOpen).map(({ cidr }) => cidr.text);
  }

  async recover(ours: readonly string[]): Promise<Recovery> {
    const closed = [...this.#blocks].filter(([, { isOpen }]) => !isOpen).map(([cidr]) => cidr);
    const reopened = closed.filter((cidr) => ours.includes(cidr));
    const removed = closed.filter((cidr) => !ours.includes(cidr));
    await Promise.all([
      ...reopened.map((cidr) => this.openBlock(cidr)),
      ...removed.map((cidr) => this.forgetBlock(cidr)),
    ]);
    return { reopened, removed, damaged: [], setAside: [] };
  }

  async reserve(owner: LeaseOwner, cidr: string, { now, mayGive, isRested }: Choice): Promise<Offer> {
    const block = this.#openBlock(cidr);
    if (block === undefined) {
      return { kind: "closed" };
    }
    const next = block.ring.next((offset) => mayGive(block.cidr.first + offset));
    if (next === undefined) {
      return { kind: "full" };
    }
    if (!isRested(next.releasedAt)) {
      return { kind: "resting", since: next.releasedAt };
    }
    return { kind: "lease", lease: this.#lease(owner, block, formatAddress(block.cidr.first + next.offset), now) };
  }

  async reserveAddress(owner: LeaseOwner, cidr: string, address: string, now: Date): Promise<Answer> {
    const block = this.#openBlock(cidr);
    if (block === undefined) {
      return { kind: "closed" };
    }
    return block.leases.has(address)
      ? { kind: "taken" }
      : { kind: "lease", lease: this.#lease(owner, block, address, now) };
  }

  async release(owner: LeaseOwner, now: Date): Promise<void> {
    const lease = await this.leaseOf(owner);
    const block = lease && this.#blocks.get(lease.block);
    if (lease && block) {
      this.#leases.delete(ownerFileName(owner));
      block.leases.delete(lease.address);
      block.ring.put(offsetOf(lease.address, block), ringTime(now));
    }
  }

  async leaseOf(owner: LeaseOwner): Promise<Lease | undefined> {
    return this.#leases.get(ownerFileName(owner));
  }

  async leaseAt(address: string): Promise<Lease | undefined> {
    const block = [...this.#blocks.values()].find(({ cidr }) => containsAddress(cidr, parseAddress(address)));
    return block?.leases.get(address);
  }

  async owners(others: readonly LeaseOwner[] = []): Promise<LeaseOwner[]> {
    const unread = new Set(others.map(ownerFileName));
    return [...this.#leases].filter(([name]) => !unread.has(name)).map(([, { owner }]) => owner);
  }

  async list(): Promise<Lease[]> {
    return [...this.#leases.values()];
  }

  async taken(cidr: string): Promise<ReadonlySet<string> | undefined> {
    const block = this.#openBlock(cidr);
    return block && new Set(block.leases.keys());
  }

  /** Without a pause between look and claim: nobody comes between. */
  #lease(owner: LeaseOwner, block: MemoryBlock, address: string, now: Date): Lease {
    const lease = { address, block: block.cidr.text, owner, time: now.toISOString() };
    block.ring.take(offsetOf(address, block), ringTime(now));
    block.leases.set(address, lease);
    this.#leases.set(ownerFileName(owner), lease);
    return lease;
  }

  #openBlock(cidr: string): MemoryBlock | undefined {
    const block = this.#blocks.get(cidr);
    return block?.isOpen ? block : undefined;
  }
}

function newBlock(text: string): MemoryBlock {
  const cidr = parseCidr(text);
  const size = cidr.last - cidr.first + 1;
  return { cidr, ring: FreeRing.of(size, Array(size).keys(), 0), leases: new Map(), isOpen: true };
}

function offsetOf(address: string, { cidr }: MemoryBlock): number {
  return parseAddress(address) - cidr.first;
}
