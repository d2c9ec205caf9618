/** Name servers, the same in every version: CNI spec 1.1.0, section "ADD Success". */
import { z } from "zod";

export const cniDns = z
  .looseObject({
    nameservers: z.array(z.string()).exactOptional(),
    domain: z.string().exactOptional(),
    search: z.array(z.string()).exactOptional(),
    options: z.array(z.string()).exactOptional(),
  })
  .describe("an object {nameservers, domain, search, options}");

export type CniDns = z.infer<typeof cniDns>;
