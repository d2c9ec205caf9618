/** The network configuration that a runtime writes to a plugin's standard input: CNI spec 1.1.0, section 1. */
import { z } from "zod";
import { CniCode, CniError } from "./error.ts";
import { describeIssue } from "./issue.ts";
import { cniDns } from "./result.ts";
import { isSupportedVersion, supportedVersions } from "./version.ts";

/** The fields that the specification knows; extend it with a plugin's own. Every field needs a description. */
export const networkConfiguration = z.looseObject({
  cniVersion: z.enum(supportedVersions).describe(`one of ${supportedVersions.join(", ")}`),
  name: z
    .string()
    .regex(/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/)
    .describe('letters, digits, "_", "." and "-", a letter or digit first'),
  type: z.string().min(1).describe("the plugin's file name"),
  dns: cniDns.exactOptional().describe("an object {nameservers, domain, search, options}"),
  prevResult: z.looseObject({}).exactOptional().describe("the result of the plugin before, an object"),
});

export type NetworkConfiguration = z.infer<typeof networkConfiguration>;

/**
 * Reads a configuration by a schema that extends `networkConfiguration`. The text itself never becomes part of an
 * error: it can hold tokens.
 *
 * @throws CniError with `DecodingFailure` (not JSON), `IncompatibleVersion` or `InvalidConfiguration` (the message
 *   names the field, its value and what is allowed)
 */
export function parseNetworkConfiguration<Schema extends z.ZodObject>(text: string, schema: Schema): z.infer<Schema> {
  const value = parseJson(text);
  const { cniVersion } = (value ?? {}) as { readonly cniVersion?: unknown };
  if (cniVersion !== undefined && !isSupportedVersion(cniVersion)) {
    throw new CniError(
      CniCode.IncompatibleVersion,
      `Cannot speak cniVersion ${JSON.stringify(cniVersion)}: allowed are ${supportedVersions.join(", ")}`,
    );
  }
  const { success, data, error } = schema.safeParse(value);
  if (!success) {
    const problem = describeIssue(schema, value, error);
    throw new CniError(CniCode.InvalidConfiguration, `Cannot use the network configuration: ${problem}`);
  }
  return data;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new CniError(
      CniCode.DecodingFailure,
      `Cannot decode the network configuration: ${text.length} characters that are not JSON, allowed is a JSON object`,
    );
  }
}
