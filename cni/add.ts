/** ADD: gives a container an interface, an address and its routes. */
import { CniCode, CniError, type CniResult, newestVersion, parseResult } from "@containernetworking/cni-types-ts";
import type { NodeState } from "../src/node-state.ts";
import { type Attachment, hostLinkName } from "./attachment.ts";
import type { PluginConfiguration } from "./config.ts";
import { type Host, requireNodeState } from "./host.ts";
import {
  addHostRoute,
  configureHostLink,
  createPair,
  hostMac,
  removeHostLink,
  removeStaleHostLink,
} from "./host-link.ts";
import { gateway, Pod } from "./pod.ts";
import { UndoStack } from "./undo.ts";

export interface AddRequest {
  readonly attachment: Attachment;
  /** Path of the container's network namespace. */
  readonly networkNamespace: string;
  readonly config: PluginConfiguration;
}

/** @returns what the runtime is told, with what the plugins before said in front */
export async function add(request: AddRequest, host: Host): Promise<CniResult> {
  const { attachment, networkNamespace, config } = request;
  const previous = config.prevResult && parseResult(config.prevResult);
  const node = await requireNodeState(host);
  const mtu = podMtu(config, node);
  const pod = await Pod.open(networkNamespace);
  const undo = new UndoStack(host.log);
  try {
    const { address } = await host.leases.reserve(attachment, node);
    undo.push(`release the lease of ${address}`, () => host.leases.release(attachment));
    await removeStaleHostLink(host, attachment);
    await pod.requireFreeName(attachment.interfaceName);
    await createPair(host, attachment, pod.namespace.fd, mtu);
    undo.push(`remove the link "${hostLinkName(attachment)}"`, () => removePair(host, attachment));
    const hostLink = await configureHostLink(host, attachment);
    const mac = await pod.configure(attachment.interfaceName, address, hostMac);
    await addHostRoute(host, hostLink, address);
    return toResult(request, { address, mac, mtu }, previous);
  } catch (error) {
    await undo.run();
    throw error;
  } finally {
    await pod.close();
  }
}

function podMtu({ mtu }: PluginConfiguration, node: NodeState): number {
  if (mtu !== undefined && mtu > node.mtu) {
    throw new CniError(
      CniCode.InvalidConfiguration,
      `Cannot use the network configuration: field "mtu" is ${mtu}, allowed are at most ${node.mtu}, the MTU of the tunnel`,
    );
  }
  return mtu ?? node.mtu;
}

/** By name, since the link may not have been signed yet. */
async function removePair({ netlink }: Host, attachment: Attachment): Promise<void> {
  const link = await netlink.linkByName(hostLinkName(attachment));
  if (link) {
    await removeHostLink(netlink, link);
  }
}

interface PodEnd {
  readonly address: string;
  readonly mac: string;
  readonly mtu: number;
}

function toResult({ attachment, networkNamespace, config }: AddRequest, end: PodEnd, previous?: CniResult): CniResult {
  const { address, mac, mtu } = end;
  const before = previous?.interfaces ?? [];
  const hostInterface = { name: hostLinkName(attachment), mac: hostMac };
  const podInterface = { name: attachment.interfaceName, mac, mtu, sandbox: networkNamespace };
  return {
    ...previous,
    cniVersion: newestVersion,
    interfaces: [...before, hostInterface, podInterface],
    // No gateway: it is not an address in the pod's network, and runtimes would show it as one.
    ips: [...(previous?.ips ?? []), { address: `${address}/32`, interface: before.length + 1 }],
    routes: [...(previous?.routes ?? []), { dst: "0.0.0.0/0", gw: gateway }],
    ...(config.dns && { dns: config.dns }),
  };
}
