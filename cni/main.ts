/** The CNI plugin as a process: called by a container runtime, which reads one JSON object from standard output. */
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { type CniRequest, dispatch } from "./dispatch.ts";

/** How long a runtime that has told us to stop may take to read the answer. */
const patienceMs = 200;

const { CNI_COMMAND: command = "" } = process.env;
const configuration = await text(process.stdin);
// Not before: until here nothing was made, and who never ends our input can still end us.
const ending = new AbortController();
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
  process.on(signal, () => {
    ending.abort(new CniError(CniCode.TryAgainLater, `Cannot finish ${command}: stopped by ${signal}`));
  });
}

const request: CniRequest = { environment: process.env, configuration, signal: ending.signal };
const { exitCode, output, isNew } = await dispatch(request);
const isHeard = output === "" || (await print(output, ending.signal));
if (!isHeard && isNew) {
  // Nobody knows of the interface, so nobody would ever remove it.
  const { signal } = new AbortController(); // also where the runtime has told us to stop
  await dispatch({ ...request, environment: { ...process.env, CNI_COMMAND: "DEL" }, signal });
}
process.exit(isHeard ? exitCode : 1); // a write that waits for its reader would keep the process

/** @returns whether somebody read it, as far as a pipe can tell; `false` when it is full and the runtime has told us to stop */
function print(line: string, signal: AbortSignal): Promise<boolean> {
  process.stdout.on("error", () => {}); // the callback gets it too
  const written = new Promise<boolean>((resolve) => process.stdout.write(`${line}\n`, (error) => resolve(!error)));
  return Promise.race([written, patienceEnds(signal).then(() => false)]);
}

/** Later than a pipe with room takes the answer, which tells a runtime that it has stopped us. */
async function patienceEnds(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) {
    await once(signal, "abort");
  }
  await setTimeout(patienceMs);
}
