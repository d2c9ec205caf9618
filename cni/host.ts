/** The node that the verbs act on. */
import { join } from "node:path";
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { guardPinDirectory } from "../src/guard/pins.ts";
import { WorkloadGuard } from "../src/guard/workload-guard.ts";
import { DiskLeases } from "../src/ipam/disk-leases.ts";
import { Pool } from "../src/ipam/pool.ts";
import { ensureSysctl } from "../src/linux/sysctl.ts";
import { Netlink } from "../src/netlink/netlink.ts";
import { type NodeState, nodeStatePath, readNodeState } from "../src/node-state.ts";
import { EndpointStore } from "../src/workload/endpoint-store.ts";
import type { PluginConfiguration } from "./config.ts";
import type { Log } from "./log.ts";
import { type Step, step } from "./step.ts";

/** All that the verbs change, they change by this. */
export interface Host {
  /** Links and routes of the node's namespace. */
  readonly netlink: Netlink;
  /** The same of the namespace that the calling thread is in at that moment. */
  readonly openNetlink: () => Netlink;
  /** A setting of the node's namespace. @param key as a path below /proc/sys/net */
  readonly setSysctl: (key: string, value: number) => void;
  readonly leases: Pool;
  readonly endpoints: EndpointStore;
  /** Absent while sync has not loaded it. */
  readonly guard: WorkloadGuard | undefined;
  readonly runDir: string;
  readonly step: Step;
  readonly log: Pick<Log, "info" | "warn" | "error">;
}

/** The node whose network namespace the calling thread is in. Close it when done. */
export function openHost(
  { runDir, stateDir }: Pick<PluginConfiguration, "runDir" | "stateDir">,
  log: Host["log"],
): Host {
  return {
    netlink: Netlink.open(),
    openNetlink: () => Netlink.open(),
    setSysctl: ensureSysctl,
    leases: new Pool(new DiskLeases(join(stateDir, "leases"))),
    endpoints: new EndpointStore(runDir),
    guard: WorkloadGuard.openPinned(guardPinDirectory(runDir)),
    runDir,
    step,
    log,
  };
}

export function closeHost({ netlink, guard }: Host): void {
  netlink.close();
  guard?.close();
}

/** @throws CniError with `TryAgainLater` while sync has not told what this node has */
export async function requireNodeState({ runDir }: Pick<Host, "runDir">): Promise<NodeState> {
  const state = await readNodeState(runDir);
  if (state === undefined) {
    throw new CniError(
      CniCode.TryAgainLater,
      `Cannot add to the network yet: "${nodeStatePath(runDir)}" does not exist, sync is not ready for pods, as its log tells, or has another runDir`,
    );
  }
  return state;
}

/** @throws CniError with `TryAgainLater` while sync has not loaded what checks the packets that pods send */
export function requireGuard({ guard, runDir }: Pick<Host, "guard" | "runDir">): WorkloadGuard {
  if (guard?.canProtect !== true) {
    throw new CniError(
      CniCode.TryAgainLater,
      `Cannot add to the network yet: the workload guard is not in "${guardPinDirectory(runDir)}", sync has not loaded it on this node`,
    );
  }
  return guard;
}
