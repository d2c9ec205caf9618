/** From a runtime's call to the answer it gets, without touching the process: the same serves a socket. */
import {
  type AttachmentCall,
  type CniCall,
  CniCode,
  CniError,
  convertResult,
  type Environment,
  newestVersion,
  parseEnvironment,
} from "@containernetworking/cni-types-ts";
import { namedAttachment, plainAttachment } from "./attachment.ts";
import { parseConfiguration } from "./config.ts";
import type { Host } from "./host.ts";
import { version } from "./version.ts";

export interface CniRequest {
  readonly environment: Environment;
  /** What the runtime wrote to standard input. It can hold tokens: never logged. */
  readonly configuration: string;
}

export interface CniResponse {
  readonly exitCode: 0 | 1;
  /** For standard output: one JSON object, or nothing. */
  readonly output: string;
}

/** Never throws: a failure is an answer too. */
export async function dispatch(request: CniRequest, log: Host["log"]): Promise<CniResponse> {
  try {
    const answer = await run(parseEnvironment(request.environment), request.configuration, log);
    return { exitCode: 0, output: answer === undefined ? "" : JSON.stringify(answer) };
  } catch (error) {
    const result = CniError.from(error).toResult(callerVersion(request.configuration));
    return { exitCode: 1, output: JSON.stringify(result) };
  }
}

async function run(call: CniCall, configuration: string, log: Host["log"]): Promise<object | undefined> {
  switch (call.command) {
    case "ADD":
      return runAdd(call, configuration, log);
    case "DEL":
      return runDel(call, configuration, log);
    case "VERSION":
      return version(callerVersion(configuration));
    default:
      throw new CniError(
        CniCode.InvalidEnvironment,
        `Cannot use CNI_COMMAND: "${call.command}", allowed are ADD, DEL, VERSION`,
      );
  }
}

async function runAdd(call: AttachmentCall, configuration: string, log: Host["log"]): Promise<object> {
  const config = parseConfiguration(configuration);
  const attachment = namedAttachment(call, config.name);
  // Loaded only now: reading netlink's tables takes as long as the rest of a start, and VERSION does not need them.
  const [{ add }, { openHost }] = await Promise.all([import("./add.ts"), import("./host.ts")]);
  const host = openHost(config, log);
  try {
    const result = await add({ attachment, networkNamespace: call.networkNamespace, config }, host);
    return convertResult(result, config.cniVersion);
  } finally {
    host.netlink.close();
  }
}

async function runDel(call: AttachmentCall, configuration: string, log: Host["log"]): Promise<undefined> {
  const config = parseConfiguration(configuration);
  const [{ del }, { openHost }] = await Promise.all([import("./del.ts"), import("./host.ts")]);
  const host = openHost(config, log);
  try {
    await del(plainAttachment(call, config.name), host);
  } finally {
    host.netlink.close();
  }
}

/** The version to answer in, also when the configuration cannot be used. */
function callerVersion(configuration: string): string {
  try {
    const { cniVersion } = JSON.parse(configuration);
    return typeof cniVersion === "string" ? cniVersion : newestVersion;
  } catch {
    return newestVersion;
  }
}
