/** What ADD answers, in the shape of each version: CNI spec 1.1.0, section "ADD Success". */
import { isIPv6 } from "node:net";
import { z } from "zod";
import { cniDns } from "./dns.ts";
import { CniCode, CniError } from "./error.ts";
import { type CniFamilyResult, familyResult, fromFamilies, toFamilies } from "./family-result.ts";
import { describeIssue } from "./issue.ts";
import { type CniVersion, isAtLeast, isSupportedVersion, newestVersion, supportedVersions } from "./version.ts";

const address = z.union([z.ipv4(), z.ipv6()]);
const cidr = z.union([z.cidrv4(), z.cidrv6()]);

const cniInterface = z.looseObject({
  name: z.string(),
  mac: z.string().exactOptional(),
  /** Bytes; since 1.1.0. */
  mtu: z.int().min(0).exactOptional(),
  /** Path of the network namespace; absent or empty for a link on the host. */
  sandbox: z.string().exactOptional(),
  /** Since 1.1.0. */
  socketPath: z.string().exactOptional(),
  /** Since 1.1.0. */
  pciID: z.string().exactOptional(),
});

const cniIp = z.looseObject({
  address: cidr,
  gateway: address.exactOptional(),
  /** Index in `interfaces`. */
  interface: z.int().min(0).exactOptional(),
});

const cniRoute = z.looseObject({
  dst: cidr,
  gw: address.exactOptional(),
  /** Bytes; this and the following since 1.1.0. */
  mtu: z.int().exactOptional(),
  advmss: z.int().exactOptional(),
  priority: z.int().exactOptional(),
  table: z.int().exactOptional(),
  scope: z.int().exactOptional(),
});

const listResult = z.looseObject({
  cniVersion: z.string().exactOptional().describe("a version"),
  interfaces: z.array(cniInterface).exactOptional().describe("a list of {name, mac, mtu, sandbox}"),
  ips: z.array(cniIp).exactOptional().describe("a list of {address (CIDR), gateway, interface}"),
  routes: z.array(cniRoute).exactOptional().describe("a list of {dst (CIDR), gw}"),
  dns: cniDns.exactOptional().describe("an object {nameservers, domain, search, options}"),
});

export type CniInterface = z.infer<typeof cniInterface>;
export type CniIp = z.infer<typeof cniIp>;
export type CniRoute = z.infer<typeof cniRoute>;

/** A result in the shape of the newest version, 1.1.0; fields of others' making are carried along. */
export interface CniResult {
  readonly cniVersion: CniVersion;
  readonly interfaces: readonly CniInterface[];
  readonly ips: readonly CniIp[];
  readonly routes: readonly CniRoute[];
  readonly dns?: CniDns;
}

type CniDns = z.infer<typeof cniDns>;

/** An interface and a route as every version before 1.1.0 has them. */
export type OlderInterface = Omit<CniInterface, "mtu" | "socketPath" | "pciID">;
export type OlderRoute = Pick<CniRoute, "dst" | "gw">;

/** The result's shape in version 1.0.0. Empty lists are left out. */
export interface CniResult10 {
  readonly cniVersion: CniVersion;
  readonly interfaces?: readonly OlderInterface[];
  readonly ips?: readonly CniIp[];
  readonly routes?: readonly OlderRoute[];
  readonly dns?: CniDns;
}

/** The result's shape in versions 0.3.0 to 0.4.0: each address tells its family. */
export interface CniResult04 extends CniResult10 {
  readonly ips?: readonly (CniIp & { readonly version: "4" | "6" })[];
}

/** Any version's shape. */
export type AnyCniResult = Partial<CniResult> | CniResult10 | CniResult04 | CniFamilyResult;

/**
 * Reads a result of any version into the shape of the newest.
 *
 * @param assumed the version of a result that does not tell its own
 * @throws CniError with `InvalidConfiguration`, naming the field, or with `IncompatibleVersion`
 */
export function parseResult(value: unknown, assumed: CniVersion = newestVersion): CniResult {
  const { cniVersion: told = assumed } = (value ?? {}) as { readonly cniVersion?: unknown };
  if (!isSupportedVersion(told)) {
    throw new CniError(
      CniCode.IncompatibleVersion,
      `Cannot use a result of cniVersion ${JSON.stringify(told)}: allowed are ${supportedVersions.join(", ")}`,
    );
  }
  if (!isAtLeast(told, "0.3.0")) {
    return { ...fromFamilies(checked(familyResult, value)), cniVersion: newestVersion };
  }
  const { interfaces = [], ips = [], routes = [], ...rest } = checked(listResult, value);
  const lost = ips.find((ip) => ip.interface !== undefined && ip.interface >= interfaces.length);
  if (lost !== undefined) {
    throw refused(
      `"ips" names the interface ${lost.interface}, allowed are indexes of its ${interfaces.length} interfaces`,
    );
  }
  // "version" was dropped in 1.0.0: the address itself tells
  return { ...rest, cniVersion: newestVersion, interfaces, ips: ips.map(({ version: _, ...ip }) => ip), routes };
}

/**
 * The result as a runtime of that version expects it; what the version cannot say is left out, and so are empty lists.
 *
 * @throws CniError with `IncompatibleVersion` when a version before 0.3.0 shall say that there is no address
 */
export function convertResult(result: CniResult, cniVersion: CniVersion): AnyCniResult {
  if (!isAtLeast(cniVersion, "0.3.0")) {
    return toFamilies(result, cniVersion);
  }
  const { interfaces, ips, routes, ...rest } = result;
  const isOlder = !isAtLeast(cniVersion, "1.1.0");
  const addresses = isAtLeast(cniVersion, "1.0.0") ? ips : ips.map(withFamily);
  return {
    ...rest,
    cniVersion,
    ...(interfaces.length === 0 ? {} : { interfaces: isOlder ? interfaces.map(olderInterface) : interfaces }),
    ...(addresses.length === 0 ? {} : { ips: addresses }),
    ...(routes.length === 0 ? {} : { routes: isOlder ? routes.map(olderRoute) : routes }),
  };
}

function checked<Schema extends z.ZodObject>(schema: Schema, value: unknown): z.infer<Schema> {
  const { success, data, error } = schema.safeParse(value);
  if (!success) {
    throw refused(describeIssue(schema, value, error));
  }
  return data;
}

function refused(problem: string): CniError {
  return new CniError(CniCode.InvalidConfiguration, `Cannot use a previous result: ${problem}`);
}

function withFamily(ip: CniIp): CniIp {
  return { version: isIPv6(ip.address.split("/")[0] ?? "") ? "6" : "4", ...ip };
}

function olderInterface({ mtu: _, socketPath: _socketPath, pciID: _pciID, ...rest }: CniInterface): OlderInterface {
  return rest;
}

function olderRoute({ dst, gw }: CniRoute): OlderRoute {
  return { dst, ...(gw === undefined ? {} : { gw }) };
}
