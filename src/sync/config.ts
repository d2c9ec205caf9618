/** The configuration file of `cni-ipip sync`. */
import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { z } from "zod";

const absolutePath = z.string().regex(/^\/./, "must be an absolute path");

const schema = z.strictObject({
  /** The name of this node's document in the datastore. */
  nodeName: z.string().min(1).default(hostname()),
  datastore: z.strictObject({ kind: z.literal("file"), path: absolutePath }),
  /** What does not outlive a reboot: the node state for the plugin, and the BPF pins. */
  runDir: absolutePath.default("/run/cni-ipip"),
  /** What does: the leases. */
  stateDir: absolutePath.default("/var/lib/cni-ipip"),
  guard: z
    .strictObject({
      /** By tc on every link, or by XDP on top of that where the links allow it. */
      attach: z.enum(["tc", "xdp-native", "xdp-generic"]).default("tc"),
    })
    .prefault({}),
  logLevel: z.enum(["debug", "info", "warn", "error"]).default("info"),
});

export type SyncConfig = z.infer<typeof schema>;

/** @throws an error that names the file, the field and what is allowed */
export async function readConfig(path: string): Promise<SyncConfig> {
  const text = await readFile(path, "utf8").catch((cause) => {
    throw new Error(`Cannot read the configuration "${path}": ${cause.message}`, { cause });
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new Error(`Cannot use the configuration "${path}": ${(cause as Error).message}`, { cause });
  }
  const { data, error } = schema.safeParse(value);
  if (error) {
    const problems = error.issues.map(({ path, message }) => {
      const field = path.join(".");
      return field === "" ? message : `field "${field}": ${message}, it is ${JSON.stringify(lookUp(value, path))}`;
    });
    throw new Error(`Cannot use the configuration "${path}": ${problems.join("; ")}`);
  }
  return data;
}

function lookUp(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce((inner, key) => (inner as Record<PropertyKey, unknown> | undefined)?.[key], value);
}
