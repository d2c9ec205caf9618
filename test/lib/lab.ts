/** The cluster of the article "Calico IP-in-IP mode" as network namespaces: two nodes and a stranger on one wire. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../../src/exec.ts";
import { LabDatastore } from "./lab-datastore.ts";
import { type GuardAttach, LabNode } from "./lab-node.ts";
import { Namespace } from "./namespace.ts";

export const NODE1 = { name: "node1", address: "172.31.112.2/20", block: "10.100.15.128/26" } as const;
export const NODE2 = { name: "node2", address: "172.31.127.252/20", block: "10.100.9.192/26" } as const;
/** A machine on the same wire that is no member of the cluster. */
export const STRANGER = { name: "stranger", address: "172.31.120.9/20" } as const;
export const POOL = { name: "default", cidr: "10.100.0.0/16", blockSize: 26, ipipMode: "Always" } as const;
const GATEWAY = "172.31.127.253";

export interface LabOptions {
  readonly node1?: GuardAttach;
  readonly node2?: GuardAttach;
}

export class Lab {
  readonly node1: LabNode;
  readonly node2: LabNode;
  readonly stranger: Namespace;
  readonly datastore: LabDatastore;
  /** The bridge in the middle, with the gateway's address. */
  readonly wire: Namespace;
  readonly #directory: string;
  readonly #pods: Namespace[] = [];

  /** Builds machines, wire and datastore; starts no program. What an error leaves half made is removed. */
  static async build(options: LabOptions = {}): Promise<Lab> {
    const directory = await mkdtemp(LAB_DIRECTORY);
    const names = ["wire", "node1", "node2", "stranger"].map(namespaceName) as [string, string, string, string];
    const machines = await Namespace.create(...names);
    try {
      const [wire, one, two, stranger] = machines;
      await connect(wire, [
        { machine: one, address: NODE1.address },
        { machine: two, address: NODE2.address },
        { machine: stranger, address: STRANGER.address },
      ]);
      const datastore = new LabDatastore(join(directory, "datastore"));
      await describeCluster(datastore);
      const shared = { directory, datastore };
      const node1 = await LabNode.create({ ...NODE1, ...shared, namespace: one, attach: options.node1 ?? "tc" });
      const node2 = await LabNode.create({ ...NODE2, ...shared, namespace: two, attach: options.node2 ?? "tc" });
      return new Lab({ node1, node2, stranger, wire, datastore, directory });
    } catch (error) {
      await removeAll(machines, directory);
      throw error;
    }
  }

  private constructor(parts: Pick<Lab, "node1" | "node2" | "stranger" | "wire" | "datastore"> & { directory: string }) {
    this.node1 = parts.node1;
    this.node2 = parts.node2;
    this.stranger = parts.stranger;
    this.wire = parts.wire;
    this.datastore = parts.datastore;
    this.#directory = parts.directory;
  }

  /** A network namespace as a container runtime makes it for a pod: nothing in it yet. */
  async createPod(name: string): Promise<Namespace> {
    const [pod] = await Namespace.create(namespaceName(name));
    this.#pods.push(pod);
    return pod;
  }

  /** Ends the nodes' programs and removes everything, also what tests or a crash left in the middle. */
  async remove(): Promise<void> {
    await this.node1.stop();
    await this.node2.stop();
    const machines = [this.node1.namespace, this.node2.namespace, this.stranger, this.wire];
    await removeAll([...this.#pods, ...machines], this.#directory);
  }
}

/** In /run, so that a sandbox takes it away with everything else. */
const LAB_DIRECTORY = "/run/cni-ipip-lab-";

let count = 0;

function namespaceName(name: string): string {
  count += 1;
  return `lab-${process.pid}-${count}-${name}`;
}

interface Plug {
  readonly machine: Namespace;
  readonly address: string;
}

/** Gives each machine an eth0, the other end in a port of the wire. */
async function connect(wire: Namespace, plugs: readonly Plug[]): Promise<void> {
  await wire.ipBatch(
    "link set lo up",
    "link add wire type bridge",
    `address add ${GATEWAY}/20 dev wire`,
    "link set wire up",
    ...plugs.flatMap(({ machine }, index) => [
      `link add port${index} type veth peer name eth0 netns ${machine.name}`,
      `link set port${index} master wire up`,
    ]),
  );
  for (const { machine, address } of plugs) {
    await machine.ipBatch(
      "link set lo up",
      `address add ${address} broadcast + dev eth0`,
      "link set eth0 up",
      `route add default via ${GATEWAY}`,
    );
  }
}

async function describeCluster(datastore: LabDatastore): Promise<void> {
  await datastore.writePool(POOL);
  for (const { name, address, block } of [NODE1, NODE2]) {
    await datastore.writeNode({ name, address });
    await datastore.writeBlock({ cidr: block, node: name });
  }
  // Last: by it a directory is recognised as a datastore.
  await datastore.writeSettings({ externalNodeCidrs: [] });
}

async function removeAll(namespaces: readonly Namespace[], directory: string): Promise<void> {
  await Namespace.remove(namespaces);
  for (const mountPoint of await mountPointsBelow(directory)) {
    await run({ file: "umount", args: [mountPoint] });
  }
  await rm(directory, { recursive: true, force: true });
}

/** The nodes' bpffs, latest first: proc_pid_mountinfo(5), fifth field. */
async function mountPointsBelow(directory: string): Promise<string[]> {
  const lines = (await readFile("/proc/self/mountinfo", "utf8")).split("\n");
  return lines
    .map((line) => line.split(" ")[4] ?? "")
    .filter((mountPoint) => mountPoint.startsWith(`${directory}/`))
    .toReversed();
}
