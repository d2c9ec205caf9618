/** The result of version 1.1.0, the newest: CNI spec 1.1.0, section "ADD Success". */
import { z } from "zod";
import { type CniDns, cniDns } from "../dns.ts";
import {
  type CniInterface10,
  type CniIp,
  type CniResult10,
  type CniRoute10,
  interface10,
  ip10,
  route10,
} from "./v1_0.ts";

const wholeNumber = z.int().min(0).exactOptional().describe("a whole number from 0 on");

const laterOfInterface = {
  /** Bytes. */
  mtu: wholeNumber,
  /** Path of a socket file that stands for the link. */
  socketPath: z.string().exactOptional().describe("a path"),
  /** The platform's name for the PCI device behind the link. */
  pciID: z.string().exactOptional().describe("a text"),
} as const;

const laterOfRoute = {
  /** Bytes. */
  mtu: wholeNumber,
  /** The TCP segment size to advertise, bytes. */
  advmss: wholeNumber,
  /** The lower, the more preferred. */
  priority: wholeNumber,
  table: wholeNumber,
  /** 0 is global, 253 link, 254 host. */
  scope: wholeNumber,
} as const;

const cniInterface = interface10.extend(laterOfInterface);
export const cniRoute = route10.extend(laterOfRoute);

export type CniInterface = z.infer<typeof cniInterface>;
export type CniRoute = z.infer<typeof cniRoute>;

/** The shape to work with. Fields of others' making are carried along. */
export interface CniResult {
  readonly cniVersion: "1.1.0";
  readonly interfaces: readonly CniInterface[];
  readonly ips: readonly CniIp[];
  readonly routes: readonly CniRoute[];
  readonly dns?: CniDns;
}

/** As a plugin prints it: empty lists are left out. */
export type CniResult11 = Pick<CniResult, "cniVersion" | "dns"> & Partial<CniResult>;

/**
 * The schema of every result with lists. Fields that came with 1.1.0 are checked in all of them: plugins made with the
 * reference library print some in older versions too.
 *
 * @param ip what the version knows of an address
 */
export function listResult<Ip extends typeof ip10>(ip: Ip) {
  return z
    .looseObject({
      cniVersion: z.string().exactOptional().describe("a version"),
      interfaces: z.array(cniInterface).exactOptional().describe("a list of {name, mac, mtu, sandbox}"),
      ips: z.array(ip).exactOptional().describe("a list of {address (CIDR), gateway, interface}"),
      routes: z.array(cniRoute).exactOptional().describe("a list of {dst (CIDR), gw}"),
      dns: cniDns.exactOptional(),
    })
    .superRefine(({ interfaces = [], ips = [] }, context) => {
      const index = ips.findIndex((each) => (each.interface ?? -1) >= interfaces.length);
      if (index >= 0) {
        const message = `an index in the list of ${interfaces.length} interfaces`;
        context.addIssue({ code: "custom", path: ["ips", index, "interface"], message });
      }
    });
}

export const result11 = listResult(ip10);

export function toV1_1({
  interfaces,
  ips,
  routes,
  cniVersion: _,
  ...rest
}: CniResult): Omit<CniResult11, "cniVersion"> {
  return {
    ...(interfaces.length === 0 ? {} : { interfaces }),
    ...(ips.length === 0 ? {} : { ips }),
    ...(routes.length === 0 ? {} : { routes }),
    ...rest,
  };
}

/** Leaves out what came with 1.1.0. */
export function toV1_0(result: CniResult): Omit<CniResult10, "cniVersion"> {
  const { interfaces, routes, ...rest } = toV1_1(result);
  return {
    ...(interfaces && { interfaces: interfaces.map((each) => without(each, laterOfInterface)) as CniInterface10[] }),
    ...(routes && { routes: routes.map((each) => without(each, laterOfRoute)) as CniRoute10[] }),
    ...rest,
  };
}

function without(value: object, fields: object): object {
  return Object.fromEntries(Object.entries(value).filter(([name]) => !Object.hasOwn(fields, name)));
}
