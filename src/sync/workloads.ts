/** The pods of this node, as far as sync looks after what the plugin made. */
import { BpfError } from "libbpf-ts";
import type { Logger } from "pino";
import { ownerOfAlias } from "../../cni/attachment.ts";
import { ownIpam } from "../../cni/config.ts";
import { tryLockContainer } from "../../cni/container-lock.ts";
import { del, forgetGoneLinks } from "../../cni/del.ts";
import { closeHost, openHost } from "../../cni/host.ts";
import { poolIpam } from "../../cni/ipam.ts";
import { step } from "../../cni/step.ts";
import { isPodLink } from "../guard/links.ts";
import { guardPinDirectory } from "../guard/pins.ts";
import { WorkloadGuard } from "../guard/workload-guard.ts";
import type { Link } from "../netlink/link.ts";
import { Netlink } from "../netlink/netlink.ts";
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
   * At the start: takes back what ADDs and DELs left that were killed, has the guard forget links that are gone, and
   * exchanges its program on pods where it is another version. A call that is at work is left alone.
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
    await this.#forgetGoneLinks(guard);
    guard?.upgrade();
  }

  async #forgetGoneLinks(guard: WorkloadGuard | undefined): Promise<void> {
    const netlink = Netlink.open();
    try {
      await forgetGoneLinks({ guard, netlink, step });
    } finally {
      netlink.close();
    }
  }

  /**
   * A pod's link without guard is guarded again: somebody removed the program or its pin. Each link for itself: one that
   * cannot be guarded must not keep the guard from the others.
   *
   * @param links those of the node, as they were a moment ago
   * @throws an error that names the links which are not guarded and tells why
   */
  async keepGuarded(links: readonly Link[]): Promise<void> {
    using guard = this.#openGuard();
    const open = links.filter((link) => isPodLink(link) && link.up && guard?.isAttached(link.index) !== true);
    const ours = open.flatMap((link) => {
      const owner = ownerOfAlias(link.alias);
      return owner === undefined ? [] : [{ link, owner }];
    });
    if (ours.length === 0) {
      return;
    }
    if (guard === undefined) {
      throw new Error(`Cannot guard ${ours.length} pod links: the workload guard is not pinned`);
    }
    const failed = new Map<string, string[]>();
    const netlink = Netlink.open();
    try {
      for (const { link, owner } of ours) {
        await this.#guardUnlessAtWork({ guard, netlink, link, owner }).catch(({ message }: Error) => {
          failed.set(message, [...(failed.get(message) ?? []), `"${link.name}"`]);
        });
      }
    } finally {
      netlink.close();
    }
    if (failed.size > 0) {
      const sentences = [...failed].map(
        ([reason, names]) => `Cannot guard the pod links ${names.join(", ")}: ${reason}`,
      );
      throw new Error(sentences.join("; "));
    }
  }

  /**
   * A call that is at work for the container guards the link itself, or removes it. No event tells of its end, as those
   * of pods' links and routes do not wake sync: a link that it leaves unguarded is looked at in the next pass, which is a
   * minute later at most.
   */
  async #guardUnlessAtWork(open: OpenLink): Promise<void> {
    const lock = await tryLockContainer(this.#runDir, open.owner.containerId);
    try {
      if (lock !== undefined && (await isStillOpen(open))) {
        await this.#guardAgain(open);
      }
    } finally {
      await lock?.release();
    }
  }

  async #guardAgain({ guard, link, owner }: OpenLink): Promise<void> {
    const endpoint = await this.#endpoints.read(owner);
    if (endpoint?.attached?.hostLink.index !== link.index) {
      throw new Error("no endpoint tells what their pods may send, add them anew");
    }
    const { attached, permissions } = endpoint;
    try {
      guard.protect(link, { containerId: owner.containerId, addresses: attached.addresses, ...permissions });
    } catch (error) {
      if (!(error instanceof BpfError && error.code === "ENODEV")) {
        throw error;
      }
      guard.forget(link.index); // it went with the container's namespace at this moment
      return;
    }
    this.#log.info({ link: link.name, containerId: owner.containerId }, "pod link is guarded again");
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

/** A pod's link that was seen without guard. */
interface OpenLink {
  readonly guard: WorkloadGuard;
  readonly netlink: Netlink;
  readonly link: Link;
  /** By the link's alias. */
  readonly owner: NonNullable<ReturnType<typeof ownerOfAlias>>;
}

/** As no call for the container is at work: one that ended meanwhile may have removed or guarded the link. */
async function isStillOpen({ guard, netlink, link }: OpenLink): Promise<boolean> {
  const now = await netlink.linkByName(link.name);
  return now?.index === link.index && now.alias === link.alias && now.up && !guard.isAttached(link.index);
}
