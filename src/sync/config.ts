/** The configuration file of `cni-ipip sync`. */
import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { isAbsolute } from "node:path";
import { z } from "zod";
import { objectName } from "../datastore/fields.ts";
import { parseJson, sentence, show } from "../sentence.ts";

const absolutePath = z.string().refine(isAbsolute, { error: ({ input }) => `${show(input)} is not an absolute path` });

const schema = z.strictObject({
  /** The name of this node's document in the datastore. */
  nodeName: objectName.default(hostname()),
  datastore: z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("file"), path: absolutePath }),
    /** Without a kubeconfig by what Kubernetes gives every pod. */
    z.strictObject({ kind: z.literal("kubernetes"), kubeconfig: absolutePath.exactOptional() }),
  ]),
  /** What does not outlive a reboot: the node state for the plugin, the lock and the BPF pins. */
  runDir: absolutePath.default("/run/cni-ipip"),
  /** What does: the leases, which the plugin has to be told to keep there too, and the node's instance id. */
  stateDir: absolutePath.default("/var/lib/cni-ipip"),
  guard: z
    .strictObject({
      /** By tc on every link, or by XDP on top of that where the links allow it. */
      attach: z.enum(["tc", "xdp-native", "xdp-generic"]).default("tc"),
    })
    .prefault({}),
  ipam: z
    .strictObject({
      maxBlocksPerNode: z.int().min(1).default(20),
      /**
       * An hour: a node whose pods come and go by day claims no block twice a day, and a block that is not needed costs the
       * others nothing but addresses.
       */
      releaseAfterSeconds: z.int().min(1).default(3600),
      /** Long enough to put a document back that was removed by mistake. */
      deletedNodeGraceSeconds: z.int().min(1).default(300),
    })
    .prefault({}),
  logLevel: z.enum(["debug", "info", "warn", "error"]).default("info"),
});

export type SyncConfig = z.infer<typeof schema>;

/** @throws an error that names the file, the field, its value and what is allowed */
export async function readConfig(path: string): Promise<SyncConfig> {
  try {
    const { data, error } = schema.safeParse(parseJson(await readFile(path, "utf8")), { reportInput: true });
    if (error) {
      throw new SyntaxError(sentence(schema, error.issues));
    }
    return data;
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const problem = code === "ENOENT" ? "there is no such file, --config names another one" : message;
    throw new Error(`Cannot use the configuration "${path}": ${problem}`, { cause });
  }
}
