/** The addresses of documents as numbers. Each document is parsed once, however often it is assessed. */
import { isDeepStrictEqual } from "node:util";
import { type Cidr, type LinkAddress, parseAddress, parseCidr, parseLinkAddress } from "../cidr.ts";
import type { Block, Node, Pool } from "./documents.ts";

const cidrs = new WeakMap<Pool | Block, Cidr>();
const endPoints = new WeakMap<Node, LinkAddress>();
const otherAddresses = new WeakMap<Node, readonly number[]>();

export function cidrOf(document: Pool | Block): Cidr {
  return once(cidrs, document, ({ cidr }) => parseCidr(cidr));
}

export function endPointOf(node: Node): LinkAddress {
  return once(endPoints, node, ({ address }) => parseLinkAddress(address));
}

export function otherAddressesOf(node: Node): readonly number[] {
  return once(otherAddresses, node, ({ otherAddresses: texts = [] }) => texts.map(parseAddress));
}

/** The object that is known already where it says the same: it is parsed already, and seen to be equal at once. */
export function sameOr<T>(known: T | undefined, value: T): T {
  return known !== undefined && isDeepStrictEqual(known, value) ? known : value;
}

function once<D extends object, P>(known: WeakMap<D, P>, document: D, parse: (document: D) => P): P {
  const found = known.get(document);
  if (found !== undefined) {
    return found;
  }
  const parsed = parse(document);
  known.set(document, parsed);
  return parsed;
}
