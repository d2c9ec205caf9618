/** `npm run demo`: plays a small cluster in namespaces, on this kernel or in a small machine with one that has ipip. */
import { release } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { assetPath } from "../../src/assets.ts";
import { run } from "../../src/exec.ts";
import { hasIpip } from "../lib/ipip.ts";
import { inSandbox } from "../lib/sandbox.ts";
import { exitOnSignals } from "../lib/signals.ts";
import { runInMachine } from "../vm/machine/boot.ts";
import { fetchKernel } from "../vm/machine/kernels.ts";
import { startTicking } from "./ticker.ts";

/** Generous: the play takes about a minute in an emulated machine on two idle cores. */
const LIMIT_MS = 10 * 60_000;

async function main(): Promise<number> {
  const play = { file: assetPath("node"), args: [await bundle()] };
  if (await hasIpip()) {
    console.log(`This kernel, ${release()}, makes ipip devices: the demo runs in network namespaces on it.`);
    return (await run({ ...inSandbox(play), inheritOutput: true, okExitCodes: [1] })).exitCode;
  }
  console.log(
    `This kernel, ${release()}, has no ipip: the demo runs in an emulated machine with Debian's kernel 6.12.`,
  );
  const stopTickingForFetch = startTicking();
  const kernel = await fetchKernel("6.12", (line) => console.log(line)).finally(stopTickingForFetch);
  console.log("It starts in 10 to 20 s.");
  const stopTicking = startTicking();
  const { exitCode } = await runInMachine({
    kernel,
    command: [play.file, ...play.args],
    workingDirectory: process.cwd(),
    timeoutMs: LIMIT_MS,
    onOutput: (text) => {
      stopTicking();
      process.stdout.write(text);
    },
  }).finally(stopTicking);
  return exitCode;
}

/**
 * One file instead of some hundred: in an emulated machine that saves 10 s. It lies in dist/ because the libraries
 * that it loads do.
 */
async function bundle(): Promise<string> {
  const outfile = assetPath("demo.mjs");
  await build({
    entryPoints: [join(import.meta.dirname, "play.ts")],
    outfile,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node24",
    external: ["*.node"],
    banner: {
      js: 'import { createRequire as bundled } from "node:module"; const require = bundled(import.meta.url);',
    },
    logLevel: "warning",
  });
  return outfile;
}

exitOnSignals();
try {
  process.exitCode = await main();
} catch (error) {
  console.error(`✗ ${(error as Error).message}`);
  process.exitCode = 1;
}
