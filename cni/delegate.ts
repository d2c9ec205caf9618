/** Calls another plugin as a runtime would: CNI spec 1.1.0, section 4, "Plugin Delegation". */
import { access, constants, stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { CniCode, type CniCommand, CniError, type Environment } from "@containernetworking/cni-types-ts";
import { run } from "../src/exec.ts";
import type { Log } from "./log.ts";

export interface DelegateCall {
  /** The plugin's file name. */
  readonly type: string;
  /** That of our own call. Of it, only what the specification knows and PATH is passed on. */
  readonly environment: Environment;
  /** Directories with plugin programs. */
  readonly path: readonly string[];
  /** The text that we got ourselves. */
  readonly configuration: string;
  /** Ends the plugin; its reason is thrown then. */
  readonly signal: AbortSignal;
  /** The descriptor of a lock, which the plugin holds too: if we are killed, it is free when the plugin has ended. */
  readonly lock?: number;
  /** Gets what the plugin wrote to standard error. */
  readonly log?: Pick<Log, "info">;
}

/** Of what the plugin printed, in sentences and in the log. */
const shownCharacters = 200;

/** What a plugin leaves running may hold its output open; what is printed until then counts. */
const lingerMs = 200;

/** Answers have some hundred characters. */
const outputLimit = 4 * 1024 * 1024;

/**
 * @returns what the plugin printed; `undefined` when it printed nothing
 * @throws CniError: what the plugin reported, with its own code, message and details; `InvalidConfiguration` when there is
 *   no such plugin (the reference library says 999; not 4, which old plugins say of verbs that they do not know);
 *   `DecodingFailure` when it printed no JSON; `Internal` when it failed without a report
 */
export async function delegate(command: CniCommand, call: DelegateCall): Promise<unknown> {
  const { type, environment, configuration, signal, lock, log } = call;
  signal.throwIfAborted();
  const file = await findPlugin(type, call.path);
  const env = { ...passedOn(environment), CNI_COMMAND: command };
  try {
    const program = { file, args: [], env, onlyEnv: true, input: configuration, signal, outputLimit, lingerMs };
    const { stdout, stderr } = await run({ ...program, ...(lock === undefined ? {} : { descriptor: lock }) });
    if (stderr !== "") {
      log?.info({ plugin: type, command, stderr: shorten(stderr) }, "A plugin that was called wrote to standard error");
    }
    return answerOf(stdout, type, command);
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof CniError ? error : failureOf(type, command, error as Error);
  }
}

async function findPlugin(type: string, path: readonly string[]): Promise<string> {
  if (type !== basename(type)) {
    throw notFound(type, 'allowed is a file name without "/"');
  }
  for (const directory of path) {
    const file = resolve(directory, type); // a bare name would be looked for in PATH
    if (await isProgram(file)) {
      return file;
    }
  }
  throw notFound(type, `CNI_PATH is "${path.join(":")}", needed is a directory with a program of that name`);
}

function notFound(type: string, problem: string): CniError {
  return new CniError(CniCode.InvalidConfiguration, `Cannot find the plugin "${shorten(type)}": ${problem}`);
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

/** An error object is an error also with exit status 0: no result has its fields. */
function answerOf(stdout: string, type: string, command: CniCommand): unknown {
  if (stdout.trim() === "") {
    return undefined;
  }
  const answer = decode(stdout);
  if (answer === undefined) {
    const shown = JSON.stringify(shorten(stdout));
    throw new CniError(
      CniCode.DecodingFailure,
      `Cannot decode the answer to ${command} of the plugin "${type}": ${shown}, allowed is JSON`,
    );
  }
  const reported = CniError.fromResult(answer);
  if (reported !== undefined) {
    throw reported;
  }
  return answer;
}

function failureOf(type: string, command: CniCommand, error: Error): CniError {
  const { stdout, stderr, exitCode, signal, isMaxBuffer } = error.cause as {
    readonly stdout?: unknown;
    readonly stderr?: unknown;
    readonly exitCode?: number;
    readonly signal?: string;
    readonly isMaxBuffer?: boolean;
  };
  const reported = CniError.fromResult(decode(String(stdout ?? "")));
  if (reported !== undefined) {
    return reported;
  }
  const details = shorten(String(stderr ?? "").trim());
  return new CniError(CniCode.Internal, `Cannot ${command} by the plugin "${type}": ${ending()}`, {
    ...(details === "" ? {} : { details }),
    cause: error,
  });

  function ending(): string {
    if (isMaxBuffer) {
      return `it printed more than ${outputLimit} characters, the limit`;
    }
    if (signal !== undefined) {
      return `killed by ${signal} and no error object`;
    }
    return exitCode === undefined ? "it does not start" : `exit status ${exitCode} and no error object`;
  }
}

/** @returns `undefined` for what is not JSON */
function decode(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function shorten(text: string): string {
  return text.length <= shownCharacters ? text : `${text.slice(0, shownCharacters)}…`;
}
