/** A set kept in a BPF map: the keys are its members, the values mean nothing. */
import type { BpfMap } from "libbpf-ts";
import { present } from "./layout.ts";

/** A checked difference between what the map holds and what it shall hold: first `add`, then `remove`. */
export interface Plan {
  /** Members that are new and members that go. */
  readonly added: number;
  readonly removed: number;
  add(): void;
  /** Only where old and new members together do not fit, the last new ones come after the removal. */
  remove(): void;
}

export class MapSet<Member> {
  readonly #map: BpfMap;
  readonly #encode: (member: Member) => Uint8Array;
  readonly #noun: string;
  /** The keys in the map, as texts; undefined while unread or in doubt. This process is the map's only writer. */
  #content: Set<string> | undefined;

  /** @param noun what the members are, for error sentences */
  constructor(map: BpfMap, encode: (member: Member) => Uint8Array, noun: string) {
    this.#map = map;
    this.#encode = encode;
    this.#noun = noun;
  }

  /** The keys that the map really holds, in no order. */
  keys(): Uint8Array[] {
    return [...this.#map.keys()];
  }

  replace(members: readonly Member[]): Plan {
    const plan = this.plan(members);
    plan.add();
    plan.remove();
    return plan;
  }

  /** Changes nothing yet. @throws RangeError when the members are more than the map can hold */
  plan(members: readonly Member[]): Plan {
    const wanted = new Set(members.map((member) => toText(this.#encode(member))));
    const limit = this.#map.maxEntries;
    if (wanted.size > limit) {
      throw new RangeError(`Cannot hold ${wanted.size} ${this.#noun}: the limit is ${limit}`);
    }
    this.#content ??= new Set(this.keys().map(toText));
    const content = this.#content;
    const added = [...wanted].filter((text) => !content.has(text));
    const removed = [...content].filter((text) => !wanted.has(text));
    const room = limit - content.size;
    return {
      added: added.length,
      removed: removed.length,
      add: () => this.#add(added.slice(0, room)),
      remove: () => {
        this.#remove(removed);
        this.#add(added.slice(room));
      },
    };
  }

  #add(texts: readonly string[]): void {
    this.#change(texts, (keys) => this.#map.setBatch(keys.map((key) => [key, present] as const)));
    for (const text of texts) {
      this.#content?.add(text);
    }
  }

  #remove(texts: readonly string[]): void {
    this.#change(texts, (keys) => this.#map.deleteBatch(keys));
    for (const text of texts) {
      this.#content?.delete(text);
    }
  }

  #change(texts: readonly string[], change: (keys: Uint8Array[]) => void): void {
    if (texts.length === 0) {
      return;
    }
    try {
      change(texts.map(toKey));
    } catch (error) {
      this.#content = undefined;
      throw error;
    }
  }
}

function toText(key: Uint8Array): string {
  return Buffer.from(key).toString("latin1");
}

function toKey(text: string): Uint8Array {
  return Buffer.from(text, "latin1");
}
