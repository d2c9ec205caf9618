/**
 * The result of versions 0.1.0 and 0.2.0: at most one address a family, each with its own routes, and no interfaces. CNI
 * spec 0.2.0, section "Result".
 */
import { isIPv6 } from "node:net";
import { z } from "zod";
import { cniDns } from "./dns.ts";
import { CniCode, CniError } from "./error.ts";
import type { CniIp, CniResult, CniRoute } from "./result.ts";

const familyRoute = z.looseObject({ dst: z.union([z.cidrv4(), z.cidrv6()]), gw: z.string().exactOptional() });

const family = <Cidr extends z.ZodType<string>>(cidr: Cidr) =>
  z.looseObject({ ip: cidr, gateway: z.string().exactOptional(), routes: z.array(familyRoute).exactOptional() });

export const familyResult = z.looseObject({
  cniVersion: z.string().exactOptional().describe("a version"),
  ip4: family(z.cidrv4()).exactOptional().describe("an object {ip (IPv4 CIDR), gateway, routes}"),
  ip6: family(z.cidrv6()).exactOptional().describe("an object {ip (IPv6 CIDR), gateway, routes}"),
  dns: cniDns.exactOptional().describe("an object {nameservers, domain, search, options}"),
});

/** The result's shape in versions 0.1.0 and 0.2.0. */
export type CniFamilyResult = z.infer<typeof familyResult>;

/** The addresses and routes, in the shape of the newest version. */
export function fromFamilies({ ip4, ip6, ...rest }: CniFamilyResult): Omit<CniResult, "cniVersion"> {
  const families = [ip4, ip6].filter((each) => each !== undefined);
  return {
    ...rest,
    interfaces: [],
    ips: families.map(({ ip, routes: _, ...others }) => ({ ...others, address: ip })),
    routes: families.flatMap(({ routes = [] }) => routes),
  };
}

/**
 * The first address of each family with the routes of that family; all others, and the interfaces, are left out.
 *
 * @throws CniError with `IncompatibleVersion` when there is no address: these versions cannot say so
 */
export function toFamilies(result: CniResult, cniVersion: string): CniFamilyResult {
  const { interfaces: _, ips, routes, ...rest } = result;
  if (ips.length === 0) {
    throw new CniError(
      CniCode.IncompatibleVersion,
      `Cannot give the result in version ${cniVersion}: it has no address, needed is one, or a version from 0.3.0 on`,
    );
  }
  const ip4 = toFamily(ips, routes, false);
  const ip6 = toFamily(ips, routes, true);
  return { ...rest, cniVersion, ...(ip4 && { ip4 }), ...(ip6 && { ip6 }) };
}

function toFamily(ips: readonly CniIp[], routes: readonly CniRoute[], wantsIpv6: boolean) {
  const first = ips.find(({ address }) => isIpv6Cidr(address) === wantsIpv6);
  if (first === undefined) {
    return undefined;
  }
  const { address: ip, interface: _, ...others } = first;
  const own = routes.filter(({ dst }) => isIpv6Cidr(dst) === wantsIpv6);
  const simple = own.map(({ dst, gw }) => ({ dst, ...(gw === undefined ? {} : { gw }) }));
  return { ip, ...others, ...(simple.length === 0 ? {} : { routes: simple }) };
}

function isIpv6Cidr(cidr: string): boolean {
  return isIPv6(cidr.split("/")[0] ?? "");
}
