/** Calls another plugin as a runtime would: CNI spec 1.1.0, section 4, "Plugin Delegation". */
import { access, constants, stat } from "node:fs/promises";
import { join } from "node:path";
import { CniCode, type CniCommand, CniError, type Environment } from "@containernetworking/cni-types-ts";
import { run } from "../src/exec.ts";

export interface DelegateCall {
  /** The plugin's file name. */
  readonly type: string;
  /** That of our own call. Of it, only what the specification knows and PATH is passed on. */
  readonly environment: Environment;
  /** Directories with plugin programs. */
  readonly path: readonly string[];
  /** The text that we got ourselves. */
  readonly configuration: string;
  /** Ends the plugin. */
  readonly signal: AbortSignal;
}

/** Of a plugin that fails without saying why, in characters. */
const longestOutput = 200;

/**
 * @returns what the plugin printed; `undefined` when it printed nothing
 * @throws CniError: what the plugin reported, with its own code, message and details; `InvalidEnvironment` when there is no
 *   such plugin; `DecodingFailure` when it printed no JSON; `Internal` when it failed without a report
 */
export async function delegate(command: CniCommand, call: DelegateCall): Promise<unknown> {
  const { type, environment, configuration, signal } = call;
  const file = await findPlugin(type, call.path);
  try {
    const env = { ...passedOn(environment), CNI_COMMAND: command };
    const { stdout } = await run({ file, args: [], env, onlyEnv: true, input: configuration, signal });
    return stdout.trim() === "" ? undefined : decode(stdout, `${command} of the plugin "${type}"`);
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof CniError ? error : failureOf(type, command, error as Error);
  }
}

async function findPlugin(type: string, path: readonly string[]): Promise<string> {
  for (const directory of path) {
    const file = join(directory, type);
    if (await isProgram(file)) {
      return file;
    }
  }
  throw new CniError(
    CniCode.InvalidEnvironment,
    `Cannot find the plugin "${type}": CNI_PATH is "${path.join(":")}", needed is a directory with a program of that name`,
  );
}

async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}

function passedOn(environment: Environment): Record<string, string> {
  const isPassedOn = (name: string) => name.startsWith("CNI_") || name === "PATH";
  const entries = Object.entries(environment).filter(([name, value]) => isPassedOn(name) && value !== undefined);
  return Object.fromEntries(entries) as Record<string, string>;
}

function failureOf(type: string, command: CniCommand, error: Error): CniError {
  const { stdout, stderr, exitCode, signal } = error.cause as {
    readonly stdout?: unknown;
    readonly stderr?: unknown;
    readonly exitCode?: number;
    readonly signal?: string;
  };
  const reported = tryDecode(String(stdout ?? ""));
  if (reported !== undefined) {
    return reported;
  }
  const end = signal === undefined ? `exit status ${exitCode ?? "unknown"}` : `killed by ${signal}`;
  const details = String(stderr ?? "").slice(0, longestOutput);
  return new CniError(CniCode.Internal, `Cannot ${command} by the plugin "${type}": ${end} and no error object`, {
    ...(details === "" ? {} : { details }),
    cause: error,
  });
}

function tryDecode(text: string): CniError | undefined {
  try {
    return CniError.fromResult(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function decode(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    const shown = JSON.stringify(text.slice(0, longestOutput));
    throw new CniError(CniCode.DecodingFailure, `Cannot decode the answer to ${what}: ${shown}, allowed is JSON`);
  }
}
