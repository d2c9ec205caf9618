/** Where an interface's addresses come from: the node's own pool, or another plugin that the configuration names. */

import { isIPv4 } from "node:net";
import {
  CniCode,
  type CniCommand,
  type CniDns,
  CniError,
  type CniVersion,
  type Environment,
  parseResult,
} from "@containernetworking/cni-types-ts";
import { describeOwner } from "../src/ipam/lease-store.ts";
import type { Pool } from "../src/ipam/pool.ts";
import type { NodeState } from "../src/node-state.ts";
import type { Attachment } from "./attachment.ts";
import { ownIpam, type PluginConfiguration } from "./config.ts";
import { delegate } from "./delegate.ts";
import type { Host } from "./host.ts";
import { defaultRoute } from "./pod.ts";

export interface Given {
  /** At least one, IPv4, without prefix length. */
  readonly addresses: readonly string[];
  /** Destinations that the interface leads to: CIDRs. */
  readonly routes: readonly string[];
  readonly dns?: CniDns;
}

export interface Ipam {
  /** The configuration's `ipam.type`. */
  readonly type: string;
  add(attachment: Attachment, node: NodeState, options: AddOptions): Promise<Given>;
  /** Content when nothing is held. */
  release(attachment: Attachment): Promise<void>;
  /** @returns what is wrong with who holds the addresses, in a sentence */
  check(attachment: Attachment, addresses: readonly string[]): Promise<string | undefined>;
  /** @returns why no address can be given, in a sentence, as far as it is known */
  shortage(node: NodeState): Promise<string | undefined>;
  /** Drops what no valid attachment stands for, where the plugin can. */
  gc(): Promise<void>;
}

interface AddOptions {
  /** The one address to give, if any will not do. */
  readonly wanted: string | undefined;
  /** Whether an earlier ADD, perhaps one that was killed, may hold addresses already. */
  readonly isRepeated: boolean;
}

/** How the runtime called this plugin, for the plugins that it calls itself. */
export interface Delegation {
  readonly environment: Environment;
  /** Directories with plugin programs. */
  readonly path: readonly string[];
  /** What the runtime wrote to standard input. */
  readonly configuration: string;
  readonly signal: AbortSignal;
  readonly log: Host["log"];
}

/** For a plugin that takes addresses back. */
const releaseLimitMs = 30_000;

export function ipamOf({ ipam, cniVersion }: PluginConfiguration, leases: Pool, delegation: Delegation): Ipam {
  const type = ipam?.type ?? ownIpam;
  return type === ownIpam ? poolIpam(leases) : pluginIpam(type, cniVersion, delegation);
}

/** The node's own pool. */
export function poolIpam(leases: Pool): Ipam {
  return {
    type: ownIpam,
    async add(attachment, node, { wanted }) {
      const { address } = await leases.reserve(attachment, node, wanted);
      return { addresses: [address], routes: [defaultRoute] };
    },
    release: (attachment) => leases.release(attachment),
    async check(attachment, addresses) {
      const held = (await leases.leaseOf(attachment))?.address;
      const missing = addresses.find((address) => address !== held);
      if (missing === undefined) {
        return undefined;
      }
      const other = await leases.ownerOf(missing);
      return `the address ${missing} is leased to ${other ? describeOwner(other) : "nobody"}`;
    },
    async shortage(node) {
      const none = node.blocks.length === 0;
      return (await leases.countFree(node)) > 0
        ? undefined
        : `no address is free: ${none ? "the node has no block" : `all in ${node.blocks.join(", ")} are leased`}`;
    },
    async gc() {}, // each lease goes with its attachment
  };
}

/** CNI spec 1.1.0, section 4: the plugin is called with the same environment and the same standard input. */
function pluginIpam(type: string, cniVersion: CniVersion, delegation: Delegation): Ipam {
  const call = (command: CniCommand, changes: Partial<Delegation> = {}) =>
    delegate(command, { type, ...delegation, ...changes });
  return {
    type,
    async add(_, node, { isRepeated }) {
      if (isRepeated) {
        await call("DEL"); // plugins such as host-local refuse a second ADD
      }
      return given(type, parseResult(await call("ADD"), cniVersion), node);
    },
    async release({ containerId, interfaceName }) {
      // Of an attachment that GC removes, the runtime's call says nothing; and one that was told to stop takes back too.
      const own = { CNI_CONTAINERID: containerId, CNI_IFNAME: interfaceName };
      const signal = AbortSignal.timeout(releaseLimitMs);
      await call("DEL", { environment: { ...delegation.environment, ...own }, signal });
    },
    async check() {
      await call("CHECK");
      return undefined;
    },
    async shortage() {
      await tolerateUnknown(call("STATUS"));
      return undefined;
    },
    gc: () => tolerateUnknown(call("GC")),
  };
}

/** Plugins from before version 1.1.0 refuse a verb that they do not know, or the version. */
async function tolerateUnknown(call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    const { code } = CniError.from(error);
    if (code !== CniCode.InvalidEnvironment && code !== CniCode.IncompatibleVersion) {
      throw error;
    }
  }
}

function given(type: string, result: ReturnType<typeof parseResult>, { tunnelAddress }: NodeState): Given {
  const addresses = result.ips.map(({ address }) => address.split("/")[0] ?? "");
  const routes = result.routes.map(({ dst }) => dst);
  const refuse = (problem: string) =>
    new CniError(CniCode.InvalidConfiguration, `Cannot use what the IPAM plugin "${type}" gave: ${problem}`);
  const foreign = [...addresses, ...routes].find((text) => !isIPv4(text.split("/")[0] ?? ""));
  if (foreign !== undefined) {
    throw refuse(`"${foreign}", allowed is IPv4, the network has no IPv6`);
  }
  if (addresses.length === 0) {
    throw refuse("no address, needed is at least one of IPv4");
  }
  if (tunnelAddress !== undefined && addresses.includes(tunnelAddress)) {
    throw refuse(`${tunnelAddress}, which is the tunnel's on this node, allowed is any other address`);
  }
  return { addresses, routes: routes.length === 0 ? [defaultRoute] : routes, ...(result.dns && { dns: result.dns }) };
}
