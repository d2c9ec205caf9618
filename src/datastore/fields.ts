/** What single fields of documents may say. */
import { z } from "zod";
import { type AddressRange, formatAddress, overlaps, parseAddress, parseCidr, parseLinkAddress } from "../cidr.ts";

/** Of a node or a pool. */
export const objectName = text(checkName);

/** Address and prefix length of a link, "172.31.112.2/20". */
export const tunnelEndPoint = text(checkTunnelEndPoint);

/** One address that a node may have. */
export const hostAddress = text(checkOtherAddress);

/** A CIDR that pods or nodes may be in. */
export const network = text(checkNetwork);

/** A CIDR in a pool: its own checks are the pool's. */
export const part = text(parseCidr);

export const blockCidr = text(checkBlock);

// RFC 6890 and, for broadcast, RFC 919. 240.0.0.0/4 is not among them: Linux routes it, and clouds use it.
const reserved: readonly [string, AddressRange][] = [
  ["the unspecified network", parseCidr("0.0.0.0/8")],
  ["loopback", parseCidr("127.0.0.0/8")],
  ["link-local", parseCidr("169.254.0.0/16")],
  ["multicast", parseCidr("224.0.0.0/4")],
  ["broadcast", parseCidr("255.255.255.255/32")],
];

const shortestPrefix = 8;

/** A text that `check` accepts: it throws the reason if it does not. */
function text(check: (value: string) => void) {
  return z.string().superRefine((value, context) => {
    try {
      check(value);
    } catch (error) {
      // The field is named by its path already, which makes "Cannot use address: " of a parser superfluous.
      const message = (error as Error).message.replace(/^Cannot use \w+: /, "");
      // Checks of the whole document are for documents whose fields are right.
      context.addIssue({ code: "custom", message, continue: false });
    }
  });
}

function refuseReserved(value: string, range: AddressRange): void {
  const found = reserved.find(([, other]) => overlaps(range, other));
  if (found) {
    throw new RangeError(`"${value}" is not allowed, it reaches into ${found[0]} addresses`);
  }
}

function checkName(value: string): void {
  // Linux host names and Kubernetes names; also a file name that cannot leave its directory.
  if (!/^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$/i.test(value) || value.length > 253) {
    throw new SyntaxError(
      `${JSON.stringify(value)} is not a name of at most 253 letters, digits, "-", "_" and "." that starts and ends with a letter or digit`,
    );
  }
}

function checkTunnelEndPoint(value: string): void {
  const { address, network } = parseLinkAddress(value);
  refuseReserved(value, { first: address, last: address });
  if (network.prefixLength === 0) {
    throw new RangeError(`"${value}" is not on a link, prefix lengths from 1 to 32 are allowed`);
  }
  if (network.prefixLength <= 30 && (address === network.first || address === network.last)) {
    const role = address === network.first ? "network" : "broadcast";
    throw new RangeError(
      `"${value}" is the ${role} address of its link, allowed are ${formatAddress(network.first + 1)} to ${formatAddress(network.last - 1)}`,
    );
  }
}

function checkOtherAddress(value: string): void {
  const address = parseAddress(value);
  refuseReserved(value, { first: address, last: address });
}

function checkNetwork(value: string): void {
  const cidr = parseCidr(value);
  if (cidr.prefixLength < shortestPrefix) {
    throw new RangeError(`"${value}" is too broad, prefix lengths from ${shortestPrefix} to 32 are allowed`);
  }
  refuseReserved(value, cidr);
}

function checkBlock(value: string): void {
  const { prefixLength } = parseCidr(value);
  if (prefixLength < 20) {
    throw new RangeError(`"${value}" is not a block, prefix lengths from 20 to 32 are allowed`);
  }
}
