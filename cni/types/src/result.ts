/** What ADD answers, in the shape of each version: CNI spec 1.1.0, section "ADD Success". */
import { isIPv6 } from "node:net";
import { z } from "zod";
import { CniCode, CniError } from "./error.ts";
import { describeIssue } from "./issue.ts";
import { type CniVersion, newestVersion } from "./version.ts";

const cniInterface = z.looseObject({
  name: z.string(),
  mac: z.string().exactOptional(),
  /** Bytes; since 1.1.0. */
  mtu: z.number().exactOptional(),
  /** Path of the network namespace; absent for a link on the host. */
  sandbox: z.string().exactOptional(),
  /** Since 1.1.0. */
  socketPath: z.string().exactOptional(),
  /** Since 1.1.0. */
  pciID: z.string().exactOptional(),
});

const cniIp = z.looseObject({
  /** CIDR */
  address: z.union([z.cidrv4(), z.cidrv6()]),
  gateway: z.string().exactOptional(),
  /** Index in `interfaces`. */
  interface: z.number().exactOptional(),
});

const cniRoute = z.looseObject({
  /** CIDR */
  dst: z.union([z.cidrv4(), z.cidrv6()]),
  gw: z.string().exactOptional(),
  /** Bytes; this and the following since 1.1.0. */
  mtu: z.number().exactOptional(),
  advmss: z.number().exactOptional(),
  priority: z.number().exactOptional(),
  table: z.number().exactOptional(),
  scope: z.number().exactOptional(),
});

export const cniDns = z.looseObject({
  nameservers: z.array(z.string()).exactOptional(),
  domain: z.string().exactOptional(),
  search: z.array(z.string()).exactOptional(),
  options: z.array(z.string()).exactOptional(),
});

const cniResult = z.looseObject({
  interfaces: z.array(cniInterface).exactOptional().describe("a list of {name, mac, mtu, sandbox}"),
  ips: z.array(cniIp).exactOptional().describe("a list of {address (CIDR), gateway, interface}"),
  routes: z.array(cniRoute).exactOptional().describe("a list of {dst (CIDR), gw}"),
  dns: cniDns.exactOptional().describe("an object {nameservers, domain, search, options}"),
});

export type CniInterface = z.infer<typeof cniInterface>;
export type CniIp = z.infer<typeof cniIp>;
export type CniRoute = z.infer<typeof cniRoute>;
export type CniDns = z.infer<typeof cniDns>;

/** A result in the shape of the newest version; fields of others' making are carried along. */
export interface CniResult {
  readonly cniVersion: CniVersion;
  readonly interfaces: readonly CniInterface[];
  readonly ips: readonly CniIp[];
  readonly routes: readonly CniRoute[];
  readonly dns?: CniDns;
}

/**
 * Reads a `prevResult` of any supported version into the shape of the newest.
 *
 * @throws CniError with `InvalidConfiguration`, naming the field
 */
export function parseResult(value: unknown): CniResult {
  const { success, data, error } = cniResult.safeParse(value);
  if (!success) {
    throw new CniError(
      CniCode.InvalidConfiguration,
      `Cannot use "prevResult": ${describeIssue(cniResult, value, error)}`,
    );
  }
  return {
    ...data,
    cniVersion: newestVersion,
    interfaces: data.interfaces ?? [],
    // "version" was dropped in 1.0.0: the address itself tells
    ips: (data.ips ?? []).map(({ version: _, ...ip }) => ip),
    routes: data.routes ?? [],
  };
}

/** The result as a runtime of that version expects it; what the version cannot say is left out. */
export function convertResult(result: CniResult, cniVersion: CniVersion): object {
  const { interfaces, ips, routes } = result;
  switch (cniVersion) {
    case "1.1.0":
      return { ...result, cniVersion };
    case "1.0.0":
      return { ...result, cniVersion, interfaces: interfaces.map(olderInterface), routes: routes.map(olderRoute) };
    default:
      return {
        ...result,
        cniVersion,
        interfaces: interfaces.map(olderInterface),
        ips: ips.map((ip) => ({ version: isIPv6(ip.address.split("/")[0] ?? "") ? "6" : "4", ...ip })),
        routes: routes.map(olderRoute),
      };
  }
}

function olderInterface({ mtu: _, socketPath: _socketPath, pciID: _pciID, ...rest }: CniInterface): object {
  return rest;
}

function olderRoute({ dst, gw }: CniRoute): object {
  return { dst, ...(gw === undefined ? {} : { gw }) };
}
