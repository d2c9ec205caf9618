/** The node that the verbs act on. */
import { join } from "node:path";
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { DiskLeases } from "../src/ipam/disk-leases.ts";
import { Pool } from "../src/ipam/pool.ts";
import { Netlink } from "../src/netlink/netlink.ts";
import { type NodeState, nodeStatePath, readNodeState } from "../src/node-state.ts";
import type { PluginConfiguration } from "./config.ts";

export interface Host {
  /** Links and routes of the node's namespace. */
  readonly netlink: Netlink;
  readonly leases: Pool;
  readonly runDir: string;
  /** Takes a sentence for the operator. */
  readonly log: (sentence: string) => void;
}

/** The node whose network namespace the calling thread is in. Close its `netlink` when done. */
export function openHost({ runDir, stateDir }: PluginConfiguration, log: Host["log"]): Host {
  return {
    netlink: Netlink.open(),
    leases: new Pool(new DiskLeases(join(stateDir, "leases"))),
    runDir,
    log,
  };
}

/** @throws CniError with `TryAgainLater` while sync has not told what this node has */
export async function requireNodeState({ runDir }: Host): Promise<NodeState> {
  const state = await readNodeState(runDir);
  if (state === undefined) {
    throw new CniError(
      CniCode.TryAgainLater,
      `Cannot add to the network yet: "${nodeStatePath(runDir)}" does not exist, sync has not finished its first snapshot on this node`,
    );
  }
  return state;
}
