/** Brings this node's guards into the kernel: what sync does before anything else. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { assetPath } from "../assets.ts";
import { ensureBpffs } from "../linux/bpffs.ts";
import { HostNetGuard } from "./guard.ts";
import { guardPinDirectory } from "./pins.ts";

/** The objects share their maps, so they are loaded as one. */
const objects = ["host_net_guard", "workload_guard"] as const;

/**
 * Pins the guards under the run directory, or takes over what is pinned there. The workload guard is then found by
 * `WorkloadGuard.openPinned`.
 *
 * @throws BpfError when the kernel refuses a program, or a pinned map has another shape
 */
export async function loadGuards(runDir: string): Promise<HostNetGuard> {
  await ensureBpffs(join(runDir, "bpf"));
  const images = await Promise.all(objects.map((name) => readFile(assetPath(`bpf/${name}.bpf.o`))));
  return HostNetGuard.open({ pinDirectory: guardPinDirectory(runDir), images });
}
