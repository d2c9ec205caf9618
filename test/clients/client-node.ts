/** A node as container runtimes find it: plugins in one directory, a way out to a machine that is no pod. */
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { assetPath } from "../../src/assets.ts";
import { type Command, type Output, type Process, run, start } from "../../src/exec.ts";
import { TestNode } from "../kernel/cni/node.ts";
import { waitFor } from "../lib/wait.ts";

/** Where Debian's containernetworking-plugins puts them. */
const debianPlugins = "/usr/lib/cni";

/** The node's own address, on its link to the machine outside. */
export const nodeAddress = "192.0.2.1";
/** What pods get, in this order. */
export const podAddresses = ["10.100.15.129", "10.100.15.130", "10.100.15.131"] as const;
/** What web servers answer. */
export const page = "hello from a pod";

export class ClientNode implements AsyncDisposable {
  readonly node: TestNode;
  /** Path of the node's network namespace. */
  readonly namespace: string;
  /** Path of the network namespace of the machine outside, which routes pods' addresses to the node. */
  readonly outside: string;
  /** For what runtimes keep. In memory, in the tier's sandbox. */
  readonly directory: string;
  /** Ours, installed as README says, beside those of Debian. */
  readonly pluginDirectory: string;

  static async create(): Promise<ClientNode> {
    const node = await TestNode.create();
    await node.writeState();
    const made = new ClientNode(node, await node.createPod(), await mkdtemp("/run/cni-ipip-clients-"));
    await made.#writeFiles();
    await made.#connectOutside();
    return made;
  }

  private constructor(node: TestNode, outside: string, directory: string) {
    this.node = node;
    this.namespace = `/run/netns/${node.namespace}`;
    this.outside = outside;
    this.directory = directory;
    this.pluginDirectory = join(directory, "plugins");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node.remove();
    await rm(this.directory, { recursive: true });
  }

  /** Our entry in a list of plugins. */
  get ourPlugin(): { type: "cni-ipip"; runDir: string; stateDir: string } {
    return { type: "cni-ipip", runDir: this.node.runDir, stateDir: this.node.stateDir };
  }

  run(command: Command): Promise<Output> {
    return run(inside(this.namespace, command));
  }

  start(command: Command): Process {
    return start(inside(this.namespace, command));
  }

  /** Answers with `page` on port 80, in a network namespace, until it is disposed of. */
  serve(namespace: string): Disposable {
    const args = ["httpd", "-f", "-p", "80", "-h", this.directory];
    const server = start(inside(namespace, { file: "busybox", args }));
    return { [Symbol.dispose]: () => server.kill("SIGKILL") };
  }

  async #writeFiles(): Promise<void> {
    await writeFile(join(this.directory, "index.html"), page);
    await mkdir(this.pluginDirectory);
    await symlink(assetPath("cni-ipip"), join(this.pluginDirectory, "cni-ipip"));
    for (const name of await readdir(debianPlugins)) {
      await symlink(join(debianPlugins, name), join(this.pluginDirectory, name));
    }
  }

  async #connectOutside(): Promise<void> {
    const onNode = [
      `link add uplink type veth peer name eth0 netns ${this.outside.slice("/run/netns/".length)}`,
      `address add ${nodeAddress}/24 dev uplink`,
      "link set uplink up",
      "link set lo up",
    ];
    const outside = [
      "address add 192.0.2.2/24 dev eth0",
      "link set eth0 up",
      `route add 10.100.0.0/16 via ${nodeAddress}`,
    ];
    await this.run({ file: "ip", args: ["-batch", "-"], input: onNode.join("\n") });
    await run(inside(this.outside, { file: "ip", args: ["-batch", "-"], input: outside.join("\n") }));
    // As sync does.
    await this.run({ file: "sysctl", args: ["-q", "-w", "net.ipv4.ip_forward=1"] });
  }
}

/** The same command in a network namespace. */
export function inside(namespace: string, command: Command): Command {
  return { ...command, file: "nsenter", args: [`--net=${namespace}`, command.file, ...command.args] };
}

/** One echo request. Throws when no answer comes within the time. */
export async function ping(namespace: string, address: string, timeoutSeconds = 5): Promise<void> {
  const args = ["-n", "-c", "1", "-W", String(timeoutSeconds), address];
  await run(inside(namespace, { file: "ping", args }));
}

/** What a web server answers to a network namespace. It may take a while until it listens. */
export async function get(namespace: string, url: string): Promise<string> {
  const command = inside(namespace, { file: "busybox", args: ["wget", "-q", "-O", "-", url], timeoutMs: 5_000 });
  const what = `an answer of ${url}`;
  return (await waitFor(async () => (await run(command)).stdout, { what, timeoutMs: 10_000 })).value;
}
