/** What the kernel drops when a netlink socket's receive buffer is full. */
import { readdirSync } from "node:fs";
import type { NetlinkSocket } from "netlink/dist/netlink.js";
import { addon, systemError } from "../linux/addon.ts";

/**
 * Counts the messages that a socket lost. Unless the kernel is told not to make an error of it, an overrun ends the
 * process: epoll reports the error, and the library aborts on what epoll reports.
 */
export class Overrun {
  readonly #fd: number;
  #dropped = 0;

  constructor(socket: NetlinkSocket) {
    this.#fd = descriptorOf(socket);
    const errno = addon().ignoreOverrun(this.#fd);
    if (errno !== 0) {
      throw systemError("keep a netlink socket open over an overrun", errno);
    }
  }

  /** Only while the socket is open. @returns whether messages were lost since the last call */
  happened(): boolean {
    const before = this.#dropped;
    this.#dropped = addon().droppedMessages(this.#fd);
    return this.#dropped !== before;
  }
}

/** The library does not tell: it is the one that is bound to the same port. */
function descriptorOf(socket: NetlinkSocket): number {
  const { port } = socket.address();
  const fd = readdirSync("/proc/self/fd").find((name) => addon().netlinkPort(Number(name)) === port);
  if (fd === undefined) {
    throw new Error(`Cannot find the descriptor of a netlink socket: none is bound to port ${port}`);
  }
  return Number(fd);
}
