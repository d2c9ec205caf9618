/** The CNI plugin as a process: called by a container runtime, which reads one JSON object from standard output. */
import { text } from "node:stream/consumers";
import { dispatch } from "./dispatch.ts";

const request = { environment: process.env, configuration: await text(process.stdin) };
const { exitCode, output } = await dispatch(request, (sentence) => process.stderr.write(`${sentence}\n`));
process.stdout.write(output === "" ? "" : `${output}\n`);
process.exitCode = exitCode;
