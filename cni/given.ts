/** What an IPAM gives one interface. */
import { isIPv4 } from "node:net";
import { CniCode, type CniDns, CniError, type CniResult } from "@containernetworking/cni-types-ts";
import { containsAddress, containsRange, networkOf, parseAddress, parseCidr } from "../src/cidr.ts";
import { defaultRoute, gateway } from "./pod.ts";

export interface Given {
  /** At least one, IPv4, without prefix length. */
  readonly addresses: readonly string[];
  /** Destinations that the interface leads to: CIDRs. */
  readonly routes: readonly string[];
  readonly dns?: CniDns;
}

/** Where no pod can be: "this network", loopback, link-local with the gateway, multicast, broadcast (RFC 6890, RFC 5771). */
const forbidden = ["0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32"].map(parseCidr);

/** Where no route can lead: of the link-local addresses some are served by nodes. */
const unreachable = ["0.0.0.0/8", "127.0.0.0/8", `${gateway}/32`, "224.0.0.0/4", "255.255.255.255/32"].map(parseCidr);

interface Taken {
  readonly tunnelAddress: string | undefined;
  /** Of all the node's links. */
  readonly nodeAddresses: readonly string[];
}

/**
 * What another plugin answered, each address and route once, a route by its network.
 *
 * @throws CniError with `InvalidConfiguration` when the network or this node has no use for it
 */
export function givenBy(type: string, result: CniResult, { tunnelAddress, nodeAddresses }: Taken): Given {
  const addresses = new Set(result.ips.map(({ address }) => address.split("/")[0] ?? ""));
  const refuse = (problem: string) =>
    new CniError(CniCode.InvalidConfiguration, `Cannot use what the IPAM plugin "${type}" gave: ${problem}`);
  const foreign = [...addresses, ...result.routes.map(({ dst }) => dst)].find(
    (text) => !isIPv4(text.split("/")[0] ?? ""),
  );
  if (foreign !== undefined) {
    throw refuse(`"${foreign}", allowed is IPv4, the network has no IPv6`);
  }
  if (addresses.size === 0) {
    throw refuse("no address, needed is at least one of IPv4");
  }
  const routes = new Set(result.routes.map(({ dst }) => networkOf(dst).text));
  for (const address of addresses) {
    if (address === tunnelAddress) {
      throw refuse(`${address}, which is the tunnel's on this node, allowed is any other address`);
    }
    if (nodeAddresses.includes(address)) {
      throw refuse(`${address}, which is this node's own, allowed is any other address`);
    }
    const range = forbidden.find((each) => containsAddress(each, parseAddress(address)));
    if (range) {
      throw refuse(`${address}, allowed are addresses outside ${range.text}`);
    }
  }
  for (const route of routes) {
    const range = unreachable.find((each) => containsRange(each, parseCidr(route)));
    if (range) {
      throw refuse(`a route to ${route}, allowed are destinations outside ${range.text}`);
    }
  }
  return {
    addresses: [...addresses],
    routes: routes.size === 0 ? [defaultRoute] : [...routes],
    ...(result.dns && { dns: result.dns }),
  };
}
