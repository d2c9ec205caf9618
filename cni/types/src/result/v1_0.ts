/** The result of version 1.0.0: CNI spec 1.0.0, section "ADD Success". Later versions add to it, earlier ones lack of it. */
import { z } from "zod";
import { cidr, familyOf, hardwareAddress, ipAddress } from "../address.ts";
import type { CniDns } from "../dns.ts";

export const interface10 = z.looseObject({
  name: z.string().min(1).describe("a link's name"),
  mac: hardwareAddress.exactOptional().describe('a hardware address such as "02:42:ac:11:00:02"'),
  /** Path of the network namespace; absent or empty for a link on the host. */
  sandbox: z.string().exactOptional().describe("a path"),
});

export const ip10 = z
  .looseObject({
    address: cidr.describe('an address with prefix length such as "10.1.2.3/24"'),
    gateway: ipAddress.exactOptional().describe('an address such as "10.1.2.1"'),
    /** Index in `interfaces`. */
    interface: z.int().min(0).exactOptional().describe("an index in the list of interfaces"),
  })
  .refine(({ address, gateway }) => gateway === undefined || familyOf(gateway) === familyOf(address), {
    path: ["gateway"],
    error: "an address of the same family",
  });

export const route10 = z.looseObject({
  dst: cidr.describe('a destination with prefix length such as "10.0.0.0/8"'),
  /** Its family may be another one: RFC 8950. */
  gw: ipAddress.exactOptional().describe('an address such as "10.1.2.1"'),
});

export type CniIp = z.infer<typeof ip10>;
export type CniInterface10 = z.infer<typeof interface10>;
export type CniRoute10 = z.infer<typeof route10>;

/** Empty lists are left out. */
export interface CniResult10 {
  readonly cniVersion: "1.0.0";
  readonly interfaces?: readonly CniInterface10[];
  readonly ips?: readonly CniIp[];
  readonly routes?: readonly CniRoute10[];
  readonly dns?: CniDns;
}
