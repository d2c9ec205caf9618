/** Podman with its CNI back end, run on a node, with all that it keeps in the node's directory. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../../src/exec.ts";
import { ClientNode, inside } from "./client-node.ts";
import { imageName, packImage } from "./image.ts";

export class Podman implements AsyncDisposable {
  readonly world: ClientNode;
  readonly #directory: string;

  /**
   * Prepares one, hands it over, and removes all its containers.
   *
   * @param plugins behind ours in the list of the network "pods"
   */
  static async with(plugins: readonly object[], use: (podman: Podman) => Promise<void>): Promise<void> {
    await using world = await ClientNode.create();
    await using podman = new Podman(world);
    await podman.#configure([world.ourPlugin, ...plugins]);
    await podman.run("load", "--quiet", "--input", await packImage(world.directory));
    await use(podman);
  }

  private constructor(world: ClientNode) {
    this.world = world;
    this.#directory = world.directory;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.run("rm", "--force", "--time", "0", "--all");
  }

  /** @returns what podman prints */
  async run(...args: string[]): Promise<string> {
    const command = {
      file: "podman",
      args,
      env: {
        CONTAINERS_CONF: this.#path("containers.conf"),
        CONTAINERS_STORAGE_CONF: this.#path("storage.conf"),
        TMPDIR: this.#directory,
      },
    };
    return (await run(inside(this.world.namespace, command))).stdout;
  }

  /** Starts a container that does nothing but wait. */
  async start(name: string, ...options: string[]): Promise<void> {
    await this.run("run", "--detach", "--name", name, ...options, imageName);
  }

  /** Runs a program of busybox in a container. */
  exec(container: string, ...command: string[]): Promise<string> {
    return this.run("exec", container, "/bin/busybox", ...command);
  }

  /** What podman tells of a container's networks, by their names. */
  // biome-ignore lint/suspicious/noExplicitAny: podman has no types
  async networks(container: string): Promise<any> {
    return JSON.parse(await this.run("inspect", "--format", "{{json .NetworkSettings.Networks}}", container));
  }

  async #configure(plugins: readonly object[]): Promise<void> {
    for (const [name, list] of Object.entries({ pods: plugins, more: [this.world.ourPlugin] })) {
      await mkdir(this.#path("net.d"), { recursive: true });
      const content = { cniVersion: "1.0.0", name, plugins: list };
      await writeFile(this.#path(`net.d/${name}.conflist`), JSON.stringify(content));
    }
    await writeFile(
      this.#path("containers.conf"),
      `[network]
network_backend = "cni"
cni_plugin_dirs = ["${this.world.pluginDirectory}"]
network_config_dir = "${this.#path("net.d")}"
default_network = "pods"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "crun"
tmp_dir = "${this.#path("tmp")}"
volume_path = "${this.#path("volumes")}"
[containers]
cgroups = "disabled"
log_driver = "none"
`,
    );
    await writeFile(
      this.#path("storage.conf"),
      `[storage]
driver = "vfs"
graphroot = "${this.#path("storage")}"
runroot = "${this.#path("run")}"
`,
    );
  }

  #path(name: string): string {
    return join(this.#directory, name);
  }
}
