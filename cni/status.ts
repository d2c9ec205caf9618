/** STATUS: whether ADD can succeed: CNI spec 1.1.0, section "STATUS". */
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { nodeStatePath, readNodeState } from "../src/node-state.ts";
import { findTunnelDevice } from "../src/tunnel/device.ts";
import { type Host, requireGuard } from "./host.ts";
import type { Ipam } from "./ipam.ts";

/** @throws CniError with `NotAvailable` when ADD would fail, `LimitedConnectivity` when pods reach only this node */
export async function status(ipam: Ipam, host: Host): Promise<void> {
  const node = await readNodeState(host.runDir);
  if (node === undefined) {
    throw notAvailable(`sync has not finished its first snapshot, "${nodeStatePath(host.runDir)}" does not exist`);
  }
  try {
    requireGuard(host);
  } catch (error) {
    throw notAvailable((error as Error).message);
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

function notAvailable(reason: string): CniError {
  return new CniError(CniCode.NotAvailable, `Cannot add to the network: ${reason}`);
}
