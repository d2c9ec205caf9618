/** Leases and pods that have come apart: what `cni-ipip sync` makes of them. */
import { readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, jest, test } from "@jest/globals";
import { tryLockContainer } from "../../../cni/container-lock.ts";
import { assetPath } from "../../../src/assets.ts";
import { run } from "../../../src/exec.ts";
import { DiskLeases } from "../../../src/ipam/disk-leases.ts";
import type { LeaseOwner } from "../../../src/ipam/lease-store.ts";
import { bootId } from "../../../src/linux/moment.ts";
import { EndpointStore } from "../../../src/workload/endpoint-store.ts";
import { waitFor } from "../../lib/wait.ts";
import { nothing, TestNode } from "../cni/node.ts";

jest.setTimeout(60_000);

/** What is shipped starts faster than the sources. */
const built = assetPath("plugin.mjs");
const block = "10.100.0.0/28";
const anotherBoot = "00000000-0000-4000-8000-000000000000";

let node: TestNode;
let sync: Awaited<ReturnType<TestNode["startSync"]>> | undefined;
/** Paths of the containers' network namespaces. */
let namespaces: Map<string, string>;

beforeEach(async () => {
  node = await TestNode.create();
  namespaces = new Map();
  await node.ip("link", "set", "lo", "up");
  await node.ip("address", "add", "172.31.112.2/20", "dev", "lo");
  await node.datastore.writeNode({ name: "node1", address: "172.31.112.2/20" });
  // Not by the tunnel: the kernels of most build machines have none.
  await node.datastore.writePool({ name: "main", cidr: "10.100.0.0/24", blockSize: 28, ipipMode: "Never" });
  await node.datastore.writeBlock({ cidr: block, node: "node1" });
  await node.writeState({ blocks: [block], tunnelAddress: "10.100.0.0" });
});

afterEach(async () => {
  await sync?.stop();
  sync = undefined;
  await node.remove();
});

/** Until it holds its block: the tunnel's lease comes last. */
async function startSync(): Promise<void> {
  sync = await node.startSync();
  const isHeld = async () =>
    sync?.log().includes("leases are recovered") && (await node.leases()).includes("10.100.0.0");
  await waitFor(isHeld, { what: `the block held: ${sync.log()}`, timeoutMs: 20_000 });
}

async function add(containerId: string, args?: string): Promise<string> {
  const netns = await node.createPod();
  namespaces.set(containerId, netns);
  const call = { containerId, netns, program: built, ...(args === undefined ? {} : { args }) };
  const { exitCode, json } = await node.call("ADD", call);
  expect({ exitCode, json }).toMatchObject({ exitCode: 0 });
  return json.ips[0].address.split("/")[0];
}

async function addAll(count: number): Promise<string[]> {
  const addresses: string[] = [];
  for (let index = 0; index < count; index++) {
    addresses.push(await add(`c${index}`));
  }
  return addresses;
}

async function del(containerId: string): Promise<void> {
  expect(await node.call("DEL", { containerId, program: built })).toMatchObject({ exitCode: 0 });
}

/** The container ends and nobody tells the plugin: the kernel removes its link in its own time. */
async function crash(...containerIds: string[]): Promise<void> {
  const before = (await node.hostLinks()).length;
  for (const containerId of containerIds) {
    await node.removeNamespace(namespaces.get(containerId) ?? "");
  }
  const isGone = async () => (await node.hostLinks()).length === before - containerIds.length;
  await waitFor(isGone, { what: "the links gone", timeoutMs: 20_000 });
}

function owner(containerId: string): LeaseOwner {
  return { network: "pods", containerId, interfaceName: "eth0" };
}

function store(): DiskLeases {
  return new DiskLeases(join(node.stateDir, "leases"));
}

async function changeLink(...change: string[]): Promise<void> {
  const [link = ""] = await node.hostLinks();
  await node.ip("link", "set", link, ...change);
}

async function removeLink(): Promise<void> {
  const [link = ""] = await node.hostLinks();
  await node.ip("link", "del", link);
}

async function forgetSigns(): Promise<void> {
  await changeLink("alias", "mine");
  await node.damageEndpoints();
}

/** Looks as sync does in its passes. @param steps times of looks in ms, and files to remove between. @returns the log */
async function look(...steps: (number | string)[]): Promise<string> {
  const script = join(import.meta.dirname, "look-at-leases.ts");
  const args = [script, node.runDir, node.stateDir, ...steps.map(String)];
  const command = { file: "nsenter", args: [`--net=/run/netns/${node.namespace}`, process.execPath, ...args] };
  return (await run(command)).stdout;
}

describe("a pod that lives, whose lease is lost", () => {
  test("has it again when sync starts on a new disk, and its address is given to nobody else", async () => {
    const pod = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web";
    const addresses = [await add("c0", pod), await add("c1"), await add("c2")];
    await rm(node.stateDir, { recursive: true });
    await startSync();
    expect(await store().leaseOf(owner("c0"))).toMatchObject({
      address: addresses[0],
      owner: { namespace: "shop", pod: "web" },
    });
    expect(new Set([...addresses, await add("c3")]).size).toBe(4);
    expect((await node.leases()).length).toBe(5); // the tunnel's too
    for (const containerId of ["c0", "c1", "c2", "c3"]) {
      await del(containerId);
    }
    expect(await node.remains()).toEqual({ ...nothing, leases: ["10.100.0.0"] });
  });

  test("has it again when its file cannot be read", async () => {
    const address = await add("c0");
    await truncate(join(node.stateDir, "leases/blocks/10-100-0-0-28", address), 10);
    await startSync();
    expect(sync?.log()).not.toContain("Cannot read");
    expect(await store().leaseOf(owner("c0"))).toMatchObject({ address });
    await del("c0");
    expect(await node.leases()).toEqual(["10.100.0.0"]);
  });

  test("has it again when somebody removes the file under a running sync", async () => {
    const address = await add("c0");
    const log = await look(0, join(node.stateDir, "leases/blocks/10-100-0-0-28", address), 30_000);
    expect(log).toContain("the lease of a pod was lost");
    expect(await store().leaseOf(owner("c0"))).toMatchObject({ address });
  });

  test("can be removed without it", async () => {
    await add("c0");
    await node.forgetLeases();
    await del("c0");
    expect(await node.remains()).toEqual(nothing);
  });

  test("is left alone while a call for it is at work", async () => {
    const address = await add("c0");
    await rm(join(node.stateDir, "leases/blocks/10-100-0-0-28", address));
    const lock = await tryLockContainer(node.runDir, "c0");
    await look(0);
    await lock?.release();
    expect(await node.leases()).toEqual([]);
  });

  test("does not take the address from who has its lease: a condition names both, as long as it is so", async () => {
    const address = await add("c0");
    await store().release(owner("c0"), new Date());
    await store().reserveAddress(owner("other"), block, address, new Date());
    const log = await look(0, 30_000);
    expect(log.match(/condition: .*/g)).toEqual([
      expect.stringContaining(
        `Cannot lease ${address} to \\"eth0\\" of the container \\"c0\\", which uses it: it is leased to \\"eth0\\" of the container \\"other\\", remove one of the pods`,
      ),
    ]);
    expect(log).not.toContain("condition is over");
    expect(await store().leaseAt(address)).toMatchObject({ owner: owner("other") }); // though that one has no container
  });

  test("is not ours where its address is in none of the node's blocks", async () => {
    await node.writeState({ blocks: ["10.100.1.0/28"], tunnelAddress: "10.100.1.0" });
    await add("c0");
    await rm(node.stateDir, { recursive: true });
    await startSync();
    expect(await node.leases()).toEqual(["10.100.0.0"]);
    expect(await look(0)).not.toContain("condition");
  });
});

describe("a lease whose container is gone", () => {
  test("is taken back after two looks that are half a minute apart, and all that is left of it", async () => {
    const [, other] = await addAll(2);
    await crash("c0");
    expect(await look(0, 29_999)).not.toContain("taken back");
    expect(await node.leases()).toHaveLength(2);
    expect(await look(0, 30_000)).toContain("the lease of a container that is gone is taken back");
    expect(await node.remains()).toMatchObject({ leases: [other], endpoints: 1, strayFiles: [] });
    expect((await node.remains()).guarded).toHaveLength(1);
  });

  test("is taken back by sync half a minute after its start, without any event", async () => {
    await add("c0");
    await crash("c0");
    await startSync();
    const isTakenBack = () => sync?.log().includes("is taken back");
    const { elapsedMs } = await waitFor(isTakenBack, { what: "a lease taken back", timeoutMs: 50_000 });
    expect(elapsedMs).toBeGreaterThan(25_000);
    expect(await node.remains()).toEqual({ ...nothing, leases: ["10.100.0.0"] });
  });

  test("is taken back where another namespace is at its path", async () => {
    await add("c0");
    const path = namespaces.get("c0") ?? "";
    const keeper = node.keepAlive(path); // otherwise the kernel may give the next one the same id
    await node.replaceNamespace(path);
    await removeLink();
    await look(0, 30_000);
    await keeper.stop();
    expect(await node.remains()).toEqual(nothing);
  });

  const alive: readonly [how: string, change: () => Promise<unknown>][] = [
    ["has lost its endpoint", () => node.damageEndpoints()],
    ["has lost its link, but not its namespace", () => removeLink()],
    ["has a link with another name", () => changeLink("name", "foreign")],
    ["has a link with somebody else's alias, and no endpoint", () => forgetSigns()],
  ];

  test.each(alive)("stays where the pod %s", async (_, change) => {
    const address = await add("c0");
    await change();
    await look(0, 30_000, 60_000);
    expect(await store().leaseOf(owner("c0"))).toMatchObject({ address });
  });

  test("stays while a call for it is at work", async () => {
    await add("c0");
    await crash("c0");
    const lock = await tryLockContainer(node.runDir, "c0");
    await look(0, 30_000);
    await lock?.release();
    expect(await node.leases()).toHaveLength(1);
  });

  test("stays with all others where these are too many to be believed", async () => {
    await addAll(6);
    await crash(...namespaces.keys());
    const log = await look(0, 30_000);
    expect(log).toContain("condition: Cannot take back 6 of 6 leases");
    expect(await node.leases()).toHaveLength(6);
  });

  test("the tunnel's stays, though it has no container", async () => {
    await startSync();
    await look(0, 30_000);
    expect(await node.leases()).toEqual(["10.100.0.0"]);
  });
});

describe("after a reboot", () => {
  const bootFile = () => join(node.stateDir, "boot-id");

  test("every lease of before is taken back at once, however many, but not those of pods that live", async () => {
    await addAll(7);
    await crash("c0", "c1", "c2", "c3", "c4", "c5");
    await rm(join(node.runDir, "endpoints"), { recursive: true });
    await writeFile(bootFile(), `${anotherBoot}\n`);
    await startSync();
    expect(await store().owners()).toHaveLength(2); // the tunnel's too
    expect(await store().leaseOf(owner("c6"))).toBeDefined();
    expect(await readFile(bootFile(), "utf8")).toBe(`${bootId()}\n`);
  });

  test("also where the run directory outlives it: an endpoint of a former boot is no container", async () => {
    const endpoints = new EndpointStore(node.runDir);
    await add("c0");
    const [endpoint] = await endpoints.list();
    await removeLink(); // its namespace has the id that the endpoint tells
    if (endpoint === undefined) {
      throw new Error("Cannot find the endpoint");
    }
    await endpoints.save({ ...endpoint, began: { ...endpoint.began, boot: anotherBoot } });
    await writeFile(bootFile(), `${anotherBoot}\n`);
    await startSync();
    expect(await node.remains()).toEqual({ ...nothing, leases: ["10.100.0.0"] });
  });

  test.each([
    ["a start of sync in the same boot", async () => writeFile(bootFile(), `${bootId()}\n`)],
    ["the first start of a sync that knows boots", async () => {}],
  ])("but not at %s", async (_, prepare) => {
    await addAll(6);
    await crash(...namespaces.keys());
    await prepare();
    await startSync();
    expect(await readFile(bootFile(), "utf8")).toBe(`${bootId()}\n`);
    expect(await node.leases()).toHaveLength(7);
  });
});
