/** Which nodes get the further addresses that they name. */
import type { Refuse } from "./assess.ts";
import type { Cluster } from "./cluster.ts";
import type { Node } from "./documents.ts";
import { endPointOf, otherAddressesOf, sameOr } from "./parsed.ts";
import type { PoolRange } from "./pool-ranges.ts";
import type { Ranges } from "./ranges.ts";

interface OtherAddress {
  readonly node: Node;
  readonly text: string;
  readonly address: number;
}

/**
 * A node stays without an address that another one has, for machines with the same "docker0" are common. Tunnel end
 * points go before other addresses, whoever came first: a node can do without one of these.
 */
export function grantOtherAddresses(
  nodes: ReadonlyMap<string, Node>,
  pools: Ranges<PoolRange>,
  previous: Cluster,
  refuse: Refuse,
): Map<string, Node> {
  const owners = new Map([...nodes.values()].map((node) => [endPointOf(node).address, node.name]));
  const poolOf = (address: number) => pools.overlapping({ first: address, last: address })?.pool;
  const named = [...nodes.values()].flatMap(addressesOf);
  for (const { node, address } of inOrderOfService(named, previous)) {
    if (!owners.has(address) && !poolOf(address)) {
      owners.set(address, node.name);
    }
  }

  const granted = new Map(nodes);
  const taken = Map.groupBy(
    named.filter(({ node, address }) => owners.get(address) !== node.name),
    ({ node }) => node,
  );
  for (const [node, addresses] of taken) {
    for (const { text, address } of addresses) {
      const pool = poolOf(address);
      const problem = pool
        ? `other address "${text}" lies in pool "${pool.name}" ("${pool.cidr}")`
        : `other address "${text}" belongs to node "${owners.get(address)}" already`;
      refuse("node", node.name, problem, `"${text}"`);
    }
    const texts = new Set(addresses.map(({ text }) => text));
    const otherAddresses = (node.otherAddresses ?? []).filter((text) => !texts.has(text));
    granted.set(node.name, sameOr(previous.nodes.get(node.name), { ...node, otherAddresses }));
  }
  return granted;
}

function addressesOf(node: Node): OtherAddress[] {
  const addresses = otherAddressesOf(node);
  return (node.otherAddresses ?? []).map((text, index) => ({ node, text, address: addresses[index] as number }));
}

/** Those in force first, then by the names of their nodes. */
function inOrderOfService(named: readonly OtherAddress[], previous: Cluster): OtherAddress[] {
  const isInForce = ({ node, text }: OtherAddress) =>
    previous.nodes.get(node.name)?.otherAddresses?.includes(text) ?? false;
  const newcomers = named.filter((one) => !isInForce(one));
  const byNode = Map.groupBy(newcomers, ({ node }) => node.name);
  return [...named.filter(isInForce), ...[...byNode.keys()].sort().flatMap((name) => byNode.get(name) ?? [])];
}
