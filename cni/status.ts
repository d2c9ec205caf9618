/** STATUS: whether ADD can succeed: CNI spec 1.1.0, section "STATUS". */
import { access, constants } from "node:fs/promises";
import { dirname } from "node:path";
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { findTunnelDevice } from "../src/tunnel/device.ts";
import { type Host, requireGuard, requireNodeState } from "./host.ts";
import type { Ipam } from "./ipam.ts";

/**
 * @param directories all that ADD writes in
 * @throws CniError with `NotAvailable` when ADD would fail, `LimitedConnectivity` when pods reach only this node
 */
export async function status(directories: readonly string[], ipam: Ipam, host: Host): Promise<void> {
  const node = await requireNodeState(host).catch(asNotAvailable);
  try {
    requireGuard(host);
  } catch (error) {
    asNotAvailable(error);
  }
  for (const directory of directories) {
    await requireWritable(directory);
  }
  const shortage = await ipam.shortage(node);
  if (shortage !== undefined) {
    throw notAvailable(shortage);
  }
  if (node.tunnelAddress === undefined) {
    return; // no pool is reached by the tunnel
  }
  const tunnel = findTunnelDevice(await host.netlink.links());
  const addresses = await host.netlink.addresses();
  const hasAddress = addresses.some(
    ({ linkIndex, address }) => linkIndex === tunnel?.index && address === node.tunnelAddress,
  );
  if (!tunnel?.up || !hasAddress) {
    throw new CniError(
      CniCode.LimitedConnectivity,
      `Cannot connect pods to other nodes: the tunnel is not up with its address ${node.tunnelAddress}, sync brings it up`,
    );
  }
}

/** As access(2) tells: a file system that is read-only, a directory that nobody may change. ADD makes a missing one. */
async function requireWritable(directory: string): Promise<void> {
  try {
    await access(directory, constants.W_OK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" && directory !== "/") {
      return requireWritable(dirname(directory));
    }
    throw notAvailable(`"${directory}" cannot be written (${message})`);
  }
}

function notAvailable(reason: string): CniError {
  return new CniError(CniCode.NotAvailable, `Cannot add to the network: ${reason}`);
}

/** What ADD would say, with the code for it. */
function asNotAvailable(error: unknown): never {
  throw new CniError(CniCode.NotAvailable, (error as Error).message, { cause: error });
}
