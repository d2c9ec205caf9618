/** The network configuration that a runtime writes to a plugin's standard input: CNI spec 1.1.0, section 1. */
import { z } from "zod";
import { cniDns } from "./dns.ts";
import { CniCode, CniError } from "./error.ts";
import { check } from "./issue.ts";
import { show } from "./show.ts";
import { isSupportedVersion, oldestVersion, supportedVersions } from "./version.ts";

/** A file name, which a runtime looks for in the directories of CNI_PATH. */
export const pluginName = z.string().regex(/^(?!\.{1,2}$)[^/\0]+$/);

/** The reference library takes an empty text for a missing one. */
export const configurationVersion = z
  .preprocess((value) => (value === "" ? undefined : value), z.enum(supportedVersions).default(oldestVersion))
  .describe(`one of ${supportedVersions.join(", ")}`);

export const networkName = z
  .string()
  .regex(/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/)
  .describe('letters, digits, "_", "." and "-", a letter or digit first');

/** One container's interface, as `cni.dev/valid-attachments` names it. */
const attachment = z.looseObject({ containerID: z.string(), ifname: z.string() });

const attachments = z.array(attachment).exactOptional().describe("a list of {containerID, ifname}");

/** The fields that the specification knows; extend it with a plugin's own. Every field needs a description. */
export const networkConfiguration = z.looseObject({
  cniVersion: configurationVersion,
  name: networkName,
  type: pluginName.describe("a plugin's file name"),
  ipam: z
    .looseObject({ type: pluginName })
    .exactOptional()
    .describe("an object with the file name of a plugin as type"),
  args: z.looseObject({}).exactOptional().describe("an object"),
  runtimeConfig: z.looseObject({}).exactOptional().describe("an object"),
  dns: cniDns.exactOptional(),
  prevResult: z.looseObject({}).exactOptional().describe("the result of the plugin before, an object"),
  "cni.dev/valid-attachments": attachments,
  "cni.dev/attachments": attachments,
});

export type NetworkConfiguration = z.infer<typeof networkConfiguration>;
export type CniAttachment = z.infer<typeof attachment>;

/**
 * The attachments that GC must keep: CNI spec 1.1.0, section "GC". `cni.dev/attachments` is an older spelling. Neither
 * means that none is valid: so the CNI project's own client says it.
 */
export function validAttachments(config: NetworkConfiguration): readonly CniAttachment[] {
  return config["cni.dev/valid-attachments"] ?? config["cni.dev/attachments"] ?? [];
}

/**
 * Reads a configuration by a schema that extends `networkConfiguration`. The text itself never becomes part of an
 * error: it can hold tokens. Of a key that comes twice the last counts.
 *
 * @throws CniError with `DecodingFailure` (not JSON), `IncompatibleVersion` or `InvalidConfiguration` (the message
 *   names the field, its value and what is allowed)
 */
export function parseNetworkConfiguration<Schema extends z.ZodObject>(text: string, schema: Schema): z.infer<Schema> {
  return parseAs("the network configuration", text, schema);
}

/** @param what the text's name in the sentences of errors */
export function parseAs<Schema extends z.ZodObject>(what: string, text: string, schema: Schema): z.infer<Schema> {
  const value = parseJson(what, text);
  const { cniVersion = "" } = (value ?? {}) as { readonly cniVersion?: unknown };
  if (cniVersion !== "" && !isSupportedVersion(cniVersion)) {
    throw new CniError(
      CniCode.IncompatibleVersion,
      `Cannot speak cniVersion ${show(cniVersion)}: allowed are ${supportedVersions.join(", ")}`,
    );
  }
  return check(what, schema, value);
}

function parseJson(what: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new CniError(
      CniCode.DecodingFailure,
      `Cannot decode ${what}: ${text.length} characters that are not JSON, allowed is a JSON object`,
    );
  }
}
