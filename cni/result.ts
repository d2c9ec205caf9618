/** What ADD answers. */
import { type CniDns, type CniResult, newestVersion } from "@containernetworking/cni-types-ts";
import type { Attached } from "../src/workload/endpoint.ts";
import type { Attachment } from "./attachment.ts";
import type { PluginConfiguration } from "./config.ts";
import { hostMac } from "./host-link.ts";
import { gateway } from "./pod.ts";

interface Answer {
  readonly attachment: Attachment;
  readonly networkNamespace: string;
  readonly config: PluginConfiguration;
  readonly attached: Attached;
  /** What the plugins before answered: carried on in front. */
  readonly previous: CniResult | undefined;
}

export function toResult({ attachment, networkNamespace, config, attached, previous }: Answer): CniResult {
  const { hostLink, mac, mtu, addresses, routes, metric } = attached;
  const before = previous?.interfaces ?? [];
  const hostInterface = { name: hostLink.name, mac: hostMac };
  const podInterface = { name: attachment.interfaceName, mac, mtu, sandbox: networkNamespace };
  const podIndex = before.length + 1;
  const dns: CniDns | undefined = config.dns ?? attached.dns ?? previous?.dns;
  return {
    ...previous,
    cniVersion: newestVersion,
    interfaces: [...before, hostInterface, podInterface],
    // No gateway: it is not an address in the pod's network, and runtimes would show it as one.
    ips: [...(previous?.ips ?? []), ...addresses.map((address) => ({ address: `${address}/32`, interface: podIndex }))],
    routes: [
      ...(previous?.routes ?? []),
      ...routes.map((dst) => ({ dst, gw: gateway, ...(metric === 0 ? {} : { priority: metric }) })),
    ],
    ...(dns && { dns }),
  };
}
