/** The node agent: listens to datastore and kernel, and keeps this node's network as both together demand. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "pino";
import type { Condition, Update } from "../datastore/cluster.ts";
import type { Datastore, DatastoreHandler } from "../datastore/datastore.ts";
import { isPodLink } from "../guard/links.ts";
import { HeldBlocks } from "../ipam/blocks/held-blocks.ts";
import { nodeInstance } from "../ipam/blocks/instance-id.ts";
import { DiskLeases } from "../ipam/disk-leases.ts";
import { tryLock } from "../linux/lock.ts";
import { monitor, type NetlinkEvent } from "../netlink/monitor.ts";
import { Netlink } from "../netlink/netlink.ts";
import { BlockKeeper } from "./block-keeper.ts";
import { ClusterView } from "./cluster-view.ts";
import { Conditions } from "./conditions.ts";
import type { SyncConfig } from "./config.ts";
import { doubtsOf } from "./doubts.ts";
import { GuardKeeper } from "./guard-keeper.ts";
import { NodeLeases } from "./leases.ts";
import { NodeNetwork } from "./node-network.ts";
import { backOff, WorkLoop } from "./work-loop.ts";
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
  const { nodeName, runDir, stateDir, guard: guardConfig } = config;
  await mkdir(runDir, { recursive: true });
  const lock = await tryLock(join(runDir, "sync.lock"));
  if (!lock) {
    throw new Error(`Cannot start: another "cni-ipip sync" serves the run directory "${runDir}"`);
  }
  const conditions = new Conditions(log);
  const store = new DiskLeases(join(stateDir, "leases"));
  const instance = await nodeInstance(stateDir);
  if (instance.setAside !== undefined) {
    log.warn({ setAside: instance.setAside }, "the instance id could not be read, this node has another one now");
  }
  const guard = await GuardKeeper.open({ runDir, how: guardConfig.attach, conditions, log });
  const netlink = Netlink.open();
  const leases = new NodeLeases({ config, store, netlink, conditions, log });
  const held = new HeldBlocks({
    nodeName,
    instance: instance.id,
    isReinstalled: instance.isNew || (await store.blocks()).length === 0,
    store,
    livePods: () => leases.livePods(),
    onRecovery: (recovery) => {
      log.info(recovery, "leases are recovered");
      conditions.set("leases", recovery.damaged.length === 0 ? undefined : recovery.damaged.join("; "));
    },
  });
  const workloads = new Workloads(runDir, log);
  const network = new NodeNetwork({ config, netlink, guard, workloads, held, conditions, log });
  const cluster = new ClusterView();
  const loop = new WorkLoop(() => conditions.attempt("network", () => network.completeDeferredWork(cluster)));
  const keeper = new BlockKeeper({
    config,
    instance: instance.id,
    held,
    store,
    claims: datastore.claims,
    onHeld: (holdings) => network.isBasedOn(holdings) || loop.schedule(),
    conditions,
    log,
  });
  let doubts = doubtsOf([]);
  // A loop of its own: what is written to a datastore may wait for it, the network must not.
  const blockLoop = new WorkLoop(async () => {
    const { succeeded, nextMs } = await keeper.keep(cluster, doubts, performance.now());
    blockLoop.scheduleIn(Math.min(nextMs, await leases.lookAfter(performance.now())));
    return succeeded;
  }, backOff);
  let isInSync = false;
  const schedule = () => {
    if (isInSync) {
      loop.schedule();
      blockLoop.schedule();
    }
  };
  const onKernelEvent = (event: NetlinkEvent) => {
    if (isInSync && network.matters(event)) {
      loop.schedule();
    }
    if (isInSync && isOfPod(event)) {
      blockLoop.scheduleIn(gatherPodsMs);
    }
  };

  await conditions.attempt("workloads", () => workloads.heal());
  await conditions.attempt("leases/former-boot", () => leases.endFormerBoot());
  await network.watchBeforeSnapshot();
  const kernel = monitor(onKernelEvent);
  await datastore.start({
    onUpdate: (update: Update) => cluster.onUpdate(update),
    onBatchEnd: schedule,
    onConditions: (found: readonly Condition[]) => {
      conditions.setFromDatastore(found);
      doubts = doubtsOf(found);
    },
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
      await blockLoop.stop();
      await loop.stop();
      netlink.close();
      guard.close();
      await lock.release();
    },
  };
}

/** Pods come in bursts, and each of their links tells of itself several times. */
const gatherPodsMs = 100;

/** The node's supply of addresses may be another one then. */
function isOfPod(event: NetlinkEvent): boolean {
  return event.kind === "overrun" || (event.kind === "link" && isPodLink(event.link));
}
