/** A network namespace that the calling thread can step into. */
import { closeSync, constants, openSync } from "node:fs";
import { open, stat } from "node:fs/promises";
import { addon, systemError } from "./addon.ts";

export class NetworkNamespace {
  readonly path: string;
  readonly fd: number;
  readonly #handle: Awaited<ReturnType<typeof open>>;

  /**
   * Opens the namespace behind a path such as `/run/netns/blue` or `/proc/1234/ns/net`.
   *
   * Asynchronous on purpose: Node creates its thread pool on first use, in the namespace that the main thread is in
   * at that moment, and there it stays for ever. Whoever holds a NetworkNamespace has used the pool at home already.
   *
   * @throws an error with code ENOENT when nothing is there, EINVAL (from `enter`) when it is not a namespace
   */
  static async open(path: string): Promise<NetworkNamespace> {
    // Without O_NONBLOCK a named pipe in the place of a namespace would be waited for without end.
    return new NetworkNamespace(path, await open(path, constants.O_RDONLY | constants.O_NONBLOCK));
  }

  private constructor(path: string, handle: Awaited<ReturnType<typeof open>>) {
    this.path = path;
    this.fd = handle.fd;
    this.#handle = handle;
  }

  /**
   * Runs a synchronous action inside the namespace and comes back. Nothing in the action may await, spawn a process or
   * start a Worker: those would go on in the wrong namespace. Where the way back fails the process aborts, since
   * nothing it would do afterwards is safe.
   */
  enter<T>(action: () => T): T {
    const home = openSync("/proc/thread-self/ns/net", constants.O_RDONLY);
    try {
      const errno = addon().setNetworkNamespace(this.fd);
      if (errno !== 0) {
        throw systemError(`enter the network namespace "${this.path}"`, errno);
      }
      try {
        return action();
      } finally {
        if (addon().setNetworkNamespace(home) !== 0) {
          process.abort();
        }
      }
    } finally {
      closeSync(home);
    }
  }

  /** As `namespaceId`, of what was opened. */
  async id(): Promise<string> {
    return idOf(await this.#handle.stat({ bigint: true }));
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

/** Codes of errno(3): nothing is at the path, or it led through a process that has ended. */
const goneCodes: readonly unknown[] = ["ENOENT", "ENOTDIR", "ESRCH"];

/**
 * What tells a namespace from all others that exist at the moment, whatever path leads to it: see ioctl_ns(2).
 *
 * @returns `undefined` when nothing is at the path
 */
export async function namespaceId(path: string): Promise<string | undefined> {
  try {
    return idOf(await stat(path, { bigint: true }));
  } catch (error) {
    if (goneCodes.includes((error as NodeJS.ErrnoException).code)) {
      return undefined;
    }
    throw error;
  }
}

function idOf({ dev, ino }: { readonly dev: bigint; readonly ino: bigint }): string {
  return `${dev}:${ino}`;
}
