/** The plugin's network configuration, as a runtime writes it to standard input. */
import { networkConfiguration, parseNetworkConfiguration } from "@containernetworking/cni-types-ts";
import { z } from "zod";

const absolutePath = z.string().startsWith("/");

const pluginConfiguration = networkConfiguration.extend({
  /** Where sync leaves what the plugin must know of the node; emptied by a reboot. */
  runDir: absolutePath.default("/run/cni-ipip").describe("an absolute path"),
  /** Where the leases are; kept over a reboot. */
  stateDir: absolutePath.default("/var/lib/cni-ipip").describe("an absolute path"),
  /** Bytes; without it the MTU of tunl0. The least is what RFC 791 asks of every link. */
  mtu: z.int().min(68).max(65535).exactOptional().describe("a whole number of bytes from 68 to 65535"),
});

export type PluginConfiguration = z.infer<typeof pluginConfiguration>;

/** @throws CniError, naming the field, its value and what is allowed */
export function parseConfiguration(text: string): PluginConfiguration {
  return parseNetworkConfiguration(text, pluginConfiguration);
}
