/** Blocks of a node under a running `cni-ipip sync`: claimed, overflowing, given back, and the same after a restart. */
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { assetPath } from "../../../src/assets.ts";
import type { Block } from "../../../src/datastore/documents.ts";
import { type NodeState, readNodeState } from "../../../src/node-state.ts";
import { waitFor } from "../../lib/wait.ts";
import { TestNode } from "../cni/node.ts";

jest.setTimeout(60_000);

/** What is shipped starts faster than the sources. */
const built = assetPath("plugin.mjs");

let node: TestNode;
let sync: Awaited<ReturnType<TestNode["startSync"]>>;

beforeEach(async () => {
  node = await TestNode.create();
  await node.ip("link", "set", "lo", "up");
  await node.ip("address", "add", "172.31.112.2/20", "dev", "lo");
  await node.datastore.writeNode({ name: "node1", address: "172.31.112.2/20" });
  // Not by the tunnel: the kernels of most build machines have none.
  await node.datastore.writePool({ name: "main", cidr: "10.100.0.0/24", blockSize: 29, ipipMode: "Never" });
});

afterEach(async () => {
  await sync?.stop();
  await node.remove();
});

async function blocks(): Promise<Block[]> {
  const directory = join(node.datastore.path, "blocks");
  const files = (await readdir(directory).catch(() => [])).filter((name) => name.endsWith(".json"));
  const documents = await Promise.all(files.map((name) => readFile(join(directory, name), "utf8")));
  const found: Block[] = documents.map((text) => JSON.parse(text));
  return found.sort((one, other) => (one.claimOrder ?? 0) - (other.claimOrder ?? 0));
}

/** Waits until node.json names so many blocks. */
async function ready(count: number): Promise<NodeState> {
  const ask = async () => {
    const state = await readNodeState(node.runDir);
    return state?.blocks.length === count && state;
  };
  const { value } = await waitFor(ask, { what: `${count} blocks in node.json: ${sync.log()}`, timeoutMs: 20_000 });
  return value;
}

async function add(containerId: string): Promise<string> {
  const { exitCode, json } = await node.call("ADD", { containerId, netns: await node.createPod(), program: built });
  expect({ exitCode, json }).toMatchObject({ exitCode: 0 });
  return json.ips[0].address.split("/")[0];
}

test("a node without a block claims one, and pods get addresses of it, but never the tunnel's", async () => {
  sync = await node.startSync();
  const state = await ready(1);
  const [block] = await blocks();
  expect(state.blocks).toEqual([block?.cidr]);
  expect(state).not.toHaveProperty("tunnelAddress"); // tunl0 has none where no pool is reached by it
  expect(block).toMatchObject({ node: "node1", claimOrder: 0, instance: expect.any(String) });
  const [tunnelAddress] = String(block?.cidr).split("/");
  expect(await node.leases()).toEqual([tunnelAddress]);
  expect(await add("c1")).not.toBe(tunnelAddress);
});

test("the next block is there before the first is used up, and goes back when its pods are gone", async () => {
  sync = await node.startSync({ ipam: { releaseAfterSeconds: 1 } });
  await ready(1);
  const containers = ["c1", "c2", "c3", "c4", "c5", "c6"];
  for (const container of containers) {
    await add(container); // the tunnel has one of the eight: two are a quarter
  }
  await ready(2);
  const before = await blocks();
  for (const container of containers) {
    await node.call("DEL", { containerId: container, program: built });
  }
  await ready(1);
  expect(await blocks()).toEqual(before.slice(0, 1));
  expect(await readdir(join(node.stateDir, "leases/blocks"))).toHaveLength(1);
});

test("a restart keeps blocks and the tunnel's address, also when the block was written by hand", async () => {
  await node.datastore.writeBlock({ cidr: "10.100.0.8/29", node: "node1" });
  sync = await node.startSync();
  await ready(1);
  await waitFor(async () => (await blocks())[0]?.instance !== undefined, { what: "a signed block", timeoutMs: 20_000 });
  const before = { blocks: await blocks(), leases: await node.leases(), state: await readNodeState(node.runDir) };
  expect(before.leases).toEqual(["10.100.0.8"]);
  await sync.stop();
  sync = await node.startSync();
  await waitFor(() => sync.log().includes("leases are recovered"), { what: "sync at work", timeoutMs: 20_000 });
  await add("c1");
  await node.call("DEL", { containerId: "c1" });
  expect({ blocks: await blocks(), leases: await node.leases(), state: await readNodeState(node.runDir) }).toEqual(
    before,
  );
});

test("a node that was installed anew takes its blocks over, and its tunnel address is the same again", async () => {
  sync = await node.startSync();
  await ready(1);
  const [before] = await blocks();
  const leases = await node.leases();
  await sync.stop();
  await rm(node.stateDir, { recursive: true });
  sync = await node.startSync();
  await waitFor(async () => (await node.leases()).length === 1, { what: "the tunnel's lease", timeoutMs: 20_000 });
  const [after] = await blocks();
  expect(after).toEqual({ ...before, instance: expect.any(String) });
  expect(after?.instance).not.toBe(before?.instance);
  expect(await node.leases()).toEqual(leases);
});
