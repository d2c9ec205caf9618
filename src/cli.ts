/** The command line: `cni-ipip sync`. As a CNI plugin (CNI_COMMAND is set) another program is started, see cni/main.ts. */
import { join } from "node:path";
import { Command } from "commander";
import pino from "pino";
import manifest from "../package.json" with { type: "json" };
import type { Datastore } from "./datastore/datastore.ts";
import type { SyncConfig } from "./sync/config.ts";

const program = new Command("cni-ipip")
  .description("An eBPF-backed IPIP overlay network for container clusters")
  .version(manifest.version)
  .showHelpAfterError();

program
  .command("sync")
  .description("keep this node's tunnel, routes, host-net set and guard in step with the cluster")
  .option("-c, --config <file>", "the configuration, a JSON file", "/etc/cni-ipip/sync.json")
  .action(sync);

await program.parseAsync();

/** Only the kind that is asked for is loaded. */
async function openDatastore({ runDir, datastore }: SyncConfig): Promise<Datastore> {
  const lastClusterPath = join(runDir, "last-cluster.json");
  if (datastore.kind === "file") {
    const { FileDatastore } = await import("./datastore/file-datastore.ts");
    return new FileDatastore({ path: datastore.path, lastClusterPath });
  }
  const { KubernetesDatastore } = await import("./datastore/kubernetes/kubernetes-datastore.ts");
  const { credentialsFrom } = await import("./datastore/kubernetes/credentials.ts");
  return new KubernetesDatastore({ credentials: credentialsFrom(datastore.kubeconfig), lastClusterPath });
}

async function sync({ config: path }: { config: string }): Promise<void> {
  const { readConfig } = await import("./sync/config.ts");
  const { startSync } = await import("./sync/sync.ts");
  try {
    const config = await readConfig(path);
    const log = pino({ level: config.logLevel, base: { node: config.nodeName } }, pino.destination(2));
    log.info({ version: manifest.version, ...config }, "sync starts");
    const running = await startSync(config, await openDatastore(config), log);
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      process.once(signal, async () => {
        log.info({ signal }, "sync ends, the data path goes on");
        await running.stop();
      });
    }
  } catch (error) {
    console.error((error as Error).message);
    // What was started already would keep the process alive.
    process.exit(1);
  }
}
