/** A node of a lab: its namespace, its directories, its sync, and calls of the plugin as a container runtime makes them. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { assetPath } from "../../src/assets.ts";
import type { Process } from "../../src/exec.ts";
import type { LabDatastore } from "./lab-datastore.ts";
import type { Namespace } from "./namespace.ts";

const PROGRAM = assetPath("cni-ipip");

export type GuardAttach = "tc" | "xdp-native";

interface LabNodeFields {
  readonly name: string;
  /** With prefix length. */
  readonly address: string;
  readonly block: string;
  readonly namespace: Namespace;
}

export interface CniCall {
  readonly pod: Namespace;
  /** Also the container's id. */
  readonly podName: string;
  /** Fields on top of the usual configuration. */
  readonly config?: object;
}

export interface CniAnswer {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export class LabNode {
  readonly name: string;
  readonly address: string;
  readonly block: string;
  readonly namespace: Namespace;
  readonly runDir: string;
  readonly stateDir: string;
  readonly configFile: string;
  #sync: Process | undefined;
  #log = "";

  static async create(
    options: LabNodeFields & {
      readonly directory: string;
      readonly datastore: LabDatastore;
      readonly attach: GuardAttach;
    },
  ): Promise<LabNode> {
    const node = new LabNode(options, join(options.directory, options.name));
    await mkdir(node.runDir, { recursive: true });
    const config = {
      nodeName: node.name,
      datastore: { kind: "file", path: options.datastore.path },
      runDir: node.runDir,
      stateDir: node.stateDir,
      guard: { attach: options.attach },
    };
    await writeFile(node.configFile, `${JSON.stringify(config, undefined, 2)}\n`);
    return node;
  }

  private constructor({ name, address, block, namespace }: LabNodeFields, directory: string) {
    this.name = name;
    this.address = address;
    this.block = block;
    this.namespace = namespace;
    this.runDir = join(directory, "run");
    this.stateDir = join(directory, "state");
    this.configFile = join(directory, "sync.json");
  }

  /** The node's address without prefix length. */
  get host(): string {
    return this.address.replace(/\/.*$/, "");
  }

  /** What sync wrote to its log, over all its starts. */
  get log(): string {
    return this.#log;
  }

  /** Starts `cni-ipip sync`. It may be running already only if it was killed. */
  startSync(): Process {
    this.#sync = this.namespace.start({
      file: PROGRAM,
      args: ["sync", "--config", this.configFile],
      onOutput: (text) => {
        this.#log += text;
      },
    });
    return this.#sync;
  }

  /** Asks sync to end, or with SIGKILL ends it, and waits until it is gone. Content when it does not run. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    this.#sync?.kill(signal);
    await this.#sync?.ended.catch(() => undefined);
    this.#sync = undefined;
  }

  async cni(command: "ADD" | "DEL" | "CHECK", { pod, podName, config = {} }: CniCall): Promise<CniAnswer> {
    const environment = {
      CNI_CONTAINERID: podName,
      CNI_NETNS: pod.path,
      CNI_IFNAME: "eth0",
      CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${podName}`,
    };
    return this.#callPlugin(command, environment, { cniVersion: "1.0.0", ...config });
  }

  /** Whether pods can be added now. */
  async cniStatus(): Promise<CniAnswer> {
    return this.#callPlugin("STATUS", {}, { cniVersion: "1.1.0" });
  }

  #callPlugin(command: string, environment: Readonly<Record<string, string>>, config: object): Promise<CniAnswer> {
    return this.namespace.run({
      file: PROGRAM,
      args: [],
      env: { CNI_COMMAND: command, CNI_PATH: "/opt/cni/bin", ...environment },
      input: JSON.stringify({
        name: "pods",
        type: "cni-ipip",
        runDir: this.runDir,
        stateDir: this.stateDir,
        ...config,
      }),
      okExitCodes: [1],
    });
  }
}
