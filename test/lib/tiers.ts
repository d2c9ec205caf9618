/** The test tiers: where each runs and how. */
import { join } from "node:path";
import { type Command, run } from "../../src/exec.ts";
import { EXCHANGE, runInMachine } from "../vm/machine/boot.ts";
import { fetchKernel, KERNEL_NAMES, type KernelName } from "../vm/machine/kernels.ts";
import { hasIpip } from "./ipip.ts";
import { inRuntimeSandbox } from "./runtime-sandbox.ts";
import { inSandbox } from "./sandbox.ts";
import { Scratch } from "./scratch.ts";
import { readReport, type Tally } from "./tally.ts";

export const TIERS = ["unit", "kernel", "clients", "vm"] as const;
export type Tier = (typeof TIERS)[number];

export interface TierResult extends Tally {
  /** The tier, with the kernel where there is a choice. */
  readonly title: string;
  /** Why the tier could not run; it then counts as one failed test. */
  readonly reason?: string;
}

const ROOT = join(import.meta.dirname, "../..");
const REPORT = "report.json";
/**
 * Test files of the kernel tier that run on every stock kernel too, since a verifier or map may answer otherwise there.
 * Those that start many programs are left out: emulated, a program takes up to 10 s to start.
 */
const ON_EVERY_KERNEL = ["test/kernel/guard/decision", "test/kernel/guard/sets", "test/kernel/guard/workload-decision"];
/** The whole tier on one emulated kernel. */
const MACHINE_LIMIT_MS = 12 * 60_000;

export async function runTier(tier: Tier): Promise<TierResult[]> {
  switch (tier) {
    case "unit":
      return [await result("unit", (directory) => runHere(jest(["unit"], directory)))];
    case "kernel":
      return [await result("kernel", (directory) => runHere(inSandbox(jest(["kernel"], directory))))];
    case "clients":
      return [await result("clients", (directory) => runHere(inRuntimeSandbox(jest(["clients"], directory))))];
    case "vm":
      return runVmTier();
  }
}

/** On each stock kernel, and on the running one where that has ipip. */
async function runVmTier(): Promise<TierResult[]> {
  const results: TierResult[] = [];
  if (await hasIpip()) {
    const run = (directory: string) => runHere(inSandbox(jest(["vm"], directory)));
    results.push(await result("vm (running kernel)", run));
  }
  for (const kernel of KERNEL_NAMES) {
    results.push(await result(`vm (${kernel})`, (directory) => runInside(kernel, directory)));
  }
  return results;
}

/** Runs jest, given a directory for its report, and counts. */
async function result(title: string, runJest: (directory: string) => Promise<number>): Promise<TierResult> {
  console.log(`\n== ${title} ==`);
  using scratch = new Scratch("tier");
  try {
    const exitCode = await runJest(scratch.path);
    return { title, ...(await readReport(join(scratch.path, REPORT), exitCode)) };
  } catch (error) {
    return { title, passed: 0, failed: 1, skipped: 0, reason: (error as Error).message };
  }
}

async function runHere(command: Command): Promise<number> {
  const { exitCode } = await run({ ...command, inheritOutput: true, okExitCodes: [1] });
  return exitCode;
}

async function runInside(name: KernelName, directory: string): Promise<number> {
  const { file, args, env = {} } = jest(["vm", "kernel"], EXCHANGE, ["test/vm/", ...ON_EVERY_KERNEL]);
  const { exitCode } = await runInMachine({
    kernel: await fetchKernel(name, (line) => console.log(line)),
    command: [file, ...args],
    // A program that takes 20 ms elsewhere takes a quarter of a second here.
    environment: { ...env, CNI_IPIP_REPAIR_LIMIT_MS: "1000" },
    workingDirectory: ROOT,
    timeoutMs: MACHINE_LIMIT_MS,
    exchange: directory,
    onOutput: (text) => process.stdout.write(text),
  });
  return exitCode;
}

/**
 * Jest for some projects of the configuration, and of these for files that match a pattern if any is given, with its
 * report in a directory. Only unit tests may run side by side.
 */
function jest(projects: readonly string[], directory: string, patterns: readonly string[] = []): Command {
  return {
    file: process.execPath,
    args: [
      join(ROOT, "node_modules/jest/bin/jest.js"),
      ...["--config", join(ROOT, "test/jest.config.mjs"), "--selectProjects", ...projects],
      ...["--json", "--outputFile", join(directory, REPORT)],
      ...(projects.includes("unit") ? [] : ["--runInBand"]),
      ...patterns.flatMap((pattern) => ["--testPathPatterns", pattern]),
    ],
    env: { NODE_OPTIONS: "--experimental-vm-modules --disable-warning=ExperimentalWarning" },
    cwd: ROOT,
  };
}
