/** The node agent: listens to datastore and kernel, and keeps this node's network as both together demand. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "pino";
import type { Condition, Update } from "../datastore/cluster.ts";
import type { Datastore, DatastoreHandler } from "../datastore/datastore.ts";
import { tryLock } from "../linux/lock.ts";
import { monitor } from "../netlink/monitor.ts";
import { Netlink } from "../netlink/netlink.ts";
import { ClusterView } from "./cluster-view.ts";
import { Conditions } from "./conditions.ts";
import type { SyncConfig } from "./config.ts";
import { GuardKeeper } from "./guard-keeper.ts";
import { NodeNetwork } from "./node-network.ts";
import { WorkLoop } from "./work-loop.ts";
import { Workloads } from "./workloads.ts";

export interface Sync {
  /** Ends the work; the data path and its check go on in the kernel. */
  stop(): Promise<void>;
}

/**
 * Serves the network namespace that the process runs in.
 *
 * @throws an error when another sync serves this run directory, or the guard cannot be loaded
 */
export async function startSync(config: SyncConfig, datastore: Datastore, log: Logger): Promise<Sync> {
  const { runDir, guard: guardConfig } = config;
  await mkdir(runDir, { recursive: true });
  const lock = await tryLock(join(runDir, "sync.lock"));
  if (!lock) {
    throw new Error(`Cannot start: another "cni-ipip sync" serves the run directory "${runDir}"`);
  }
  const conditions = new Conditions(log);
  const guard = await GuardKeeper.open({ runDir, how: guardConfig.attach, conditions, log });
  const netlink = Netlink.open();
  const workloads = new Workloads(runDir, log);
  const network = new NodeNetwork({ config, netlink, guard, workloads, conditions, log });
  const cluster = new ClusterView();
  const loop = new WorkLoop(() => conditions.attempt("network", () => network.completeDeferredWork(cluster)));
  let isInSync = false;
  const schedule = () => isInSync && loop.schedule();

  await conditions.attempt("workloads", () => workloads.heal());
  await network.watchBeforeSnapshot();
  const kernel = monitor((event) => network.matters(event) && schedule());
  await datastore.start({
    onUpdate: (update: Update) => cluster.onUpdate(update),
    onBatchEnd: schedule,
    onConditions: (found: readonly Condition[]) => conditions.setFromDatastore(found),
    onInSync: () => {
      log.info({ nodes: cluster.nodes.size, blocks: cluster.blocks.size }, "datastore is in sync");
      isInSync = true;
      schedule();
    },
  } satisfies DatastoreHandler);

  return {
    async stop() {
      kernel.close();
      await datastore.stop();
      await loop.stop();
      netlink.close();
      guard.close();
      await lock.release();
    },
  };
}
