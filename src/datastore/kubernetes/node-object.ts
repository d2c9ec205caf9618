/** A node as Kubernetes describes it: which of its addresses is its tunnel end point, and what else a document has of it. */
import { isIPv4 } from "node:net";
import { z } from "zod";
import type { ApiObject } from "./resources.ts";

/** Address with the prefix length of its link, "172.31.112.2/20", in place of what Kubernetes knows. */
export const addressAnnotation = "cni-ipip.io/address";

/** Further addresses that the node really has, separated by commas. */
export const otherAddressesAnnotation = "cni-ipip.io/other-addresses";

/** https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-out-of-service */
const outOfServiceTaint = "node.kubernetes.io/out-of-service";

const nodeObject = z.looseObject({
  spec: z.looseObject({ taints: z.array(z.looseObject({ key: z.string() })).optional() }).optional(),
  status: z
    .looseObject({ addresses: z.array(z.looseObject({ type: z.string(), address: z.string() })).optional() })
    .optional(),
});

/**
 * The fields of a node's document, not yet checked.
 *
 * @returns undefined for a node that has no address, or has none any more: it is not part of the network
 */
export function nodeFields(object: ApiObject): object | undefined {
  const { name, labels, annotations = {} } = object.metadata;
  const { spec, status } = nodeObject.parse(object);
  const address = annotations[addressAnnotation] ?? internalAddress(status?.addresses ?? []);
  const otherAddresses = annotations[otherAddressesAnnotation];
  const isOutOfService = spec?.taints?.some(({ key }) => key === outOfServiceTaint) ?? false;
  return address === undefined
    ? undefined
    : {
        name,
        address,
        ...(otherAddresses !== undefined && { otherAddresses: listed(otherAddresses) }),
        ...(labels !== undefined && { labels }),
        ...(isOutOfService && { outOfService: true }),
      };
}

/** Kubernetes does not know the prefix of the link: as far as anybody can tell the node is on a subnet of its own. */
function internalAddress(
  addresses: readonly { readonly type: string; readonly address: string }[],
): string | undefined {
  const internal = addresses.find(({ type, address }) => type === "InternalIP" && isIPv4(address));
  return internal && `${internal.address}/32`;
}

function listed(text: string): string[] {
  return text
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");
}
