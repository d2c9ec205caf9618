/** How a runtime calls a plugin: CNI spec 1.1.0, section "Parameters". */
import { CniCode, CniError } from "./error.ts";
import { show } from "./show.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** A verb about one interface of one container. */
export interface AttachmentCall {
  readonly command: "ADD" | "DEL" | "CHECK";
  readonly containerId: string;
  /** Path of the container's network namespace; empty only for DEL, when the namespace is gone. */
  readonly networkNamespace: string;
  readonly interfaceName: string;
  /** CNI_ARGS as it came, for `parseArguments`. */
  readonly arguments: string;
  /** Directories with plugin programs: needed only to call another plugin, which misses them then. */
  readonly path: readonly string[];
}

/** A verb about the whole network. */
export interface NetworkCall {
  readonly command: "GC" | "STATUS";
  readonly path: readonly string[];
}

export interface VersionCall {
  readonly command: "VERSION";
}

export type CniCall = AttachmentCall | NetworkCall | VersionCall;

export type CniCommand = CniCall["command"];

/**
 * The variables that a verb cannot do without. The specification asks for CNI_PATH too, which only a plugin that calls
 * others needs.
 */
const required: Readonly<Record<CniCommand, readonly string[]>> = {
  ADD: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"],
  DEL: ["CNI_CONTAINERID", "CNI_IFNAME"],
  CHECK: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"],
  GC: [],
  STATUS: [],
  VERSION: [],
};

export const cniCommands = Object.keys(required) as readonly CniCommand[];

/** The kernel's IFNAMSIZ is 16 bytes with the closing zero. */
const interfaceNameBytes = 15;

/**
 * The kernel looks at single bytes by Latin-1, where this one is white space: it refuses "à", which is C3 A0. It takes "%" for
 * the place of a number, and makes another name than the one asked for.
 */
const noBreakSpace = 0xa0;

/**
 * Reads the CNI_* variables; an empty one counts as missing.
 *
 * @throws CniError with `InvalidEnvironment`, naming every missing variable at once
 */
export function parseEnvironment(environment: Environment): CniCall {
  const command = parseCommand(environment);
  const missing = missingFor(command, environment);
  if (missing.length > 0) {
    throw invalid(`Cannot run ${command}: missing ${missing.join(", ")}, needed are ${required[command].join(", ")}`);
  }
  const path = environment.CNI_PATH?.split(":").filter((directory) => directory !== "") ?? [];
  switch (command) {
    case "VERSION":
      return { command };
    case "GC":
    case "STATUS":
      return { command, path };
    default:
      return {
        command,
        path,
        containerId: checkContainerId(environment.CNI_CONTAINERID ?? ""),
        networkNamespace: environment.CNI_NETNS ?? "",
        interfaceName: checkInterfaceName(environment.CNI_IFNAME ?? ""),
        arguments: environment.CNI_ARGS ?? "",
      };
  }
}

function parseCommand(environment: Environment): CniCommand {
  const { CNI_COMMAND: value = "" } = environment;
  const allowed = cniCommands.join(", ");
  if (value === "") {
    // Nobody knows which verb was meant: what the one with the most needs misses helps most.
    const missing = ["CNI_COMMAND", ...missingFor("ADD", environment)];
    throw invalid(`Cannot run the plugin: missing ${missing.join(", ")}, allowed as CNI_COMMAND are ${allowed}`);
  }
  const command = cniCommands.find((known) => known === value);
  if (command === undefined) {
    throw invalid(`Cannot use CNI_COMMAND: ${show(value)}, allowed are ${allowed}`);
  }
  return command;
}

function missingFor(command: CniCommand, environment: Environment): string[] {
  return required[command].filter((name) => !environment[name]);
}

function checkContainerId(value: string): string {
  if (!/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(value)) {
    throw invalid(
      `Cannot use CNI_CONTAINERID: ${show(value)}, allowed are letters, digits, "_", "." and "-", a letter or digit first`,
    );
  }
  return value;
}

function checkInterfaceName(value: string): string {
  const bytes = Buffer.from(value);
  const isTooLong = bytes.length > interfaceNameBytes;
  const hasForbidden = /[/:%\s\p{Cc}]/u.test(value) || bytes.includes(noBreakSpace);
  if (isTooLong || hasForbidden || value === "." || value === ".." || !isText(value)) {
    throw invalid(
      `Cannot use CNI_IFNAME: ${show(value)}, allowed are 1 to ${interfaceNameBytes} bytes without "/", ":", "%", white space and control characters, not "." or ".."`,
    );
  }
  return value;
}

/** Bytes of the environment that are not UTF-8 arrive as replacement characters: the name that was meant is lost. */
function isText(value: string): boolean {
  return value.isWellFormed() && !value.includes("\uFFFD");
}

function invalid(message: string): CniError {
  return new CniError(CniCode.InvalidEnvironment, message);
}
