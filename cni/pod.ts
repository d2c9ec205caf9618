/** The container's side: its network namespace and the interface in it. */
import { stat } from "node:fs/promises";
import { CniCode, CniError } from "@containernetworking/cni-types-ts";
import { tryLockDescriptor } from "../src/linux/lock.ts";
import { NetworkNamespace } from "../src/linux/namespace.ts";
import { Netlink } from "../src/netlink/netlink.ts";
import { mainTable, type Route } from "../src/netlink/route.ts";

/** Every pod's next hop. Nobody has the address: the host answers for it on each link. */
export const gateway = "169.254.1.1";

/** RTPROT_BOOT: the protocol that ip(8) gives to a route added by hand. */
const bootProtocol = 3;

export class Pod {
  readonly namespace: NetworkNamespace;
  readonly #netlink: Netlink;

  /**
   * Until it is closed nobody else opens the same pod: of two ADDs at once each would undo what the other made. The lock
   * is on the namespace itself, so that nothing of it stays behind.
   *
   * @throws CniError with `InvalidEnvironment` when the path is not a network namespace, or is the host's own, with
   *   `TryAgainLater` when another call is at work on it
   */
  static async open(path: string): Promise<Pod> {
    let namespace: NetworkNamespace;
    try {
      namespace = await NetworkNamespace.open(path);
    } catch (error) {
      throw notANamespace(path, error);
    }
    try {
      if (await isOwnNamespace(path)) {
        throw notANamespace(path, "it is the host's own");
      }
      const netlink = namespace.enter(() => Netlink.open());
      if (!tryLockDescriptor(namespace.fd, path)) {
        netlink.close();
        throw new CniError(CniCode.TryAgainLater, `Cannot use CNI_NETNS now: another call is at work on "${path}"`);
      }
      return new Pod(namespace, netlink);
    } catch (error) {
      await namespace.close();
      throw error instanceof CniError ? error : notANamespace(path, error);
    }
  }

  private constructor(namespace: NetworkNamespace, netlink: Netlink) {
    this.namespace = namespace;
    this.#netlink = netlink;
  }

  async close(): Promise<void> {
    this.#netlink.close();
    await this.namespace.close();
  }

  /** @throws CniError with `InvalidEnvironment` when the namespace has an interface of the name */
  async requireFreeName(interfaceName: string): Promise<void> {
    if (await this.#netlink.linkByName(interfaceName)) {
      throw new CniError(
        CniCode.InvalidEnvironment,
        `Cannot use CNI_IFNAME: "${interfaceName}" exists in "${this.namespace.path}", allowed is a name that is free there`,
      );
    }
  }

  /**
   * Brings the interface up with its address and the way out. Everything the pod sends goes to the host.
   *
   * @returns the interface's MAC
   */
  async configure(interfaceName: string, address: string, gatewayMac: string): Promise<string> {
    const link = await this.#netlink.linkByName(interfaceName);
    if (link?.mac === undefined) {
      throw new Error(`Cannot configure "${interfaceName}": it is gone from "${this.namespace.path}"`);
    }
    const { index } = link;
    await this.#netlink.setLink(index, { up: true });
    await this.#netlink.addRoute(podRoute({ destination: `${gateway}/32`, linkIndex: index, scope: "link" }));
    await this.#netlink.addRoute(podRoute({ destination: "0.0.0.0/0", linkIndex: index, gateway }));
    await this.#netlink.addAddress(index, address, 32);
    // Proxy ARP does not answer on a node that has no default route itself, so the pod never has to ask.
    await this.#netlink.setNeighbour({ linkIndex: index, address: gateway, mac: gatewayMac });
    return link.mac;
  }
}

function podRoute(route: Pick<Route, "destination" | "linkIndex" | "gateway"> & Partial<Route>): Route {
  return {
    type: "unicast",
    scope: "universe",
    protocol: bootProtocol,
    table: mainTable,
    metric: 0,
    onlink: false,
    ...route,
  };
}

async function isOwnNamespace(path: string): Promise<boolean> {
  const [theirs, ours] = await Promise.all([stat(path), stat("/proc/self/ns/net")]);
  return theirs.dev === ours.dev && theirs.ino === ours.ino;
}

function notANamespace(path: string, reason: unknown): CniError {
  const why = reason instanceof Error ? reason.message : reason;
  return new CniError(
    CniCode.InvalidEnvironment,
    `Cannot use CNI_NETNS: "${path}" (${why}), allowed is the path of the container's network namespace`,
    { cause: reason },
  );
}
