/** The versions of the CNI specification. */
import type { CniCommand } from "./environment.ts";
import { CniCode, CniError } from "./error.ts";

/** Oldest first. */
export const supportedVersions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const;

export type CniVersion = (typeof supportedVersions)[number];

export const newestVersion = "1.1.0" satisfies CniVersion;

/** What a configuration without `cniVersion` means: the field came with version 0.2.0. */
export const oldestVersion = "0.1.0" satisfies CniVersion;

/** The version that a verb came with; VERSION itself is asked in any. */
const firstVersions: Readonly<Record<CniCommand, CniVersion>> = {
  ADD: "0.1.0",
  DEL: "0.1.0",
  VERSION: "0.1.0",
  CHECK: "0.4.0",
  GC: "1.1.0",
  STATUS: "1.1.0",
};

/** The answer to VERSION: CNI spec 1.1.0, section "VERSION: probe plugin version support". */
export interface VersionResult {
  readonly cniVersion: string;
  readonly supportedVersions: readonly string[];
}

export function isSupportedVersion(version: unknown): version is CniVersion {
  return supportedVersions.some((supported) => supported === version);
}

export function isAtLeast(version: CniVersion, other: CniVersion): boolean {
  return supportedVersions.indexOf(version) >= supportedVersions.indexOf(other);
}

/** @throws CniError with `IncompatibleVersion` when the verb came later than the version */
export function requireVersionFor(command: CniCommand, version: CniVersion): void {
  const first = firstVersions[command];
  if (!isAtLeast(version, first)) {
    throw new CniError(
      CniCode.IncompatibleVersion,
      `Cannot run ${command}: cniVersion is "${version}", allowed are versions from ${first} on`,
    );
  }
}
