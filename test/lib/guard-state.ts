/** The guard of a node as the kernel has it, read from its pins as any other process can. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { BpfLink, BpfMap, BpfProgram } from "libbpf-ts";
import { decodeCounter, encodeUint32, type VerdictName, verdictNumbers } from "../../src/guard/layout.ts";

interface Node {
  readonly runDir: string;
}

const pinPath = "bpf/guard/v1";

/** @returns packets since the maps were made, over all CPUs and hooks */
export function verdictPackets({ runDir }: Node, verdict: VerdictName): number {
  using map = BpfMap.openPinned(join(runDir, pinPath, "maps/verdicts"));
  const counters = map.getPerCpu(encodeUint32(verdictNumbers[verdict])).map(decodeCounter);
  return Number(counters.reduce((sum, { packets }) => sum + packets, 0n));
}

/** By pin, such as "tcx-2" for the device with index 2: the ids of program and link, which a replacement changes. */
export function attachedPrograms({ runDir }: Node): Record<string, object> {
  const directory = join(runDir, pinPath, "links");
  const attached = readdirSync(directory).map((name) => [name, describe(name, join(directory, name))] as const);
  return Object.fromEntries(attached.sort(([one], [other]) => (one < other ? -1 : 1)));
}

function describe(name: string, path: string): object {
  if (name.startsWith("clsact")) {
    using program = BpfProgram.openPinned(path);
    return { programId: program.id };
  }
  using link = BpfLink.openPinned(path);
  return link.info();
}
