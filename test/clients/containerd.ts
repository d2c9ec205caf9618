/** A containerd of the test's own, run on a node, with pods as a kubelet would make them. */
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Process } from "../../src/exec.ts";
import { waitFor } from "../lib/wait.ts";
import { ClientNode } from "./client-node.ts";
import { CriClient } from "./cri.ts";
import { imageName, packImage } from "./image.ts";

export interface PodRequest {
  readonly name: string;
  /** Some are for plugins. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** TCP ports: of the node to the pod's. */
  readonly ports?: readonly { readonly hostPort: number; readonly containerPort: number }[];
}

export interface Pod {
  readonly id: string;
  readonly isReady: boolean;
  readonly address: string;
  readonly processId: number;
  /** Path of the network namespace that the pod's process is in. */
  readonly namespace: string;
}

const startLimitMs = 20_000;

export class Containerd implements AsyncDisposable {
  readonly world: ClientNode;
  #log = "";
  #process: Process | undefined;
  #client: CriClient | undefined;

  /**
   * Starts one, hands it over, and ends it with all its pods. Its log is shown where any of it fails.
   *
   * @param plugins behind ours in the list
   */
  static async with(plugins: readonly object[], use: (containerd: Containerd) => Promise<void>): Promise<void> {
    await using world = await ClientNode.create();
    await using containerd = new Containerd(world);
    try {
      await containerd.#configure([world.ourPlugin, ...plugins]);
      await containerd.launch();
      await containerd.#importImage();
      await use(containerd);
    } catch (error) {
      console.error(containerd.#log);
      throw error;
    }
  }

  private constructor(world: ClientNode) {
    this.world = world;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { items } = (await this.#client?.call("listPodSandbox")) ?? { items: [] };
    for (const { id } of items) {
      await this.stopPod(id);
      await this.removePod(id);
    }
    await this.kill();
  }

  /** Until it would take pods. */
  async launch(): Promise<void> {
    this.#process = this.world.start({
      file: "containerd",
      args: ["--config", this.#path("config.toml")],
      onOutput: (text) => {
        this.#log += text;
      },
    });
    const isReady = async () => {
      const client = new CriClient(this.#socket);
      const { status } = await client.call("status");
      this.#client = client;
      return status.conditions.every((condition: { status: number }) => condition.status === 1);
    };
    await waitFor(isReady, { what: "a containerd that is ready", timeoutMs: startLimitMs });
  }

  /** Pods stay. */
  async kill(): Promise<void> {
    this.#client?.close();
    this.#client = undefined;
    this.#process?.kill("SIGKILL");
    await this.#process?.ended.catch(() => undefined);
  }

  /** @throws an error with what containerd says of it */
  async runPod({ name, annotations = {}, ports = [] }: PodRequest): Promise<Pod> {
    const config = {
      metadata: { name, uid: `uid-of-${name}`, namespace: "default" },
      hostname: name,
      annotations: Object.entries(annotations).map(([key, value]) => ({ key, value })),
      portMappings: ports,
      linux: {},
    };
    const { id } = await this.#cri.call("runPodSandbox", { config });
    return this.pod(id);
  }

  async pod(id: string): Promise<Pod> {
    const { status, info } = await this.#cri.call("podSandboxStatus", { id, verbose: 1 });
    const { pid } = JSON.parse(info.find(({ key }: { key: string }) => key === "info").value);
    const { state, network } = status;
    return { id, isReady: state === 0, address: network.ip, processId: pid, namespace: `/proc/${pid}/ns/net` };
  }

  async stopPod(id: string): Promise<void> {
    await this.#cri.call("stopPodSandbox", { id });
  }

  async removePod(id: string): Promise<void> {
    await this.#cri.call("removePodSandbox", { id });
  }

  get #cri(): CriClient {
    if (!this.#client) {
      throw new Error("Cannot call containerd: it is not running");
    }
    return this.#client;
  }

  get #socket(): string {
    return this.#path("containerd.sock");
  }

  #path(name: string): string {
    return join(this.world.directory, name);
  }

  async #configure(plugins: readonly object[]): Promise<void> {
    await mkdir(this.#path("net.d"));
    const list = { cniVersion: "1.0.0", name: "pods", plugins };
    await writeFile(this.#path("net.d/10-pods.conflist"), JSON.stringify(list));
    // Which kind of cgroups a machine has, and whether it may be written, differs, and no network depends on it.
    await writeFile(this.#path("crun"), '#!/bin/sh\nexec /usr/bin/crun --cgroup-manager=disabled "$@"\n');
    await chmod(this.#path("crun"), 0o755);
    await writeFile(
      this.#path("config.toml"),
      `version = 2
root = "${this.#path("root")}"
state = "${this.#path("state")}"
# It makes a directory outside of ours.
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "${this.#socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "${imageName}"
# What a machine that is itself a container does not allow.
disable_apparmor = true
disable_cgroup = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "${this.world.pluginDirectory}"
conf_dir = "${this.#path("net.d")}"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "${this.#path("crun")}"
`,
    );
  }

  async #importImage(): Promise<void> {
    const file = await packImage(this.world.directory);
    const target = ["--address", this.#socket, "--namespace", "k8s.io"];
    const args = [...target, "images", "import", "--snapshotter", "native", file];
    await this.world.run({ file: "ctr", args });
    const isKnown = async () => (await this.#cri.call("imageStatus", { image: { image: imageName } })).image;
    await waitFor(isKnown, { what: "the image", timeoutMs: startLimitMs });
  }
}
