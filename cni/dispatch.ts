/** From a runtime's call to the answer it gets, without touching the process: the same serves a socket. */
import {
  type AttachmentCall,
  type CniCall,
  CniError,
  type Environment,
  type NetworkCall,
  newestVersion,
  oldestVersion,
  parseArguments,
  parseEnvironment,
  requireVersionFor,
  validAttachments,
} from "@containernetworking/cni-types-ts";
import type { Lock } from "../src/linux/lock.ts";
import { knownArguments, namedAttachment, plainAttachment } from "./attachment.ts";
import { ownIpam, type PluginConfiguration, parseConfiguration, parseRemovalConfiguration } from "./config.ts";
import type { Host } from "./host.ts";
import type { Ipam } from "./ipam.ts";
import { type Log, openLog } from "./log.ts";
import { version } from "./version.ts";
import { wishesOf } from "./wishes.ts";

export interface CniRequest {
  readonly environment: Environment;
  /** What the runtime wrote to standard input. It can hold tokens: never logged. */
  readonly configuration: string;
  /** Ends the work, and an ADD takes back what it made; its reason is the error that is answered. */
  readonly signal: AbortSignal;
}

export interface CniResponse {
  readonly exitCode: 0 | 1;
  /** For standard output: one JSON object, or nothing. */
  readonly output: string;
  /** Whether the call was an ADD that made something: nobody would remove it if nobody hears of it. */
  readonly isNew: boolean;
}

/** Changes the node that the verbs act on: tests end the process between its steps. */
export type WrapHost = (host: Host) => Host;

/** Never throws: a failure is an answer too. */
export async function dispatch(request: CniRequest, wrapHost: WrapHost = (host) => host): Promise<CniResponse> {
  try {
    return { exitCode: 0, ...(await run(parseEnvironment(request.environment), request, wrapHost)) };
  } catch (error) {
    const result = CniError.from(error).toResult(callerVersion(request.configuration));
    return { exitCode: 1, output: JSON.stringify(result), isNew: false };
  }
}

type Done = Omit<CniResponse, "exitCode">;

const nothingToSay: Done = { output: "", isNew: false };

async function run(call: CniCall, request: CniRequest, wrapHost: WrapHost): Promise<Done> {
  if (call.command === "VERSION") {
    return { output: JSON.stringify(version(callerVersion(request.configuration))), isNew: false };
  }
  const parse = call.command === "DEL" ? parseRemovalConfiguration : parseConfiguration;
  const config = parse(request.configuration);
  requireVersionFor(call.command, config.cniVersion);
  const log = openLog(config.log);
  const began = performance.now();
  try {
    const done = await runOnHost(call, config, { ...request, log, wrapHost });
    log.info({ ...subject(call, config), ms: Math.round(performance.now() - began) }, `${call.command} done`);
    return done;
  } catch (error) {
    const { code, message, details } = CniError.from(error);
    log.error({ ...subject(call, config), code, details }, message);
    throw error;
  } finally {
    await log.flush();
  }
}

async function runOnHost(
  call: AttachmentCall | NetworkCall,
  config: PluginConfiguration,
  { log, wrapHost, ...request }: CniRequest & { readonly log: Log; readonly wrapHost: WrapHost },
): Promise<Done> {
  // Loaded only now: reading netlink's tables takes as long as the rest of a start, and VERSION does not need them.
  const [{ openHost, closeHost }, { ipamOf }] = await Promise.all([import("./host.ts"), import("./ipam.ts")]);
  const host = wrapHost(openHost(config, log));
  try {
    const ipam = (lock?: Lock) =>
      ipamOf(config, host.leases, {
        ...request,
        path: call.path,
        log,
        nodeAddresses: async () => (await host.netlink.addresses()).map(({ address }) => address),
        ...(lock && { lock: lock.fd }),
      });
    return await runVerb({ call, config, ipam, signal: request.signal }, host);
  } finally {
    closeHost(host);
  }
}

interface Verb<Call extends CniCall> {
  readonly call: Call;
  readonly config: PluginConfiguration;
  /** @param lock the container's, where the call is about one */
  readonly ipam: (lock?: Lock) => Ipam;
  readonly signal: AbortSignal;
}

async function runVerb({ call, ...verb }: Verb<AttachmentCall | NetworkCall>, host: Host): Promise<Done> {
  switch (call.command) {
    case "ADD":
    case "CHECK":
    case "DEL":
      return runLocked({ call, ...verb }, host);
    case "GC": {
      const { config, signal } = verb;
      const { gc } = await import("./gc.ts");
      await gc({ network: config.name, valid: validAttachments(config), ipam: verb.ipam(), signal }, host);
      return nothingToSay;
    }
    case "STATUS": {
      const { runDir, stateDir } = verb.config;
      const { status } = await import("./status.ts");
      const ipam = verb.ipam();
      await status(ipam.type === ownIpam ? [runDir, stateDir] : [runDir], ipam, host);
      return nothingToSay;
    }
  }
}

async function runLocked({ call, config, ipam, signal }: Verb<AttachmentCall>, host: Host): Promise<Done> {
  const { lockContainer } = await import("./container-lock.ts");
  const lock = await lockContainer(config.runDir, call.containerId, signal);
  try {
    return await runAttachmentVerb({ call, config, ipam: ipam(lock), signal }, host);
  } finally {
    await lock.release();
  }
}

async function runAttachmentVerb(
  { call, config, ipam, signal }: Omit<Verb<AttachmentCall>, "ipam"> & { readonly ipam: Ipam },
  host: Host,
): Promise<Done> {
  const { networkNamespace } = call;
  switch (call.command) {
    case "ADD": {
      const attachment = namedAttachment(call, config.name);
      const wishes = wishesOf(config, parseArguments(call.arguments, knownArguments));
      const { add } = await import("./add.ts");
      const request = { attachment, networkNamespace, config, ipam, wishes, signal };
      const { answer: output, isNew } = await add(request, host);
      return { output, isNew };
    }
    case "CHECK": {
      const attachment = namedAttachment(call, config.name);
      const { check } = await import("./check.ts");
      await check({ attachment, networkNamespace, config, ipam }, host);
      return nothingToSay;
    }
    case "DEL": {
      const attachment = plainAttachment(call, config.name);
      const { del } = await import("./del.ts");
      await del(attachment, ipam, host);
      return nothingToSay;
    }
  }
}

function subject(call: AttachmentCall | NetworkCall, { name: network }: PluginConfiguration): object {
  return "containerId" in call
    ? { network, containerId: call.containerId, interfaceName: call.interfaceName }
    : { network };
}

/** Longer ones are no versions: an answer must stay short. */
const versionCharacters = 20;

/** The version to answer in, also when the configuration cannot be used. A missing one is the oldest, and so is "". */
function callerVersion(configuration: string): string {
  try {
    const { cniVersion = oldestVersion } = JSON.parse(configuration);
    const isEchoed = typeof cniVersion === "string" && cniVersion.length <= versionCharacters;
    return isEchoed ? cniVersion || oldestVersion : newestVersion;
  } catch {
    return newestVersion;
  }
}
