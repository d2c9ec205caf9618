/** A network namespace of a test, and programs in it. */
import { type Command, type Output, type Process, run, start } from "../../src/exec.ts";

export class Namespace {
  readonly name: string;
  readonly path: string;

  /** Makes some by one call, since every program started costs 0.2 s in an emulated machine. The names must be free. */
  static async create<Names extends readonly string[]>(
    ...names: Names
  ): Promise<{ [Index in keyof Names]: Namespace }> {
    await batch(names.map((name) => `netns add ${name}`));
    return names.map((name) => new Namespace(name)) as { [Index in keyof Names]: Namespace };
  }

  /** Removes the names; the kernel drops the rest when the last process inside is gone. */
  static remove(namespaces: readonly Namespace[]): Promise<void> {
    return batch(namespaces.map(({ name }) => `netns delete ${name}`));
  }

  private constructor(name: string) {
    this.name = name;
    this.path = `/run/netns/${name}`;
  }

  /** Runs a program inside, as `run` does. Mounts stay those of the caller. */
  run(command: Command): Promise<Output> {
    return run(this.#inside(command));
  }

  /** Starts a program inside, as `start` does; its process id is that of the program itself. */
  start(command: Command): Process {
    return start(this.#inside(command));
  }

  /** Commands of ip(8) without the "ip", one a line. */
  ipBatch(...lines: string[]): Promise<void> {
    return batch(lines, "-n", this.name);
  }

  async ip(...args: string[]): Promise<string> {
    return (await run({ file: "ip", args: ["-n", this.name, ...args] })).stdout;
  }

  /** What ip(8) shows, as data. */
  // biome-ignore lint/suspicious/noExplicitAny: ip(8) has no types
  async ipJson(...args: string[]): Promise<any[]> {
    const output = await this.ip("-d", "-j", ...args);
    return output === "" ? [] : JSON.parse(output);
  }

  /** One echo request to an address. Throws when no answer comes within the time. */
  async ping(address: string, timeoutSeconds = 5): Promise<void> {
    await this.run({ file: "ping", args: ["-n", "-c", "1", "-W", String(timeoutSeconds), address] });
  }

  /** nsenter and not `ip netns exec`, which mounts a new /sys and so hides what is pinned in a bpffs. */
  #inside(command: Command): Command {
    return { ...command, file: "nsenter", args: [`--net=${this.path}`, command.file, ...command.args] };
  }
}

/** Stops at the first command that fails, and says which. */
async function batch(lines: readonly string[], ...options: string[]): Promise<void> {
  await run({ file: "ip", args: [...options, "-batch", "-"], input: lines.join("\n") });
}
