/** ADD: gives a container an interface, an address and its routes. */
import { isDeepStrictEqual } from "node:util";
import { CniCode, CniError, convertResult, parseResult } from "@containernetworking/cni-types-ts";
import type { WorkloadGuard } from "../src/guard/workload-guard.ts";
import { describeOwner } from "../src/ipam/lease-store.ts";
import { momentNow } from "../src/linux/moment.ts";
import type { NodeState } from "../src/node-state.ts";
import { type Attached, hasContainer, type WorkloadEndpoint } from "../src/workload/endpoint.ts";
import { type Attachment, hostLinkName, unsignedLinkName } from "./attachment.ts";
import type { PluginConfiguration } from "./config.ts";
import { tryLockContainer } from "./container-lock.ts";
import { del, forgetLinkOf } from "./del.ts";
import { type Host, requireGuard, requireNodeState } from "./host.ts";
import { addHostRoute, configureHostLink, createPair, hostLinksOf, hostMac, removeHostLink } from "./host-link.ts";
import type { Ipam } from "./ipam.ts";
import { firstDifference } from "./live-state.ts";
import { Pod } from "./pod.ts";
import { toResult } from "./result.ts";
import { stepUntil } from "./step.ts";
import type { Wishes } from "./wishes.ts";

export interface AddRequest {
  readonly attachment: Attachment;
  /** Path of the container's network namespace. */
  readonly networkNamespace: string;
  readonly config: PluginConfiguration;
  readonly ipam: Ipam;
  readonly wishes: Wishes;
  /** Ends the work: what was made until then is taken back. */
  readonly signal: AbortSignal;
}

export interface Added {
  /** JSON. */
  readonly answer: string;
  /** Whether this call made what it tells of: an earlier one did otherwise. */
  readonly isNew: boolean;
}

/**
 * A repeated ADD changes nothing where all is as the first one made it, and makes it anew, with the same addresses, where
 * it is not.
 *
 * @returns what the runtime is told, with what the plugins before said in front, as JSON: where that cannot be written
 *   either, what was made is taken back; and whether anything was made
 */
export async function add(request: AddRequest, host: Host): Promise<Added> {
  const { attachment, networkNamespace, config } = request;
  const previous = config.prevResult && parseResult(config.prevResult, config.cniVersion);
  const answer = (attached: Attached) =>
    JSON.stringify(
      convertResult(toResult({ attachment, networkNamespace, config, attached, previous }), config.cniVersion),
    );
  const node = await requireNodeState(host);
  const guard = requireGuard(host);
  const mtu = podMtu(config, node);
  const making = { ...host, step: stepUntil(request.signal, host.step) };
  const pod = await Pod.open(networkNamespace, making);
  try {
    const earlier = await host.endpoints.read(attachment);
    const same = await unchanged(request, mtu, host, pod, earlier);
    if (same) {
      return { answer: answer(same), isNew: false };
    }
    requireSameAddress(earlier, request.wishes);
    try {
      return { answer: answer(await attach(request, { node, guard, mtu, earlier }, making, pod)), isNew: true };
    } catch (error) {
      await takeBack(request, host);
      throw error;
    }
  } finally {
    await pod.close();
  }
}

function podMtu({ mtu }: PluginConfiguration, node: NodeState): number {
  if (mtu !== undefined && mtu > node.mtu) {
    throw new CniError(
      CniCode.InvalidConfiguration,
      `Cannot use the network configuration: field "mtu" is ${mtu}, allowed are at most ${node.mtu}, the MTU of the tunnel`,
    );
  }
  return mtu ?? node.mtu;
}

/** What an earlier ADD made, where that is what this one asks for and it is all still there. */
async function unchanged(
  { attachment, config, ipam, wishes }: AddRequest,
  mtu: number,
  host: Host,
  pod: Pod,
  earlier: WorkloadEndpoint | undefined,
): Promise<Attached | undefined> {
  const { attached } = earlier ?? {};
  const isWhatIsAskedFor =
    attached !== undefined &&
    earlier?.isEnding !== true &&
    attached.mtu === mtu &&
    attached.hostLink.name === hostLinkName(attachment) &&
    attached.addresses.includes(wishes.address ?? attached.addresses[0] ?? "") &&
    attached.mac === (wishes.mac ?? attached.mac) &&
    isDeepStrictEqual(earlier?.permissions, config.guard);
  if (!isWhatIsAskedFor) {
    return undefined;
  }
  const isHeld = await ipam.check(attachment, attached.addresses).then(
    (problem) => problem === undefined,
    () => false, // another plugin reports it as its error
  );
  const wanted = { ...attached, permissions: config.guard };
  const isWhole = isHeld && (await firstDifference(attachment, wanted, host, pod)) === undefined;
  return isWhole ? attached : undefined;
}

/** What is there is not taken down for a wish that cannot be met. */
function requireSameAddress(earlier: WorkloadEndpoint | undefined, { address }: Wishes): void {
  const addresses = earlier?.attached?.addresses ?? [];
  if (earlier && address !== undefined && addresses.length > 0 && !addresses.includes(address)) {
    throw new CniError(
      CniCode.Conflict,
      `Cannot give ${address} to ${describeOwner(earlier.owner)}: it has ${addresses.join(", ")} already, allowed is one address an interface`,
    );
  }
}

interface Ground {
  readonly node: NodeState;
  readonly guard: WorkloadGuard;
  readonly mtu: number;
  readonly earlier: WorkloadEndpoint | undefined;
}

async function attach(
  request: AddRequest,
  { node, guard, mtu, earlier }: Ground,
  host: Host,
  pod: Pod,
): Promise<Attached> {
  const { attachment, networkNamespace, config, ipam, wishes, signal } = request;
  const { netlink, endpoints, step } = host;

  await removeEarlierLinks(host, attachment, earlier);
  await pod.requireFreeName(attachment.interfaceName);
  const endpoint: WorkloadEndpoint = {
    version: 1,
    owner: attachment,
    networkNamespace: { path: networkNamespace, id: await pod.namespace.id() },
    stateDir: config.stateDir,
    ipam: ipam.type,
    time: new Date().toISOString(),
    began: momentNow(),
    permissions: config.guard,
  };
  await step("begin the endpoint", () => endpoints.save(endpoint));
  const isRepeated = earlier !== undefined;
  const given = await step("reserve the addresses", () =>
    ipam.add(attachment, node, { wanted: wishes.address, pools: wishes.pools, isRepeated }),
  );

  const podMac = wishes.mac ?? earlier?.attached?.mac;
  const pair = await createPair(host, attachment, { mtu, podMac, podNamespaceFd: pod.namespace.fd });
  const hostLink = await configureHostLink(host, pair, endpoint);
  const policy = { containerId: attachment.containerId, addresses: given.addresses, ...config.guard };
  await step("guard the host link", () => guard.protect(hostLink, policy));
  await step("bring the host link up", () => netlink.setLink(hostLink.index, { up: true }));

  const podLink = await pod.link(attachment.interfaceName);
  const metric = await pod.freeMetric(given.routes);
  await pod.configure(podLink.index, { ...given, gatewayMac: hostMac }, metric);
  for (const address of given.addresses) {
    await addHostRoute(host, hostLink, address, (owner) => isGone(host, owner));
  }
  const { name, index } = hostLink;
  const attached = { hostLink: { name, index }, mac: podLink.mac, mtu, metric, ...given };
  await step("finish the endpoint", () => endpoints.save({ ...endpoint, attached }));
  signal.throwIfAborted();
  return attached;
}

/** Where nothing is known of an earlier ADD by their names, which takes no longer on a node with many pods. */
async function removeEarlierLinks(host: Host, attachment: Attachment, earlier?: WorkloadEndpoint): Promise<void> {
  const { netlink } = host;
  const names = [unsignedLinkName(attachment), hostLinkName(attachment)];
  const links = earlier ? await netlink.links() : await Promise.all(names.map((name) => netlink.linkByName(name)));
  const present = links.filter((link) => link !== undefined);
  for (const link of hostLinksOf(attachment, earlier, present)) {
    await removeHostLink(host, link);
  }
  if (earlier) {
    await forgetLinkOf(earlier, present, host);
  }
}

/** A container is gone when its network namespace is, and no call for it is at work. */
async function isGone({ endpoints, runDir }: Host, owner: Attachment): Promise<boolean> {
  const endpoint = await endpoints.read(owner);
  if (endpoint === undefined || (await hasContainer(endpoint))) {
    return false;
  }
  const lock = await tryLockContainer(runDir, owner.containerId);
  await lock?.release();
  return lock !== undefined;
}

/** Failures are only logged: the error that made it necessary is the one to report. */
async function takeBack({ attachment, ipam }: AddRequest, host: Host): Promise<void> {
  try {
    await del(attachment, ipam, host);
  } catch (error) {
    host.log.error({ ...attachment, error: (error as Error).message }, "Cannot take back what a failed ADD made");
  }
}
