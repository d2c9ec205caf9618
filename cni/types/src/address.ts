/** Addresses as texts: IP addresses, CIDRs (an address with its prefix length) and hardware addresses. */
import { isIPv6 } from "node:net";
import { z } from "zod";

export const ipAddress = z.union([z.ipv4(), z.ipv6()]);

export const cidr = z.union([z.cidrv4(), z.cidrv6()]);

/** Of 6 octets (EUI-48), 8 (EUI-64) or 20 (IP over InfiniBand), the lengths that Go's `net.ParseMAC` takes. */
export const hardwareAddress = z
  .string()
  .regex(/^[0-9a-f]{2}([:-])(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}(?:(?:\1[0-9a-f]{2}){2}|(?:\1[0-9a-f]{2}){14})?$/i);

/** @param text an IP address or a CIDR */
export function familyOf(text: string): "4" | "6" {
  return isIPv6(text.split("/")[0] ?? "") ? "6" : "4";
}
