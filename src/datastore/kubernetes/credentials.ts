/** How the API server is reached, and who we are to it. */
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { KubeConfig } from "@kubernetes/client-node";
import { z } from "zod";

/** Reads them anew each time: tokens and certificates are rotated. */
export type LoadCredentials = () => Promise<KubeConfig>;

/** From a kubeconfig or, without one, from what Kubernetes gives every pod. */
export function credentialsFrom(kubeconfig: string | undefined): LoadCredentials {
  return kubeconfig === undefined ? podCredentials : () => fileCredentials(kubeconfig);
}

async function podCredentials(): Promise<KubeConfig> {
  const { KubeConfig } = await library();
  if (!process.env.KUBERNETES_SERVICE_HOST) {
    throw new Error("Cannot find the API server: this is no pod of Kubernetes, a kubeconfig has to be given");
  }
  const config = new KubeConfig();
  config.loadFromCluster();
  return config;
}

async function fileCredentials(path: string): Promise<KubeConfig> {
  const { KubeConfig, loadYaml } = await library();
  const config = new KubeConfig();
  try {
    const text = await readFile(path, "utf8");
    const { users } = kubeconfigSchema.parse(loadYaml(text));
    config.loadFromString(text);
    config.makePathsAbsolute(dirname(path));
    const tokenFiles = new Map(users.map(({ name, user }) => [name, user?.tokenFile]));
    config.users = config.users.map((user) => withTokenFile(user, tokenFiles.get(user.name), dirname(path)));
  } catch (error) {
    throw new Error(`Cannot use the kubeconfig "${path}": ${(error as Error).message}`, { cause: error });
  }
  if (!config.getCurrentCluster()) {
    throw new Error(`Cannot use the kubeconfig "${path}": its current context names no cluster`);
  }
  return config;
}

/** Loaded when it is needed, for it takes 37 MB of memory that a node with another kind of datastore has no use for. */
function library() {
  return import("./client-library.ts");
}

/** What the library overlooks in a kubeconfig, see `withTokenFile`. */
const kubeconfigSchema = z.looseObject({
  users: z
    .array(z.looseObject({ name: z.string(), user: z.looseObject({ tokenFile: z.string().optional() }).nullish() }))
    .default([]),
});

/** The library does not know the field "tokenFile" of a kubeconfig, only a provider of its own that does the same. */
function withTokenFile(user: KubeConfig["users"][number], tokenFile: string | undefined, directory: string) {
  return tokenFile === undefined
    ? user
    : { ...user, authProvider: { name: "tokenFile", config: { tokenFile: resolve(directory, tokenFile) } } };
}
