/** The versions of the CNI specification that this package can speak. */

/** Oldest first. */
export const supportedVersions = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const;

export type CniVersion = (typeof supportedVersions)[number];

export const newestVersion = "1.1.0" satisfies CniVersion;

/** The answer to VERSION: CNI spec 1.1.0, section "VERSION: probe plugin version support". */
export interface VersionResult {
  readonly cniVersion: string;
  readonly supportedVersions: readonly string[];
}

export function isSupportedVersion(version: unknown): version is CniVersion {
  return supportedVersions.some((supported) => supported === version);
}
