/** A workload endpoint: one pod interface as the plugin made it, known without asking a runtime. */
import type { CniDns } from "@containernetworking/cni-types-ts";
import { z } from "zod";
import { leaseOwner } from "../ipam/lease-store.ts";
import { bootId, moment } from "../linux/moment.ts";
import { namespaceId } from "../linux/namespace.ts";

/** What the pod may send besides IPv4 from its own addresses. */
const permissions = z.object({
  /** CIDRs */
  allowedSources: z.array(z.cidrv4()),
  allowIpip: z.boolean(),
  allowIpv6: z.boolean(),
});

/** What ADD made. */
const attached = z.object({
  hostLink: z.object({ name: z.string(), index: z.int() }),
  /** Of the interface in the pod. */
  mac: z.string(),
  /** Bytes, of both ends. */
  mtu: z.int(),
  /** At least one, without prefix length: each is a /32. */
  addresses: z.array(z.ipv4()).min(1).readonly(),
  /** Destinations in the pod that lead to the host (CIDRs), all of one metric. */
  routes: z.array(z.cidrv4()).readonly(),
  metric: z.int(),
  /** What the plugin that gave the addresses said. */
  dns: z.custom<CniDns>().exactOptional(),
});

export const workloadEndpoint = z.object({
  version: z.literal(1),
  owner: leaseOwner,
  /** The pod's. */
  networkNamespace: z.object({ path: z.string(), id: z.string() }),
  /** Where the leases of its network are. */
  stateDir: z.string(),
  /** The plugin that gave the addresses. */
  ipam: z.string(),
  /** When ADD began: ISO 8601, UTC. For people: the clock can be set. */
  time: z.string(),
  /** The same, for comparisons. */
  began: moment,
  permissions,
  /** Absent while ADD is at work, and for ever when it was killed. */
  attached: attached.exactOptional(),
  /** DEL has begun. */
  isEnding: z.boolean().exactOptional(),
});

export type Attached = z.infer<typeof attached>;
export type WorkloadEndpoint = z.infer<typeof workloadEndpoint>;

/** Whether no ADD or DEL of it is at work, or was killed. */
export function isFinished({ attached, isEnding }: WorkloadEndpoint): boolean {
  return attached !== undefined && isEnding !== true;
}

/**
 * Whether the namespace that the container had is still where it was. Its id means nothing after a reboot, should the run
 * directory outlive one.
 */
export async function hasContainer({ began, networkNamespace }: WorkloadEndpoint): Promise<boolean> {
  return began.boot === bootId() && (await namespaceId(networkNamespace.path)) === networkNamespace.id;
}
