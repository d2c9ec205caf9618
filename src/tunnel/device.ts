/** tunl0: the kernel's IPIP device that carries packets between nodes. */
import { ensureSysctl } from "../linux/sysctl.ts";
import type { Address } from "../netlink/address.ts";
import type { Link } from "../netlink/link.ts";
import type { Netlink } from "../netlink/netlink.ts";
import { NetlinkError } from "../netlink/socket.ts";

export const tunnelName = "tunl0";

/** Bytes that the outer IPv4 header takes from each packet. */
export const outerHeaderLength = 20;

const anyAddress = "0.0.0.0";

export interface TunnelDevice {
  /** In bytes. */
  readonly mtu: number;
  /** The only IPv4 address, as a /32; none while the node has no block, or no pool is reached by the tunnel. */
  readonly address: string | undefined;
}

/**
 * Makes tunl0 what it should be and changes nothing that is right: there under its name, of kind ipip, with this MTU and
 * exactly this address, no strict rp_filter, and up.
 *
 * The device of a namespace that the module made (local any, remote any) cannot be deleted, and while it has another
 * name no second one can be made: it is found by what it is and named back.
 *
 * @param actual what was listed just now
 * @returns the device's index and what was done, in words
 */
export async function keepIpipDeviceInSync(
  netlink: Netlink,
  wanted: TunnelDevice,
  actual: { readonly links: readonly Link[]; readonly addresses: readonly Address[] },
): Promise<{ index: number; changes: string[] }> {
  const changes: string[] = [];
  const device = await findOrCreate(netlink, actual.links, changes);
  if (device.mtu !== wanted.mtu) {
    await netlink.setLink(device.index, { mtu: wanted.mtu });
    changes.push(`MTU ${device.mtu} -> ${wanted.mtu}`);
  }
  // Loose: a reply may come back by another link than the route to its source names. The kernel takes the larger of
  // this and conf/all, and is strict on a link without address unless both are 0.
  const reversePathFilter = wanted.address === undefined ? 0 : 2;
  if (ensureSysctl(`ipv4/conf/${tunnelName}/rp_filter`, reversePathFilter)) {
    changes.push(`rp_filter -> ${reversePathFilter}`);
  }
  const addresses = actual.addresses.filter(({ linkIndex }) => linkIndex === device.index);
  changes.push(...(await setLinkAddressV4(netlink, device.index, wanted.address, addresses)));
  if (!device.up) {
    await netlink.setLink(device.index, { up: true });
    changes.push("up");
  }
  return { index: device.index, changes };
}

/** Leaves the link with exactly this IPv4 address, which is added before others are removed. */
async function setLinkAddressV4(
  netlink: Netlink,
  linkIndex: number,
  wanted: string | undefined,
  actual: readonly Address[],
): Promise<string[]> {
  const changes: string[] = [];
  const isWanted = ({ address, prefixLength, peer }: Address) =>
    address === wanted && prefixLength === 32 && peer === undefined;
  if (wanted !== undefined && !actual.some(isWanted)) {
    await netlink.addAddress(linkIndex, wanted, 32);
    changes.push(`address ${wanted}/32 added`);
  }
  for (const other of actual.filter((each) => !isWanted(each))) {
    await netlink.removeAddress(other);
    changes.push(`address ${other.address}/${other.prefixLength} removed`);
  }
  return changes;
}

/** The device that takes IPIP packets which no other ipip device claims, whatever its name is now. */
export function findTunnelDevice(links: readonly Link[]): Link | undefined {
  const isTunnelDevice = ({ kind, tunnel }: Link) =>
    kind === "ipip" && tunnel?.local === anyAddress && tunnel.remote === anyAddress && !tunnel.collectMetadata;
  return links.find((link) => link.name === tunnelName && isTunnelDevice(link)) ?? links.find(isTunnelDevice);
}

async function findOrCreate(netlink: Netlink, links: readonly Link[], changes: string[]): Promise<Link> {
  refuseForeignDevice(links);
  const found = findTunnelDevice(links) ?? (await create(netlink, changes));
  if (found.name !== tunnelName) {
    // Kernels before 6.2 refuse to rename a link that is up.
    await netlink.setLink(found.index, { up: false });
    await netlink.setLink(found.index, { name: tunnelName });
    changes.push(`renamed from "${found.name}"`);
    return { ...found, name: tunnelName, up: false };
  }
  return found;
}

async function create(netlink: Netlink, changes: string[]): Promise<Link> {
  try {
    await netlink.createLink("ipip", { name: tunnelName });
  } catch (error) {
    throwUnlessExists(error);
  }
  const device = findTunnelDevice(await netlink.links());
  if (!device) {
    throw new Error(`Cannot find the link "${tunnelName}" that was just created: something removes it`);
  }
  changes.push("created");
  return device;
}

/** Loading the module makes tunl0 by itself, so that the request which loaded it then fails. */
function throwUnlessExists(error: unknown): void {
  if (error instanceof NetlinkError && error.code === "EEXIST") {
    return;
  }
  if (error instanceof NetlinkError && error.code === "ENOTSUP") {
    const remedy = 'the kernel has no "ipip" module, install or enable it (modprobe ipip)';
    throw new Error(`Cannot create the link "${tunnelName}": ${remedy}`, { cause: error });
  }
  throw error;
}

function refuseForeignDevice(links: readonly Link[]): void {
  const named = links.find(({ name }) => name === tunnelName);
  if (named && named.kind !== "ipip") {
    const kind = named.kind === undefined ? "a link of no kind" : `of kind "${named.kind}"`;
    throw new Error(`Cannot use the link "${tunnelName}": it is ${kind}, rename or remove it so that it can be "ipip"`);
  }
}
