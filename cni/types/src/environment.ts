/** How a runtime calls a plugin: CNI spec 1.1.0, section "Parameters". */
import { CniCode, CniError } from "./error.ts";

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

/** The variables that a verb cannot do without. */
const required: Readonly<Record<CniCommand, readonly string[]>> = {
  ADD: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"],
  DEL: ["CNI_CONTAINERID", "CNI_IFNAME"],
  CHECK: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"],
  GC: ["CNI_PATH"],
  STATUS: [],
  VERSION: [],
};

export const cniCommands = Object.keys(required) as readonly CniCommand[];

/** The kernel's IFNAMSIZ is 16 bytes with the closing zero. */
const interfaceNameBytes = 15;

/**
 * Reads the CNI_* variables; an empty one counts as missing.
 *
 * @throws CniError with `InvalidEnvironment`, naming every missing variable at once
 */
export function parseEnvironment(environment: Environment): CniCall {
  const command = parseCommand(environment.CNI_COMMAND);
  const missing = required[command].filter((name) => !environment[name]);
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

function parseCommand(value = ""): CniCommand {
  const command = cniCommands.find((known) => known === value);
  if (command === undefined) {
    throw invalid(`Cannot use CNI_COMMAND: "${value}", allowed are ${cniCommands.join(", ")}`);
  }
  return command;
}

function checkContainerId(value: string): string {
  if (!/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(value)) {
    throw invalid(
      `Cannot use CNI_CONTAINERID: "${value}", allowed are letters, digits, "_", "." and "-", a letter or digit first`,
    );
  }
  return value;
}

function checkInterfaceName(value: string): string {
  const tooLong = Buffer.byteLength(value) > interfaceNameBytes;
  if (tooLong || value === "." || value === ".." || /[/:\s\p{Cc}]/u.test(value)) {
    throw invalid(
      `Cannot use CNI_IFNAME: "${value}", allowed are 1 to ${interfaceNameBytes} bytes without "/", ":" and white space, not "." or ".."`,
    );
  }
  return value;
}

function invalid(message: string): CniError {
  return new CniError(CniCode.InvalidEnvironment, message);
}
