/**
 * The result of versions 0.1.0 and 0.2.0: at most one address a family, each with its own routes, and no interfaces. CNI
 * spec 0.2.0, section "Result".
 */
import { z } from "zod";
import { familyOf } from "../address.ts";
import { type CniDns, cniDns } from "../dns.ts";
import { CniCode, CniError } from "../error.ts";
import type { CniIp, CniResult10, CniRoute10 } from "./v1_0.ts";
import { type CniResult, cniRoute } from "./v1_1.ts";

const ip4 = family(z.cidrv4(), z.ipv4(), "IPv4").exactOptional();
const ip6 = family(z.cidrv6(), z.ipv6(), "IPv6").exactOptional();

export const result02 = z.looseObject({
  cniVersion: z.string().exactOptional().describe("a version"),
  ip4: ip4.describe("an object {ip (IPv4 CIDR), gateway, routes}"),
  ip6: ip6.describe("an object {ip (IPv6 CIDR), gateway, routes}"),
  dns: cniDns.exactOptional(),
});

export interface CniFamilyIp {
  /** With prefix length. */
  readonly ip: string;
  readonly gateway?: string;
  /** An empty list is left out. */
  readonly routes?: readonly CniRoute10[];
}

export interface CniResult02 {
  readonly cniVersion: "0.1.0" | "0.2.0";
  readonly ip4?: CniFamilyIp;
  readonly ip6?: CniFamilyIp;
  readonly dns?: CniDns;
}

/** Fields of others' making are carried along both ways, except under names that the other shape has itself. */
export function fromV0_2(result: z.infer<typeof result02>): Omit<CniResult, "cniVersion"> {
  const { cniVersion: _, ip4, ip6, ...rest } = result;
  const families = [ip4, ip6].filter((each) => each !== undefined);
  return {
    ...rest,
    interfaces: [],
    ips: families.map(({ ip, routes: _, version: _version, interface: _interface, ...others }) => ({
      ...others,
      address: ip,
    })),
    routes: families.flatMap(({ routes = [] }) => routes),
  };
}

/** With what others may have put where this shape has fields of its own. */
type ListResult = Omit<CniResult10, "cniVersion"> & { readonly ip4?: unknown; readonly ip6?: unknown };

/**
 * The first address of each family with the routes of that family; all others, and the interfaces, are left out.
 *
 * @throws CniError with `IncompatibleVersion` when there is no address: these versions cannot say so
 */
export function toV0_2(result: ListResult): Omit<CniResult02, "cniVersion"> {
  const { interfaces: _, ips = [], routes = [], ip4: _ip4, ip6: _ip6, ...rest } = result;
  if (ips.length === 0) {
    throw new CniError(
      CniCode.IncompatibleVersion,
      "Cannot give the result in a version before 0.3.0: it has no address, needed is one",
    );
  }
  const ip4 = toFamily("4", ips, routes);
  const ip6 = toFamily("6", ips, routes);
  return { ...rest, ...(ip4 && { ip4 }), ...(ip6 && { ip6 }) };
}

function toFamily(wanted: "4" | "6", ips: readonly CniIp[], routes: readonly CniRoute10[]): CniFamilyIp | undefined {
  const first = ips.find(({ address }) => familyOf(address) === wanted);
  if (first === undefined) {
    return undefined;
  }
  const { address: ip, interface: _, routes: _routes, ...others } = first;
  const own = routes.filter(({ dst }) => familyOf(dst) === wanted);
  return { ...others, ip, ...(own.length === 0 ? {} : { routes: own }) };
}

function family(cidr: z.ZodType<string>, address: z.ZodType<string>, name: string) {
  return z.looseObject({
    ip: cidr.describe(`an ${name} address with prefix length`),
    gateway: address.exactOptional().describe(`an ${name} address`),
    routes: z
      .array(cniRoute.extend({ dst: cidr.describe(`an ${name} destination with prefix length`) }))
      .exactOptional()
      .describe("a list of {dst (CIDR), gw}"),
  });
}
