/** The result of versions 0.3.0 to 0.4.0, where each address tells its family: CNI spec 0.4.0, section "Result". */
import { z } from "zod";
import { familyOf } from "../address.ts";
import { type CniIp, type CniResult10, ip10 } from "./v1_0.ts";
import { listResult } from "./v1_1.ts";

const ip04 = ip10
  .safeExtend({ version: z.enum(["4", "6"]).describe('"4" or "6"') })
  .refine(({ address, version }) => version === familyOf(address), {
    path: ["version"],
    error: "the family of the address",
  });

export const result04 = listResult(ip04);

export type CniIp04 = z.infer<typeof ip04>;

/** Empty lists are left out. */
export interface CniResult04 extends Omit<CniResult10, "cniVersion" | "ips"> {
  readonly cniVersion: "0.3.0" | "0.3.1" | "0.4.0";
  readonly ips?: readonly CniIp04[];
}

export function toV0_4({ ips, ...rest }: Omit<CniResult10, "cniVersion">): Omit<CniResult04, "cniVersion"> {
  return { ...rest, ...(ips && { ips: ips.map((ip) => ({ version: familyOf(ip.address), ...withoutFamily(ip) })) }) };
}

/** Since 1.0.0 the address alone tells. */
export function withoutFamily({ version: _, ...ip }: CniIp): CniIp {
  return ip;
}
