/** The list of plugins that makes up one network, which administrators write and runtimes read: CNI spec 1.1.0, section 1. */
import { z } from "zod";
import { configurationVersion, networkName, parseAs, pluginName } from "./configuration.ts";

const flag = z.boolean().default(false).describe("true or false");

/** A plugin's own part; the runtime completes it with the list's name and version. */
const plugin = z.looseObject({
  type: pluginName.describe("a plugin's file name"),
  /** The fields of `runtimeConfig` that the plugin takes. */
  capabilities: z.record(z.string(), z.boolean()).exactOptional().describe("an object whose fields are true or false"),
});

const networkConfigurationList = z.looseObject({
  cniVersion: configurationVersion,
  /** All versions that the list may be used with, for the runtime to choose from. */
  cniVersions: z.array(z.string()).exactOptional().describe("a list of versions"),
  name: networkName,
  disableCheck: flag,
  disableGC: flag,
  /** No plugins are added from files beside the list's. */
  loadOnlyInlinedPlugins: flag,
  plugins: z.array(plugin).default([]).describe("a list of {type}"),
});

export type NetworkConfigurationList = z.infer<typeof networkConfigurationList>;

/** @throws CniError as `parseNetworkConfiguration` does */
export function parseNetworkConfigurationList(text: string): NetworkConfigurationList {
  return parseAs("the network configuration list", text, networkConfigurationList);
}
