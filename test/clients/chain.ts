/**
 * A list of plugins, executed as a runtime does: CNI spec 1.0.0, section 3, "Execution of Network Configurations", for ADD,
 * CHECK and DEL.
 */
import type { ClientNode } from "./client-node.ts";

export interface ChainList {
  readonly cniVersion?: string;
  readonly name?: string;
  readonly plugins: readonly ChainPlugin[];
}

export interface ChainPlugin {
  readonly type: string;
  /** Names of values that the runtime passes to this plugin in `runtimeConfig`. */
  readonly capabilities?: Readonly<Record<string, boolean>>;
  readonly [field: string]: unknown;
}

export interface ChainCall {
  readonly containerId: string;
  readonly netns: string;
  readonly interfaceName?: string;
  /** Values by the names of capabilities. */
  readonly runtimeConfig?: Readonly<Record<string, unknown>>;
}

// biome-ignore lint/suspicious/noExplicitAny: what plugins answer is what the tests are about
type Result = any;

export class Chain {
  readonly #world: ClientNode;
  readonly #list: Required<ChainList>;
  /** Of the last plugin, which later calls are given: by container and interface. */
  readonly #results = new Map<string, Result>();

  constructor(world: ClientNode, { cniVersion = "1.0.0", name = "pods", plugins }: ChainList) {
    this.#world = world;
    this.#list = { cniVersion, name, plugins };
  }

  /**
   * @returns what the last plugin answered
   * @throws an error with what the first plugin that fails says; the ones before it are not undone, as with runtimes,
   *   which call DEL then
   */
  async add(call: ChainCall): Promise<Result> {
    let result: Result;
    for (const plugin of this.#list.plugins) {
      result = await this.#execute("ADD", plugin, call, result);
    }
    this.#results.set(key(call), result);
    return result;
  }

  async check(call: ChainCall): Promise<void> {
    for (const plugin of this.#list.plugins) {
      await this.#execute("CHECK", plugin, call, this.#results.get(key(call)));
    }
  }

  /** The last plugin first. */
  async del(call: ChainCall): Promise<void> {
    for (const plugin of this.#list.plugins.toReversed()) {
      await this.#execute("DEL", plugin, call, this.#results.get(key(call)));
    }
    this.#results.delete(key(call));
  }

  async #execute(command: string, plugin: ChainPlugin, call: ChainCall, prevResult: Result): Promise<Result> {
    const { cniVersion, name } = this.#list;
    const { type, capabilities = {}, ...fields } = plugin;
    const values = Object.entries(call.runtimeConfig ?? {}).filter(([capability]) => capabilities[capability]);
    const runtimeConfig = values.length === 0 ? {} : { runtimeConfig: Object.fromEntries(values) };
    const { exitCode, stdout } = await this.#world.run({
      file: `${this.#world.pluginDirectory}/${type}`,
      args: [],
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: call.containerId,
        CNI_NETNS: call.netns,
        CNI_IFNAME: call.interfaceName ?? "eth0",
        CNI_PATH: this.#world.pluginDirectory,
      },
      input: JSON.stringify({ ...fields, type, cniVersion, name, ...runtimeConfig, prevResult }),
      okExitCodes: [1],
    });
    if (exitCode !== 0) {
      throw new Error(`${command} of "${type}": ${stdout}`);
    }
    return stdout === "" ? undefined : JSON.parse(stdout);
  }
}

function key({ containerId, interfaceName = "eth0" }: ChainCall): string {
  return `${containerId}/${interfaceName}`;
}
