/** Where an interface's addresses come from: the node's own pool, or another plugin that the configuration names. */
import {
  CniCode,
  type CniCommand,
  CniError,
  type CniVersion,
  type Environment,
  newestVersion,
  parseResult,
} from "@containernetworking/cni-types-ts";
import { z } from "zod";
import { describeOwner } from "../src/ipam/lease-store.ts";
import type { Pool } from "../src/ipam/pool.ts";
import type { NodeState } from "../src/node-state.ts";
import type { Attachment } from "./attachment.ts";
import { ownIpam, type PluginConfiguration } from "./config.ts";
import { delegate } from "./delegate.ts";
import { type Given, givenBy } from "./given.ts";
import type { Host } from "./host.ts";
import { defaultRoute } from "./pod.ts";

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
  /** Names of the pools that it may come from, if not any. */
  readonly pools: readonly string[] | undefined;
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
  /** The descriptor of the container's lock, where the call holds it. */
  readonly lock?: number;
  /** Of all the node's links: no pod can have one of them. */
  readonly nodeAddresses: () => Promise<readonly string[]>;
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
    async add(attachment, node, { wanted, pools }) {
      const blocks = pools === undefined ? node.blocks : pools.flatMap((name) => blocksOfPool(name, node));
      const { address } = await leases.reserve(attachment, { ...node, blocks }, wanted);
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
        : `no address is free: ${none ? "the node has no block of a pool that pods get addresses from unasked" : `all in ${node.blocks.join(", ")} are leased`}`;
    },
    async gc() {}, // each lease goes with its attachment
  };
}

function blocksOfPool(name: string, { nodeName, pools = [] }: NodeState): readonly string[] {
  const pool = pools.find((each) => each.name === name);
  const usable = pools.filter(({ disabled, blocks }) => !disabled && blocks.length > 0);
  const allowed = `allowed are ${usable.map((each) => `"${each.name}"`).join(", ") || "no others either"}`;
  const refuse = (problem: string) =>
    new CniError(
      CniCode.InvalidConfiguration,
      `Cannot reserve an address from the pool "${name}": ${problem}, ${allowed}`,
    );
  if (pool === undefined) {
    throw refuse("there is no pool of that name");
  }
  if (pool.disabled) {
    throw refuse("it is disabled");
  }
  if (pool.blocks.length === 0) {
    throw refuse(`node "${nodeName}" has no block of it`);
  }
  return pool.blocks;
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
      const result = parseResult(await call("ADD"), cniVersion);
      const { tunnelAddress } = node;
      return givenBy(type, result, { tunnelAddress, nodeAddresses: await delegation.nodeAddresses() });
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
      await callIfKnown("STATUS");
      return undefined;
    },
    gc: () => callIfKnown("GC"),
  };

  /** Whatever a plugin that does not know the verb answers to it says nothing: old ones even miss a container. */
  async function callIfKnown(command: "GC" | "STATUS"): Promise<void> {
    try {
      await call(command);
    } catch (error) {
      const { code } = CniError.from(error);
      const isUnknown = code === CniCode.InvalidEnvironment || code === CniCode.IncompatibleVersion;
      if (!isUnknown && !(await isOlderThanVerbs())) {
        throw error;
      }
    }
  }

  async function isOlderThanVerbs(): Promise<boolean> {
    const { data } = versions.safeParse(await call("VERSION").catch(() => undefined));
    return data !== undefined && !data.supportedVersions.includes(newestVersion);
  }
}

/** What a plugin answers to VERSION. GC and STATUS came with the newest. */
const versions = z.looseObject({ supportedVersions: z.array(z.string()) });
