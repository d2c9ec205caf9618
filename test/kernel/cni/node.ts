/** A node for tests: a network namespace, state directories, pods' namespaces, and the plugin run as a runtime runs it. */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { assetPath } from "../../../src/assets.ts";
import { type Command, type Process, run, start } from "../../../src/exec.ts";
import { loadGuards } from "../../../src/guard/load.ts";
import { guardPinDirectory } from "../../../src/guard/pins.ts";
import { WorkloadGuard } from "../../../src/guard/workload-guard.ts";
import { DiskLeases } from "../../../src/ipam/disk-leases.ts";
import { NetworkNamespace } from "../../../src/linux/namespace.ts";
import { type NodeState, readNodeState, writeNodeState } from "../../../src/node-state.ts";
import { EndpointStore } from "../../../src/workload/endpoint-store.ts";
import { LabDatastore } from "../../lib/lab-datastore.ts";

const plugin = join(import.meta.dirname, "../../../cni/main.ts");

export interface Call {
  readonly containerId?: string;
  readonly netns?: string;
  readonly interfaceName?: string;
  readonly args?: string;
  /** Fields on top of the usual configuration. */
  readonly config?: object;
  /** Variables on top of the usual ones. */
  readonly env?: Readonly<Record<string, string>>;
  /** The program to call in the plugin's place. */
  readonly program?: string;
}

/** Everything that the plugin can leave behind on a node. */
export interface Remains {
  readonly hostLinks: readonly string[];
  /** Destinations of routes through host links. */
  readonly routes: readonly string[];
  readonly leases: readonly string[];
  /** Files beside leases and endpoints that are neither, and owners' files without a lease. */
  readonly strayFiles: readonly string[];
  readonly endpoints: number;
  /** Links that the workload guard knows of. */
  readonly guarded: readonly number[];
}

export const nothing: Remains = {
  hostLinks: [],
  routes: [],
  leases: [],
  strayFiles: [],
  endpoints: 0,
  guarded: [],
};

export interface Answer {
  readonly exitCode: number;
  // biome-ignore lint/suspicious/noExplicitAny: what the plugin prints is what the tests are about
  readonly json: any;
  readonly stderr: string;
}

export class TestNode {
  readonly namespace: string;
  readonly runDir: string;
  readonly stateDir: string;
  readonly datastore: LabDatastore;
  readonly #directory: string;
  #pods = 0;
  readonly #namespaces = new Set<string>();
  #opened: NetworkNamespace | undefined;

  static async create(): Promise<TestNode> {
    const node = new TestNode(await mkdtemp(join(tmpdir(), `cni-node-${process.pid}-`)));
    await node.#addNamespace(node.namespace);
    node.#opened = await NetworkNamespace.open(`/run/netns/${node.namespace}`);
    await node.loadGuard();
    return node;
  }

  private constructor(directory: string) {
    this.#directory = directory;
    this.namespace = basename(directory);
    this.runDir = join(directory, "run");
    this.stateDir = join(directory, "state");
    this.datastore = new LabDatastore(join(directory, "cluster"));
  }

  async remove(): Promise<void> {
    await this.#opened?.close();
    for (const name of [...this.#namespaces]) {
      await this.removeNamespace(`/run/netns/${name}`);
    }
    await run({ file: "umount", args: [join(this.runDir, "bpf")] });
    await rm(this.#directory, { recursive: true });
  }

  /** As sync does at its start. */
  async loadGuard(): Promise<void> {
    const guard = await loadGuards(this.runDir);
    guard.close();
  }

  /** What any other process can see of the workload guard. Close it. */
  openGuard(): WorkloadGuard {
    const guard = WorkloadGuard.openPinned(guardPinDirectory(this.runDir));
    if (guard === undefined) {
      throw new Error(`Cannot open the workload guard: it is not pinned in "${this.runDir}"`);
    }
    return guard;
  }

  /** @returns the path of a new network namespace, as a runtime would make it for a container */
  async createPod(): Promise<string> {
    const name = `${this.namespace}-pod-${this.#pods++}`;
    await this.#addNamespace(name);
    return `/run/netns/${name}`;
  }

  /** Starts a program in a pod's namespace, which lives as long as that. */
  keepAlive(netns: string): { stop: () => Promise<void> } {
    const keeper = start({ file: "nsenter", args: [`--net=${netns}`, "sleep", "600"] });
    return {
      async stop() {
        keeper.kill("SIGKILL");
        await keeper.ended.catch(() => undefined);
      },
    };
  }

  /** Another namespace is at the path. Who still uses the former one keeps it alive. */
  async replaceNamespace(path: string): Promise<void> {
    await this.removeNamespace(path);
    await this.#addNamespace(path.slice("/run/netns/".length));
  }

  async removeNamespace(path: string): Promise<void> {
    const name = path.slice("/run/netns/".length);
    await run({ file: "ip", args: ["netns", "del", name] });
    this.#namespaces.delete(name);
  }

  /** What sync would have written after its first snapshot. */
  async writeState(changes: Partial<NodeState> = {}): Promise<void> {
    const state: NodeState = {
      version: 1,
      nodeName: "node1",
      mtu: 1480,
      tunnelAddress: "10.100.15.128",
      blocks: ["10.100.15.128/26"],
      ...changes,
    };
    await this.#openBlocks([...state.blocks, ...(state.pools ?? []).flatMap(({ blocks }) => blocks)]);
    await writeNodeState(this.runDir, state);
  }

  async call(command: string, call: Call): Promise<Answer> {
    const { exitCode, stdout, stderr } = await this.start(command, call).ended;
    return { exitCode, json: stdout === "" ? undefined : JSON.parse(stdout), stderr };
  }

  /** The process is the plugin itself. */
  start(command: string, call: Call): Process {
    return start({ ...this.command(command, call), okExitCodes: [1] });
  }

  /** How a runtime calls the plugin. */
  command(
    command: string,
    { containerId = "", netns = "", interfaceName = "eth0", args, config, env, program }: Call,
  ): Command & { readonly input: string; readonly env: Readonly<Record<string, string>> } {
    return {
      file: "nsenter",
      args: [`--net=/run/netns/${this.namespace}`, process.execPath, program ?? plugin],
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: containerId,
        CNI_NETNS: netns,
        CNI_IFNAME: interfaceName,
        CNI_PATH: "/opt/cni/bin",
        ...(args === undefined ? {} : { CNI_ARGS: args }),
        ...env,
      },
      input: JSON.stringify({
        cniVersion: "1.1.0",
        name: "pods",
        type: "cni-ipip",
        runDir: this.runDir,
        stateDir: this.stateDir,
        ...config,
      }),
    };
  }

  /**
   * The node agent, of a cluster that has no document of this node unless the test writes one.
   *
   * @param changes fields on top of the usual configuration
   */
  async startSync(changes: object = {}): Promise<{ log: () => string; stop: () => Promise<void> }> {
    await this.datastore.writeSettings({ externalNodeCidrs: [] });
    const config = join(this.#directory, "sync.json");
    const { runDir, stateDir } = this;
    const datastore = { kind: "file", path: this.datastore.path };
    await writeFile(config, JSON.stringify({ nodeName: "node1", datastore, runDir, stateDir, ...changes }));
    let log = "";
    const sync = start({
      file: "nsenter",
      args: [`--net=/run/netns/${this.namespace}`, assetPath("cni-ipip"), "sync", "--config", config],
      onOutput: (text) => {
        log += text;
      },
    });
    const stop = async () => {
      sync.kill("SIGKILL");
      await sync.ended.catch(() => undefined);
    };
    return { log: () => log, stop };
  }

  /** Runs ip(8) on the node and reads its answer. */
  // biome-ignore lint/suspicious/noExplicitAny: ip(8) has no types
  ip(...args: string[]): Promise<any> {
    return ip(this.namespace, args);
  }

  /** Runs ip(8) in a pod's namespace and reads its answer. */
  // biome-ignore lint/suspicious/noExplicitAny: ip(8) has no types
  podIp(netns: string, ...args: string[]): Promise<any> {
    return ip(netns.slice("/run/netns/".length), args);
  }

  async sysctl(key: string): Promise<string> {
    const file = join("/proc/sys/net", key);
    const { stdout } = await run({ file: "nsenter", args: [`--net=/run/netns/${this.namespace}`, "cat", file] });
    return stdout;
  }

  /** Names of the host links that are there. */
  async hostLinks(): Promise<string[]> {
    const links: { readonly ifname: string }[] = await this.ip("link");
    return links.map(({ ifname }) => ifname).filter((name) => name.startsWith("cali"));
  }

  /** The addresses that are leased, of all blocks. */
  async leases(): Promise<string[]> {
    const files = await readdir(join(this.stateDir, "leases/blocks"), { recursive: true }).catch(() => []);
    return files.map((file) => file.split("/")[1] ?? "").filter((name) => name !== "" && !name.startsWith("."));
  }

  async damageEndpoints(): Promise<void> {
    const directory = join(this.runDir, "endpoints");
    for (const name of await readdir(directory)) {
      await writeFile(join(directory, name), '{"version":1');
    }
  }

  /** Runs a synchronous action in the node's network namespace. */
  enter<Result>(action: () => Result): Result {
    if (this.#opened === undefined) {
      throw new Error("Cannot enter the node's namespace: it is not open");
    }
    return this.#opened.enter(action);
  }

  async remains(): Promise<Remains> {
    using guard = this.openGuard();
    const files = [this.stateDir, join(this.runDir, "endpoints")].map((path) =>
      readdir(path, { recursive: true }).catch(() => []),
    );
    const leases = await this.leases();
    const owners = await readdir(join(this.stateDir, "leases/owners")).catch(() => []);
    const hidden = (await Promise.all(files))
      .flat()
      .map((file) => basename(file))
      .filter((name) => name.startsWith("."));
    const routes: { readonly dst: string; readonly dev?: string }[] = await this.ip("route", "show", "table", "main");
    return {
      hostLinks: await this.hostLinks(),
      routes: routes.filter(({ dev }) => dev?.startsWith("cali")).map(({ dst }) => dst),
      leases,
      strayFiles: [...hidden.filter((name) => name !== ".free"), ...owners.slice(leases.length)],
      endpoints: (await new EndpointStore(this.runDir).list()).length,
      guarded: guard.linkIndexes(),
    };
  }

  /** The disk is lost: nothing is known of any lease, and of the order in which they were given. */
  async forgetLeases(): Promise<void> {
    await rm(this.stateDir, { recursive: true });
    await this.#openBlocks((await readNodeState(this.runDir))?.blocks ?? []);
  }

  /** As sync does before it names a block to the plugin. */
  async #openBlocks(blocks: readonly string[]): Promise<void> {
    const leases = new DiskLeases(join(this.stateDir, "leases"));
    for (const block of blocks) {
      await leases.openBlock(block);
    }
  }

  async #addNamespace(name: string): Promise<void> {
    await run({ file: "ip", args: ["netns", "add", name] });
    this.#namespaces.add(name);
  }
}

async function ip(namespace: string, args: readonly string[]): Promise<unknown> {
  const { stdout } = await run({ file: "ip", args: ["-n", namespace, "-d", "-j", ...args] });
  return stdout === "" ? [] : JSON.parse(stdout);
}

/** The process's state as proc(5) has it: T is stopped. */
export async function stateOf({ pid }: Process): Promise<string> {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  return /State:\t(.)/.exec(status)?.[1] ?? "gone";
}
