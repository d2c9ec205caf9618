/** Loads the native addon and turns its errno values into errors. */
import { createRequire } from "node:module";
import { getSystemErrorMessage, getSystemErrorName } from "node:util";
import { assetPath } from "../assets.ts";

interface Addon {
  setNetworkNamespace(fd: number): number;
  lockExclusively(fd: number): number;
  lockByte(fd: number, offset: number): number;
  unlockBytes(fd: number): number;
  mountBpffs(target: string): number;
  netlinkPort(fd: number): number;
  ignoreOverrun(fd: number): number;
  droppedMessages(fd: number): number;
}

let loaded: Addon | undefined;

/** Loaded with the first use: most of what is built on it does without in most cases. */
export function addon(): Addon {
  loaded ??= createRequire(import.meta.url)(assetPath("linux.node")) as Addon;
  return loaded;
}

/** An error in the shape of Node's own system errors: `code` is the errno's name, `errno` its negative value. */
export function systemError(action: string, errno: number): NodeJS.ErrnoException {
  const error: NodeJS.ErrnoException = new Error(`Cannot ${action}: ${getSystemErrorMessage(-errno)}`);
  error.errno = -errno;
  error.code = getSystemErrorName(-errno);
  return error;
}
