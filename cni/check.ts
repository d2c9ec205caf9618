/** CHECK: whether the attachment still is as ADD answered: CNI spec 1.1.0, section "CHECK". */
import { CniCode, CniError, type CniResult, parseResult } from "@containernetworking/cni-types-ts";
import { type Attachment, hostLinkName } from "./attachment.ts";
import type { PluginConfiguration } from "./config.ts";
import type { Host } from "./host.ts";
import type { Ipam } from "./ipam.ts";
import { firstDifference, type Wanted } from "./live-state.ts";
import { gateway, Pod } from "./pod.ts";

export interface CheckRequest {
  readonly attachment: Attachment;
  readonly networkNamespace: string;
  readonly config: PluginConfiguration;
  readonly ipam: Ipam;
}

/** @throws CniError with `CheckFailed`, naming the first difference */
export async function check(request: CheckRequest, host: Host): Promise<void> {
  const { attachment, networkNamespace, config, ipam } = request;
  if (config.prevResult === undefined) {
    throw new CniError(
      CniCode.InvalidConfiguration,
      'Cannot use the network configuration: field "prevResult" is missing, CHECK needs what ADD answered',
    );
  }
  const wanted = await wantedOf(request, parseResult(config.prevResult, config.cniVersion), host);
  const pod = await Pod.open(networkNamespace, host);
  try {
    const difference =
      (await ipam.check(attachment, wanted.addresses)) ?? (await firstDifference(attachment, wanted, host, pod));
    if (difference !== undefined) {
      throw failed(attachment, difference);
    }
  } finally {
    await pod.close();
  }
}

/**
 * The previous result counts, since plugins behind may have changed the pod's end; what it does not say, such as an MTU
 * before version 1.1.0, is known of the host's end only.
 */
async function wantedOf(
  { attachment, config }: CheckRequest,
  previous: CniResult,
  { endpoints }: Host,
): Promise<Wanted> {
  const name = hostLinkName(attachment);
  const { interfaces, ips, routes } = previous;
  if (!interfaces.some((each) => each.name === name && !each.sandbox)) {
    throw failed(attachment, `the previous result has no host link "${name}"`);
  }
  const podIndex = interfaces.findIndex((each) => each.name === attachment.interfaceName && each.sandbox);
  const podInterface = interfaces[podIndex];
  if (podInterface === undefined) {
    throw failed(attachment, `the previous result has no "${attachment.interfaceName}" in the pod`);
  }
  const { attached } = (await endpoints.read(attachment)) ?? {};
  return {
    hostLink: { name },
    permissions: config.guard,
    ...(attached && { mtu: attached.mtu, metric: attached.metric }),
    ...(podInterface.mtu === undefined ? {} : { podMtu: podInterface.mtu }),
    ...(podInterface.mac === undefined ? {} : { mac: podInterface.mac }),
    addresses: ips.filter((ip) => ip.interface === podIndex).map(({ address }) => address.split("/")[0] ?? ""),
    routes: routes.filter(({ gw }) => gw === gateway).map(({ dst }) => dst),
  };
}

function failed({ containerId, interfaceName }: Attachment, difference: string): CniError {
  return new CniError(CniCode.CheckFailed, `Cannot confirm "${interfaceName}" of "${containerId}": ${difference}`);
}
