/** Tells of changes to links, IPv4 addresses and IPv4 routes as the kernel makes them. */
import { MessageType, MulticastGroups } from "netlink/dist/rt/structs.js";
import type { NetlinkMessage } from "netlink/dist/structs.js";
import { type Address, parseAddress } from "./address.ts";
import { type Link, parseLink } from "./link.ts";
import { Overrun } from "./overrun.ts";
import { parseRoute, type Route } from "./route.ts";
import { createSocket } from "./socket.ts";

export type NetlinkEvent =
  | { readonly kind: "link"; readonly removed: boolean; readonly link: Link }
  | { readonly kind: "address"; readonly removed: boolean; readonly address: Address }
  | { readonly kind: "route"; readonly removed: boolean; readonly route: Route }
  /** Events were lost: whoever keeps anything in step must list it anew. */
  | { readonly kind: "overrun" };

export interface Monitor {
  close(): void;
}

/** Events come in bursts, and only bursts overrun: this long after the first one it is looked whether any was lost. */
const overrunCheckMs = 50;

/** Watches the network namespace that the calling thread is in now. Keeps the event loop alive until it is closed. */
export function monitor(onEvent: (event: NetlinkEvent) => void): Monitor {
  const socket = createSocket();
  const overrun = new Overrun(socket);
  let check: NodeJS.Timeout | undefined;
  socket.ref();
  for (const group of [MulticastGroups.LINK, MulticastGroups.IPV4_IFADDR, MulticastGroups.IPV4_ROUTE]) {
    socket.addMembership(group);
  }
  socket.on("message", (messages) => {
    check ??= setTimeout(() => {
      check = undefined;
      if (overrun.happened()) {
        onEvent({ kind: "overrun" });
      }
    }, overrunCheckMs);
    for (const event of messages.map(parseEvent)) {
      if (event) {
        onEvent(event);
      }
    }
  });
  socket.on("error", () => onEvent({ kind: "overrun" }));
  return {
    close() {
      clearTimeout(check);
      socket.close();
    },
  };
}

function parseEvent(message: NetlinkMessage): NetlinkEvent | undefined {
  switch (message.type as MessageType) {
    case MessageType.NEWLINK:
    case MessageType.DELLINK:
      return { kind: "link", removed: message.type === MessageType.DELLINK, link: parseLink(message) };
    case MessageType.NEWADDR:
    case MessageType.DELADDR: {
      const address = parseAddress(message);
      return address && { kind: "address", removed: message.type === MessageType.DELADDR, address };
    }
    case MessageType.NEWROUTE:
    case MessageType.DELROUTE: {
      const route = parseRoute(message);
      return route && { kind: "route", removed: message.type === MessageType.DELROUTE, route };
    }
    default:
      return undefined;
  }
}
