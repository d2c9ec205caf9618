/** A rtnetlink socket: requests that are acknowledged, dumps that are consistent, and errors with their errno. */
import { getSystemErrorMessage, getSystemErrorName } from "node:util";
import { MessageType as Control, Flags, FlagsGet, Protocol } from "netlink/dist/constants.js";
import { createNetlink, type NetlinkSocket } from "netlink/dist/netlink.js";
import { AttrStream, type NetlinkMessage, parseError, type StreamData } from "netlink/dist/structs.js";

export class NetlinkError extends Error {
  override readonly name = "NetlinkError";
  /** The errno's name, such as "EEXIST". */
  readonly code: string;
  /** The errno as the kernel gives it: a negative number. */
  readonly errno: number;

  constructor(action: string, errno: number) {
    super(`Cannot ${action}: ${getSystemErrorMessage(errno)}`);
    this.code = getSystemErrorName(errno);
    this.errno = errno;
  }
}

const bufferBytes = 1 << 20;

/** An answer that has not come by then was lost to a full receive buffer. */
const answerTimeoutMs = 10_000;

/** How often a dump that the kernel calls inconsistent is asked for again. */
const dumpAttempts = 10;

export class RtnetlinkSocket {
  readonly #socket: NetlinkSocket;
  /** The library cannot tell answers apart when acknowledgements fall between the parts of a dump: dumps run alone. */
  readonly #dumps: NetlinkSocket;
  #lastDump: Promise<unknown> = Promise.resolve();

  /** Both sockets belong for ever to the network namespace that the calling thread is in now. */
  constructor() {
    this.#socket = createSocket();
    this.#dumps = createSocket();
    for (const socket of [this.#socket, this.#dumps]) {
      socket.on("error", () => undefined); // ENOBUFS: the request whose answer was lost times out
    }
  }

  close(): void {
    this.#socket.close();
    this.#dumps.close();
  }

  /**
   * Sends one request and waits for the kernel's acknowledgement. Requests sent without waiting are carried out in order.
   *
   * @param action what is asked for, to follow "Cannot" in the error: `add the route 10.0.0.0/8`
   * @returns the messages of the answer; none for a plain acknowledgement
   * @throws NetlinkError when the kernel refuses
   */
  async request(action: string, type: number, payload: StreamData, flags = 0): Promise<NetlinkMessage[]> {
    const [messages] = await this.#socket.request(type, toBuffers(payload), {
      flags,
      checkError: false,
      timeout: answerTimeoutMs,
    });
    throwIfRefused(action, messages);
    return messages.filter((message) => message.type !== Control.ERROR);
  }

  /** Lists objects, again from the start when they changed meanwhile (NLM_F_DUMP_INTR), so that none is missed. */
  dump(action: string, type: number, payload: StreamData): Promise<NetlinkMessage[]> {
    const result = this.#lastDump.then(() => this.#dumpNow(action, type, payload));
    this.#lastDump = result.catch(() => undefined);
    return result;
  }

  async #dumpNow(action: string, type: number, payload: StreamData): Promise<NetlinkMessage[]> {
    for (let attempt = 1; ; attempt++) {
      const [messages] = await this.#dumps.request(type, toBuffers(payload), {
        flags: FlagsGet.DUMP,
        checkError: false,
        timeout: answerTimeoutMs,
      });
      throwIfRefused(action, messages);
      const interrupted = messages.some(({ flags }) => (flags & Flags.DUMP_INTR) !== 0);
      if (!interrupted || attempt === dumpAttempts) {
        return messages;
      }
    }
  }
}

export function createSocket(): NetlinkSocket {
  return createNetlink(Protocol.ROUTE, { recvBufferSize: bufferBytes, sendBufferSize: bufferBytes });
}

function toBuffers(payload: StreamData): Uint8Array[] {
  const stream = new AttrStream();
  stream.emit(payload);
  return stream.bufs;
}

function throwIfRefused(action: string, [first]: NetlinkMessage[]): void {
  if (first?.type === Control.ERROR) {
    const { errno } = parseError(first.data, first.flags);
    if (errno !== 0) {
      throw new NetlinkError(action, errno);
    }
  }
}
