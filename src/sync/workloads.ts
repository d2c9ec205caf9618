/** The pods of this node, as far as sync looks after what the plugin made. */
import type { Logger } from "pino";
import { linkAlias, ownerOfAlias } from "../../cni/attachment.ts";
import { ownIpam } from "../../cni/config.ts";
import { tryLockContainer } from "../../cni/container-lock.ts";
import { del } from "../../cni/del.ts";
import { closeHost, openHost } from "../../cni/host.ts";
import { poolIpam } from "../../cni/ipam.ts";
import { isPodLink } from "../guard/links.ts";
import { guardPinDirectory } from "../guard/pins.ts";
import { WorkloadGuard } from "../guard/workload-guard.ts";
import type { Link } from "../netlink/link.ts";
import { isFinished, type WorkloadEndpoint } from "../workload/endpoint.ts";
import { EndpointStore } from "../workload/endpoint-store.ts";

export class Workloads {
  readonly #runDir: string;
  readonly #log: Logger;
  readonly #endpoints: EndpointStore;

  constructor(runDir: string, log: Logger) {
    this.#runDir = runDir;
    this.#log = log;
    this.#endpoints = new EndpointStore(runDir);
  }

  /**
   * At the start: takes back what ADDs and DELs left that were killed, and exchanges the guard's program on pods where it
   * is another version. A call that is at work is left alone.
   */
  async heal(): Promise<void> {
    for (const endpoint of (await this.#endpoints.list()).filter((each) => !isFinished(each))) {
      const lock = await tryLockContainer(this.#runDir, endpoint.owner.containerId);
      if (lock !== undefined) {
        await this.#takeBack(endpoint.owner)
          .catch(({ message }: Error) =>
            this.#log.error({ ...endpoint.owner, message }, "an attachment stays unfinished"),
          )
          .finally(() => lock.release());
      }
    }
    using guard = this.#openGuard();
    guard?.upgrade();
  }

  /**
   * A pod's link without guard is guarded again: somebody removed the program or its pin.
   *
   * @throws an error that names the links which are not guarded, since nobody knows what their pods may send
   */
  async keepGuarded(links: readonly Link[]): Promise<void> {
    using guard = this.#openGuard();
    const ours = links.filter((link) => isPodLink(link) && ownerOfAlias(link.alias) !== undefined);
    const open = ours.filter(({ index, up }) => up && guard?.isAttached(index) !== true);
    if (open.length === 0) {
      return;
    }
    if (guard === undefined) {
      throw new Error(`Cannot guard ${open.length} pod links: the workload guard is not pinned`);
    }
    const endpoints = await this.#endpoints.list();
    const unknown = open.filter((link) => !this.#guardAgain(guard, link, endpoints));
    if (unknown.length > 0) {
      const names = unknown.map(({ name }) => `"${name}"`).join(", ");
      throw new Error(`Cannot guard the pod links ${names}: no endpoint tells what their pods may send, add them anew`);
    }
  }

  #guardAgain(guard: WorkloadGuard, link: Link, endpoints: readonly WorkloadEndpoint[]): boolean {
    const known = endpoints.find(({ owner, attached }) => {
      return attached?.hostLink.index === link.index && linkAlias(owner) === link.alias;
    });
    if (known?.attached === undefined) {
      return false;
    }
    const { owner, attached, permissions } = known;
    guard.protect(link, { containerId: owner.containerId, addresses: attached.addresses, ...permissions });
    this.#log.info({ link: link.name, containerId: owner.containerId }, "pod link is guarded again");
    return true;
  }

  async #takeBack(owner: WorkloadEndpoint["owner"]): Promise<void> {
    const endpoint = await this.#endpoints.read(owner); // again: the call may have ended meanwhile
    if (endpoint === undefined || isFinished(endpoint)) {
      return;
    }
    if (endpoint.ipam !== ownIpam) {
      this.#log.warn({ ...owner, ipam: endpoint.ipam }, "an unfinished attachment is left to the runtime's next call");
      return;
    }
    const host = openHost({ runDir: this.#runDir, stateDir: endpoint.stateDir }, this.#log);
    try {
      await del(owner, poolIpam(host.leases), host);
      this.#log.info(owner, "an unfinished attachment is taken back");
    } finally {
      closeHost(host);
    }
  }

  #openGuard(): WorkloadGuard | undefined {
    return WorkloadGuard.openPinned(guardPinDirectory(this.#runDir));
  }
}
