/** The guard's counters of a lab's node, read from its pinned map as any other process can. */
import { join } from "node:path";
import { BpfMap } from "libbpf-ts";
import { decodeCounter, encodeUint32, type VerdictName, verdictNumbers } from "../../src/guard/layout.ts";
import type { LabNode } from "./lab-node.ts";

/** @returns packets since the maps were made, over all CPUs and hooks */
export function verdictPackets(node: LabNode, verdict: VerdictName): number {
  using map = BpfMap.openPinned(join(node.runDir, "bpf/host-net-guard/v1/maps/verdicts"));
  const counters = map.getPerCpu(encodeUint32(verdictNumbers[verdict])).map(decodeCounter);
  return Number(counters.reduce((sum, { packets }) => sum + packets, 0n));
}
