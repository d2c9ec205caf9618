/** VERSION: which versions of the specification the plugin speaks. */
import { supportedVersions, type VersionResult } from "@containernetworking/cni-types-ts";

/** @param cniVersion what the runtime asked in */
export function version(cniVersion: string): VersionResult {
  return { cniVersion, supportedVersions };
}
