/** What kernel and guard really have of an attachment, beside what they should have. */
import { networkOf } from "../src/cidr.ts";
import { readSysctl } from "../src/linux/sysctl.ts";
import type { Link } from "../src/netlink/link.ts";
import type { Netlink } from "../src/netlink/netlink.ts";
import type { Route } from "../src/netlink/route.ts";
import type { WorkloadEndpoint } from "../src/workload/endpoint.ts";
import { type Attachment, linkAlias } from "./attachment.ts";
import type { Host } from "./host.ts";
import { hostLinkSettings, hostMac, hostRoute } from "./host-link.ts";
import { gateway, type Pod, podRoutes } from "./pod.ts";

/** What is not known is not compared. */
export interface Wanted {
  readonly hostLink: { readonly name: string };
  /** Bytes, of the host's end. */
  readonly mtu?: number;
  /** Bytes, of the pod's end. */
  readonly podMtu?: number;
  readonly mac?: string;
  readonly addresses: readonly string[];
  /** Destinations that lead to the host. */
  readonly routes: readonly string[];
  readonly metric?: number;
  /** What the pod may send besides IPv4 from its own addresses. */
  readonly permissions?: WorkloadEndpoint["permissions"];
}

/** @returns a sentence such as `the MTU of "eth0" in the pod is 1400, not 1480`; `undefined` when all is as wanted */
export async function firstDifference(
  attachment: Attachment,
  wanted: Wanted,
  host: Host,
  pod: Pod,
): Promise<string | undefined> {
  for await (const difference of differences(attachment, wanted, host, pod)) {
    return difference;
  }
  return undefined;
}

async function* differences(attachment: Attachment, wanted: Wanted, host: Host, pod: Pod): AsyncGenerator<string> {
  yield* hostLinkDifferences(attachment, wanted, host);
  yield* podDifferences(attachment.interfaceName, wanted, pod);
}

async function* hostLinkDifferences(attachment: Attachment, wanted: Wanted, host: Host): AsyncGenerator<string> {
  const { name } = wanted.hostLink;
  const link = await host.netlink.linkByName(name);
  if (link === undefined) {
    yield `the host link "${name}" is gone`;
    return;
  }
  yield* differ(`the kind of the host link "${name}"`, link.kind, "veth");
  yield* differ(`the alias of the host link "${name}"`, link.alias, linkAlias(attachment));
  yield* linkDifferences(`the host link "${name}"`, link, { mac: hostMac, mtu: wanted.mtu });
  for (const [key, value] of hostLinkSettings(name)) {
    yield* differ(`the setting ${key}`, readSysctl(key), String(value));
  }
  if (link.masterIndex !== undefined) {
    yield `the host link "${name}" is a port of another link, such as a bridge`;
  }
  yield* guardDifferences(link, wanted, host);
  const routes = wanted.addresses.map((address) => hostRoute(address, link.index));
  yield* routeDifferences("on the host", routes, host.netlink);
}

function* guardDifferences(
  { index, name }: Link,
  { addresses, permissions }: Wanted,
  { guard }: Host,
): Generator<string> {
  if (guard?.isAttached(index) !== true) {
    yield `the workload guard is not attached to the host link "${name}"`;
  }
  const policy = guard?.policyOf(index);
  if (policy?.flags.silent) {
    yield `the workload guard lets nothing of the pod pass on "${name}"`;
  }
  const guarded = policy?.addresses ?? [];
  yield* differ(`what the workload guard lets the pod send from on "${name}"`, list(guarded), list(addresses));
  if (permissions) {
    const { allowedSources, allowIpip, allowIpv6 } = permissions;
    const networks = allowedSources.map((cidr) => networkOf(cidr).text);
    yield* differ(`what it may send from besides on "${name}"`, list(policy?.allowedSources ?? []), list(networks));
    yield* differ(`whether it may send IPIP on "${name}"`, policy?.flags["allow-ipip"], allowIpip);
    yield* differ(`whether it may send IPv6 on "${name}"`, policy?.flags["allow-ipv6"], allowIpv6);
  }
}

async function* podDifferences(interfaceName: string, wanted: Wanted, { netlink }: Pod): AsyncGenerator<string> {
  const link = await netlink.linkByName(interfaceName);
  const what = `"${interfaceName}" in the pod`;
  if (link === undefined) {
    yield `${what} is gone`;
    return;
  }
  yield* differ(`the kind of ${what}`, link.kind, "veth");
  yield* linkDifferences(what, link, { mac: wanted.mac, mtu: wanted.podMtu });
  const addresses = (await netlink.addresses()).filter(({ linkIndex }) => linkIndex === link.index);
  for (const address of wanted.addresses) {
    if (!addresses.some((each) => each.address === address && each.prefixLength === 32)) {
      yield `the address ${address}/32 of ${what} is gone`;
    }
  }
  yield* routeDifferences("in the pod", podRoutes(wanted.routes, link.index, wanted.metric ?? 0), netlink, {
    anyMetric: wanted.metric === undefined,
  });
  const neighbours = await netlink.neighbours();
  const neighbour = neighbours.find(({ linkIndex, address }) => linkIndex === link.index && address === gateway);
  yield* differ(`the permanent neighbour ${gateway} of ${what}`, neighbour?.mac, hostMac);
}

function* linkDifferences(
  what: string,
  link: Link,
  { mac, mtu }: { readonly mac: string | undefined; readonly mtu: number | undefined },
): Generator<string> {
  yield* differ(`the MAC of ${what}`, link.mac, mac ?? link.mac);
  yield* differ(`the MTU of ${what}`, link.mtu, mtu ?? link.mtu);
  if (!link.up) {
    yield `${what} is down`;
  }
}

async function* routeDifferences(
  where: string,
  wanted: readonly Route[],
  netlink: Netlink,
  { anyMetric = false } = {},
): AsyncGenerator<string> {
  const actual = await netlink.routes();
  for (const route of wanted) {
    const isThere = actual.some(
      (each) =>
        each.destination === route.destination &&
        each.table === route.table &&
        each.linkIndex === route.linkIndex &&
        each.gateway === route.gateway &&
        (anyMetric || each.metric === route.metric),
    );
    if (!isThere) {
      yield `the route ${route.destination} ${where} is gone, or leads elsewhere`;
    }
  }
}

type Value = string | number | boolean | undefined;

function* differ(what: string, actual: Value, wanted: Value) {
  if (actual !== wanted) {
    yield `${what} is ${show(actual)}, not ${show(wanted)}`;
  }
}

function show(value: Value): string {
  return value === undefined ? "missing" : JSON.stringify(value);
}

function list(addresses: readonly string[]): string {
  return addresses.toSorted().join(", ");
}
