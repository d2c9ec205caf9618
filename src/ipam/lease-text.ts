/** A lease as it stands in its file. */
import { z } from "zod";
import { containsAddress, parseAddress, parseCidr } from "../cidr.ts";
import { parseJson, sentence } from "../sentence.ts";
import { type Lease, leaseOwner } from "./lease-store.ts";

const schema = z
  .object({
    version: z.literal(1),
    address: z.ipv4(),
    block: z.cidrv4(),
    owner: leaseOwner,
    time: z.string(),
  })
  .refine(({ address, block }) => containsAddress(parseCidr(block), parseAddress(address)), {
    error: "its address is not in its block",
  });

export function formatLease({ address, block, owner, time }: Lease): string {
  return `${JSON.stringify({ version: 1, address, block, owner, time })}\n`;
}

/** @returns the lease, or what is wrong with the text, in a sentence's second half */
export function parseLease(text: string | undefined): Lease | string {
  if (text === undefined) {
    return "it is no regular file of a lease's size";
  }
  try {
    const { data, error } = schema.safeParse(parseJson(text), { reportInput: true });
    if (error) {
      return sentence(schema, error.issues);
    }
    const { version, ...lease } = data;
    return lease;
  } catch (error) {
    return (error as Error).message; // not JSON, or a CIDR with host bits set
  }
}
