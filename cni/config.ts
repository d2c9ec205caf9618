/** The plugin's network configuration, as a runtime writes it to standard input. */
import { networkConfiguration, parseNetworkConfiguration } from "@containernetworking/cni-types-ts";
import { z } from "zod";
import { allowedSourcesLimit } from "../src/guard/layout.ts";
import { logConfiguration } from "./log.ts";
import { absolutePath } from "./path.ts";
import { ipamWishes, runtimeWishes } from "./wishes.ts";

/** The `ipam.type` of the node's own pool, which is meant where the configuration names none. */
export const ownIpam = "cni-ipip";

/**
 * What pods may send besides IPv4 packets from their own addresses. Unknown keys are dropped: what is left is compared
 * with what an earlier ADD was told.
 */
const guard = z.object({
  /** Packets of protocol 4 that this node would forward: never to its own tunnel. */
  allowIpip: z.boolean().default(false).describe("true or false"),
  allowIpv6: z.boolean().default(false).describe("true or false"),
  allowedSources: z
    .array(z.cidrv4())
    .max(allowedSourcesLimit)
    .default([])
    .describe(`a list of at most ${allowedSourcesLimit} IPv4 CIDRs`),
});

const pluginConfiguration = networkConfiguration.extend({
  /** Where sync leaves what the plugin must know of the node; emptied by a reboot. */
  runDir: absolutePath.default("/run/cni-ipip").describe("an absolute path"),
  /** Where the leases are; kept over a reboot. */
  stateDir: absolutePath.default("/var/lib/cni-ipip").describe("an absolute path"),
  /** Bytes; without it the MTU of tunl0. The least is what RFC 791 asks of every link. */
  mtu: z.int().min(68).max(65535).exactOptional().describe("a whole number of bytes from 68 to 65535"),
  guard: guard.prefault({}).describe("an object {allowIpip, allowIpv6, allowedSources}"),
  ...runtimeWishes,
  ipam: networkConfiguration.shape.ipam
    .unwrap()
    .extend(ipamWishes)
    .exactOptional()
    .describe("an object with the file name of a plugin as type"),
  log: logConfiguration.prefault({}).describe("an object {level, file, maxSizeMegabytes, maxFiles}"),
});

export type PluginConfiguration = z.infer<typeof pluginConfiguration>;

/** Without a name for another plugin, whatever else it says, ours is meant: ADD refuses it, so nothing else can be held. */
const removalIpam = networkConfiguration.shape.ipam.unwrap().extend({
  type: z.preprocess((type) => (type === "" ? undefined : type), networkConfiguration.shape.type.default(ownIpam)),
});

/** All that DEL needs: what is wrong elsewhere, perhaps since ADD, must not keep a pod from being removed. */
const removalConfiguration = z.object({
  cniVersion: pluginConfiguration.shape.cniVersion,
  name: pluginConfiguration.shape.name,
  type: pluginConfiguration.shape.type,
  runDir: pluginConfiguration.shape.runDir,
  stateDir: pluginConfiguration.shape.stateDir,
  ipam: removalIpam.exactOptional().describe("an object with the file name of a plugin as type"),
  log: pluginConfiguration.shape.log.catch(logConfiguration.parse({})),
});

/** @throws CniError, naming the field, its value and what is allowed */
export function parseConfiguration(text: string): PluginConfiguration {
  return parseNetworkConfiguration(text, pluginConfiguration);
}

/** The same for DEL. */
export function parseRemovalConfiguration(text: string): PluginConfiguration {
  return { ...parseNetworkConfiguration(text, removalConfiguration), guard: guard.parse({}) };
}
