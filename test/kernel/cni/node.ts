/** A node for tests: a network namespace, state directories, pods' namespaces, and the plugin run as a runtime runs it. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { run } from "../../../src/exec.ts";
import { type NodeState, writeNodeState } from "../../../src/node-state.ts";

const plugin = join(import.meta.dirname, "../../../cni/main.ts");

export interface Call {
  readonly containerId: string;
  readonly netns?: string;
  readonly interfaceName?: string;
  readonly args?: string;
  /** Fields on top of the usual configuration. */
  readonly config?: object;
}

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
  readonly #directory: string;
  #pods = 0;
  readonly #namespaces = new Set<string>();

  static async create(): Promise<TestNode> {
    const node = new TestNode(await mkdtemp(join(tmpdir(), `cni-node-${process.pid}-`)));
    await node.#addNamespace(node.namespace);
    return node;
  }

  private constructor(directory: string) {
    this.#directory = directory;
    this.namespace = basename(directory);
    this.runDir = join(directory, "run");
    this.stateDir = join(directory, "state");
  }

  async remove(): Promise<void> {
    for (const name of [...this.#namespaces]) {
      await this.removeNamespace(`/run/netns/${name}`);
    }
    await rm(this.#directory, { recursive: true });
  }

  /** @returns the path of a new network namespace, as a runtime would make it for a container */
  async createPod(): Promise<string> {
    const name = `${this.namespace}-pod-${this.#pods++}`;
    await this.#addNamespace(name);
    return `/run/netns/${name}`;
  }

  async removeNamespace(path: string): Promise<void> {
    const name = path.slice("/run/netns/".length);
    await run({ file: "ip", args: ["netns", "del", name] });
    this.#namespaces.delete(name);
  }

  /** What sync would have written after its first snapshot. */
  async writeState(state: Partial<NodeState> = {}): Promise<void> {
    await writeNodeState(this.runDir, {
      version: 1,
      nodeName: "node1",
      mtu: 1480,
      tunnelAddress: "10.100.15.128",
      blocks: ["10.100.15.128/26"],
      ...state,
    });
  }

  async call(
    command: string,
    { containerId, netns = "", interfaceName = "eth0", args, config }: Call,
  ): Promise<Answer> {
    const { exitCode, stdout, stderr } = await run({
      file: "nsenter",
      args: [`--net=/run/netns/${this.namespace}`, process.execPath, plugin],
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: containerId,
        CNI_NETNS: netns,
        CNI_IFNAME: interfaceName,
        CNI_PATH: "/opt/cni/bin",
        ...(args === undefined ? {} : { CNI_ARGS: args }),
      },
      input: JSON.stringify({
        cniVersion: "1.1.0",
        name: "pods",
        type: "cni-ipip",
        runDir: this.runDir,
        stateDir: this.stateDir,
        ...config,
      }),
      okExitCodes: [1],
    });
    return { exitCode, json: stdout === "" ? undefined : JSON.parse(stdout), stderr };
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
    const files = await readdir(this.stateDir, { recursive: true }).catch(() => []);
    return files.map((file) => file.split("/")[2] ?? "").filter((name) => name !== "" && !name.startsWith("."));
  }

  /** The disk is lost: nothing is known of any lease, and of the order in which they were given. */
  async forgetLeases(): Promise<void> {
    await rm(this.stateDir, { recursive: true });
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
