/** What the directory of a block is called. */
import { parseCidr } from "../cidr.ts";

const closedPrefix = ".closed-";

/** "10.100.15.128/26" is in "10-100-15-128-26". */
export function directoryName(cidr: string): string {
  return cidr.replaceAll(/[./]/g, "-");
}

/** While the block is on its way back. */
export function closedName(cidr: string): string {
  return closedPrefix + directoryName(cidr);
}

/** @returns the block whose directory has the name, or undefined when it is none's */
export function blockOfDirectory(name: string): { readonly cidr: string; readonly isClosed: boolean } | undefined {
  const isClosed = name.startsWith(closedPrefix);
  const parts = (isClosed ? name.slice(closedPrefix.length) : name).split("-");
  const cidr = `${parts.slice(0, 4).join(".")}/${parts.slice(4).join("-")}`;
  try {
    const { prefixLength } = parseCidr(cidr);
    return prefixLength >= 20 ? { cidr, isClosed } : undefined;
  } catch {
    return undefined;
  }
}
