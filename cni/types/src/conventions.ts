/** What runtimes fill in for one interface, where a plugin declares the capability: CNI's CONVENTIONS.md. */
import { z } from "zod";
import { cidr, ipAddress } from "./address.ts";

/** `runtimeConfig.ips` and `args.cni.ips`: addresses that are asked for, of either family. */
export const runtimeConfigIps = z
  .array(z.union([ipAddress, cidr]))
  .describe('a list of addresses such as "10.1.2.3" or "10.1.2.3/24"');

/** `runtimeConfig.mac`, and MAC of CNI_ARGS; given in lower case. */
export const macAddress = z.string().toLowerCase().pipe(z.mac()).describe('six octets such as "02:42:ac:11:00:02"');

export type RuntimeConfigIps = z.infer<typeof runtimeConfigIps>;
