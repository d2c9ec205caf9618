/** What ADD answers, read from and written in the shape of each version. */
import type { z } from "zod";
import { CniCode, CniError } from "./error.ts";
import { check } from "./issue.ts";
import { type CniResult02, fromV0_2, result02, toV0_2 } from "./result/v0_2.ts";
import { type CniResult04, result04, toV0_4, withoutFamily } from "./result/v0_4.ts";
import type { CniResult10 } from "./result/v1_0.ts";
import { type CniResult, type CniResult11, result11, toV1_0, toV1_1 } from "./result/v1_1.ts";
import { show } from "./show.ts";
import { type CniVersion, isAtLeast, isSupportedVersion, newestVersion, supportedVersions } from "./version.ts";

/** The shape of a version's result. */
export type CniResultOf<Version extends CniVersion> = Version extends "0.1.0" | "0.2.0"
  ? CniResult02
  : Version extends "0.3.0" | "0.3.1" | "0.4.0"
    ? CniResult04
    : Version extends "1.0.0"
      ? CniResult10
      : CniResult11;

export type AnyCniResult = CniResultOf<CniVersion>;

/**
 * Reads a result of any version into the shape of the newest.
 *
 * @param assumed the version of a result that does not tell its own
 * @throws CniError with `InvalidConfiguration`, naming the field, its value and what is allowed, or with
 *   `IncompatibleVersion`
 */
export function parseResult(value: unknown, assumed: CniVersion = newestVersion): CniResult {
  const { cniVersion = assumed } = (value ?? {}) as { readonly cniVersion?: unknown };
  if (!isSupportedVersion(cniVersion)) {
    throw new CniError(
      CniCode.IncompatibleVersion,
      `Cannot use the result: its cniVersion is ${show(cniVersion)}, allowed are ${supportedVersions.join(", ")}`,
    );
  }
  if (!isAtLeast(cniVersion, "0.3.0")) {
    return { cniVersion: newestVersion, ...fromV0_2(check("the result", result02, value)) };
  }
  return fromLists(check("the result", isAtLeast(cniVersion, "1.0.0") ? result11 : result04, value));
}

/**
 * The result as a runtime of that version expects it; what the version cannot say is left out, and so are empty lists.
 *
 * @throws CniError with `IncompatibleVersion` when a version before 0.3.0 shall say that there is no address
 */
export function convertResult<Version extends CniVersion>(
  result: CniResult,
  cniVersion: Version,
): CniResultOf<Version> {
  return { cniVersion, ...inShapeOf(cniVersion, result) } as CniResultOf<Version>;
}

function inShapeOf(version: CniVersion, result: CniResult): object {
  switch (version) {
    case "0.1.0":
    case "0.2.0":
      return toV0_2(toV1_0(result));
    case "0.3.0":
    case "0.3.1":
    case "0.4.0":
      return toV0_4(toV1_0(result));
    case "1.0.0":
      return toV1_0(result);
    case "1.1.0":
      return toV1_1(result);
  }
}

function fromLists(result: z.infer<typeof result11>): CniResult {
  const { cniVersion: _, interfaces = [], ips = [], routes = [], ...rest } = result;
  return { cniVersion: newestVersion, interfaces, ips: ips.map(withoutFamily), routes, ...rest };
}
