/** One interface of one container in one network: what ADD makes and DEL removes. */
import { createHash } from "node:crypto";
import { type AttachmentCall, CniCode, CniError, parseArguments } from "@containernetworking/cni-types-ts";
import type { LeaseOwner } from "../src/ipam/lease-store.ts";

export type Attachment = LeaseOwner;

export const knownArguments = [
  "K8S_POD_NAMESPACE",
  "K8S_POD_NAME",
  "K8S_POD_INFRA_CONTAINER_ID",
  "K8S_POD_UID",
  "IP",
  "MAC",
] as const satisfies string[];

const aliasPrefix = "cni-ipip:";

/** The kernel's IFALIASZ, less the closing zero. */
const aliasBytes = 255;

/**
 * The attachment with the pod's names, where CNI_ARGS gives both.
 *
 * @throws CniError with `InvalidEnvironment`
 */
export function namedAttachment(call: AttachmentCall, network: string): Attachment {
  const { K8S_POD_NAMESPACE: namespace, K8S_POD_NAME: pod } = parseArguments(call.arguments, knownArguments);
  const attachment = plainAttachment(call, network);
  if (Buffer.byteLength(linkAlias(attachment)) > aliasBytes) {
    throw new CniError(
      CniCode.InvalidEnvironment,
      `Cannot use CNI_CONTAINERID: "${call.containerId}", allowed are at most ${aliasBytes} bytes with the network's and the interface's name and the prefix "${aliasPrefix}"`,
    );
  }
  return { ...attachment, ...(namespace && pod ? { namespace, pod } : {}) };
}

/** The attachment by its key alone, which is all that DEL needs: a CNI_ARGS that ADD refused must not fail it. */
export function plainAttachment({ containerId, interfaceName }: AttachmentCall, network: string): Attachment {
  return { network, containerId, interfaceName };
}

/**
 * The name of the link on the host, 15 characters, the most that Linux takes. For eth0 it is Calico's name for the pod, so
 * that a pod's next sandbox has the same; where no pod is named the container stands in.
 */
export function hostLinkName({ network, namespace, pod, containerId, interfaceName }: Attachment): string {
  const podName = namespace && pod ? `${namespace}.${pod}` : undefined;
  if (podName === undefined) {
    return linkName(`${network}/${containerId}/${interfaceName}`);
  }
  return linkName(interfaceName === "eth0" ? podName : `${podName}/${interfaceName}`);
}

/**
 * The name that the link is made under. The kernel takes no alias with the creation, and until it has one only a name that
 * nobody else can have tells whose it is.
 */
export function unsignedLinkName({ network, containerId, interfaceName }: Attachment): string {
  return linkName(`unsigned/${network}/${containerId}/${interfaceName}`);
}

function linkName(identity: string): string {
  return `cali${createHash("sha1").update(identity).digest("hex").slice(0, 11)}`;
}

/** Written on the host link, so that its owner is known without any file. */
export function linkAlias({ network, containerId, interfaceName }: Attachment): string {
  return `${aliasPrefix}${network}/${containerId}/${interfaceName}`;
}

/** @returns `undefined` when the alias is not one that `linkAlias` wrote */
export function ownerOfAlias(alias = ""): Attachment | undefined {
  const key = alias.startsWith(aliasPrefix) ? alias.slice(aliasPrefix.length) : "";
  const [network, containerId, interfaceName, ...more] = key.split("/");
  return network && containerId && interfaceName && more.length === 0
    ? { network, containerId, interfaceName }
    : undefined;
}
