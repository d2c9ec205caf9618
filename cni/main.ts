/** The CNI plugin as a process: called by a container runtime, which reads one JSON object from standard output. */
import { text } from "node:stream/consumers";
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { type CniRequest, dispatch } from "./dispatch.ts";

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
const isHeard = await print(output);
if (!isHeard && isNew) {
  // Nobody knows of the interface, so nobody would ever remove it.
  const { signal } = new AbortController(); // also where the runtime has told us to stop
  await dispatch({ ...request, environment: { ...process.env, CNI_COMMAND: "DEL" }, signal });
}
process.exitCode = isHeard ? exitCode : 1;

/** @returns whether somebody read it, as far as a pipe can tell */
async function print(line: string): Promise<boolean> {
  process.stdout.on("error", () => {}); // the callback gets it too
  return line === "" || new Promise((resolve) => process.stdout.write(`${line}\n`, (error) => resolve(!error)));
}
