/** The kernel's links, addresses, routes and neighbours in one network namespace. */
import { FlagsNew } from "netlink/dist/constants.js";
import { formatAddress, formatLink, formatNeighbor, formatRoute, MessageType } from "netlink/dist/rt/structs.js";
import { type Address, addressMessage, globalScope, ipv4Family, parseAddress } from "./address.ts";
import { type Link, type LinkChange, linkChange, parseLink, plainLink, type VethPair, vethPair } from "./link.ts";
import { type Neighbour, parsePermanentNeighbour, permanentNeighbour } from "./neighbour.ts";
import { describeRoute, parseRoute, type Route, routeMessage } from "./route.ts";
import { NetlinkError, RtnetlinkSocket } from "./socket.ts";

const createNew = FlagsNew.CREATE | FlagsNew.EXCL;
const createOrReplace = FlagsNew.CREATE | FlagsNew.REPLACE;

export class Netlink {
  readonly #socket = new RtnetlinkSocket();

  /** The namespace is the one that the calling thread is in now: `namespace.enter(() => Netlink.open())`. */
  static open(): Netlink {
    return new Netlink();
  }

  close(): void {
    this.#socket.close();
  }

  async links(): Promise<Link[]> {
    return (await this.#socket.dump("list the links", MessageType.GETLINK, formatLink({}))).map(parseLink);
  }

  async linkByName(name: string): Promise<Link | undefined> {
    const query = linkChange(0, { name });
    try {
      const [message] = await this.#socket.request(`look up the link "${name}"`, MessageType.GETLINK, query);
      return message && parseLink(message);
    } catch (error) {
      if (error instanceof NetlinkError && error.code === "ENODEV") {
        return undefined;
      }
      throw error;
    }
  }

  /** Makes both ends at once, so that neither is ever seen in the wrong place or under the wrong name. */
  async createVeth(pair: VethPair): Promise<void> {
    const action = `create the link "${pair.name}" with its peer "${pair.peer.name}"`;
    await this.#socket.request(action, MessageType.NEWLINK, vethPair(pair), createNew);
  }

  /** @param kind such as "ipip"; the kernel loads the module that provides it */
  async createLink(kind: string, link: LinkChange & { name: string }): Promise<void> {
    const action = `create the link "${link.name}" of kind "${kind}"`;
    await this.#socket.request(action, MessageType.NEWLINK, plainLink(kind, link), createNew);
  }

  async setLink(index: number, change: LinkChange): Promise<void> {
    const action = `change the link ${index} (${JSON.stringify(change)})`;
    await this.#socket.request(action, MessageType.NEWLINK, linkChange(index, change));
  }

  async removeLink(index: number): Promise<void> {
    await this.#socket.request(`remove the link ${index}`, MessageType.DELLINK, formatLink({ index }));
  }

  /** @returns the IPv4 addresses of all links */
  async addresses(): Promise<Address[]> {
    const query = formatAddress({ family: ipv4Family });
    const messages = await this.#socket.dump("list the addresses", MessageType.GETADDR, query);
    return messages.map(parseAddress).filter((address) => address !== undefined);
  }

  async addAddress(linkIndex: number, address: string, prefixLength: number): Promise<void> {
    const message = addressMessage({ linkIndex, address, prefixLength, scope: globalScope });
    const action = `add the address ${address}/${prefixLength} to the link ${linkIndex}`;
    await this.#socket.request(action, MessageType.NEWADDR, message, createNew);
  }

  /** With its peer, where it has one: the kernel finds no address without. */
  async removeAddress(address: Omit<Address, "scope">): Promise<void> {
    const message = addressMessage({ ...address, scope: globalScope });
    const action = `remove the address ${address.address}/${address.prefixLength} from the link ${address.linkIndex}`;
    await this.#socket.request(action, MessageType.DELADDR, message);
  }

  /** @returns the IPv4 routes of every table */
  async routes(): Promise<Route[]> {
    const query = formatRoute({ family: ipv4Family });
    const messages = await this.#socket.dump("list the routes", MessageType.GETROUTE, query);
    return messages.map(parseRoute).filter((route) => route !== undefined);
  }

  /** @throws NetlinkError with code EEXIST when a route with this destination, table and metric is there */
  async addRoute(route: Route): Promise<void> {
    const action = `add the route ${describeRoute(route)}`;
    await this.#socket.request(action, MessageType.NEWROUTE, routeMessage(route), createNew);
  }

  /** Puts the route in the place of one with the same destination, table and metric, without a gap. */
  async replaceRoute(route: Route): Promise<void> {
    const action = `set the route ${describeRoute(route)}`;
    await this.#socket.request(action, MessageType.NEWROUTE, routeMessage(route), createOrReplace);
  }

  async removeRoute(route: Route): Promise<void> {
    await this.#socket.request(`remove the route ${describeRoute(route)}`, MessageType.DELROUTE, routeMessage(route));
  }

  /** @returns the permanent IPv4 neighbours of all links */
  async neighbours(): Promise<Neighbour[]> {
    const query = formatNeighbor({ family: ipv4Family });
    const messages = await this.#socket.dump("list the neighbours", MessageType.GETNEIGH, query);
    return messages.map(parsePermanentNeighbour).filter((neighbour) => neighbour !== undefined);
  }

  async setNeighbour(neighbour: Neighbour): Promise<void> {
    const action = `set the neighbour ${neighbour.address} on the link ${neighbour.linkIndex}`;
    await this.#socket.request(action, MessageType.NEWNEIGH, permanentNeighbour(neighbour), createOrReplace);
  }
}
