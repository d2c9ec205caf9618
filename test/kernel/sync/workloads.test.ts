/** What others do to the guard of running pods, and what `cni-ipip sync` makes of that. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, jest, test } from "@jest/globals";
import { tryLockContainer } from "../../../cni/container-lock.ts";
import { run } from "../../../src/exec.ts";
import { Netlink } from "../../../src/netlink/netlink.ts";
import type { WorkloadEndpoint } from "../../../src/workload/endpoint.ts";
import { EndpointStore } from "../../../src/workload/endpoint-store.ts";
import { waitFor } from "../../lib/wait.ts";
import { TestNode } from "../cni/node.ts";

jest.setTimeout(60_000);

/** Any event makes sync pin anew what is being removed. */
const removing = { recursive: true, maxRetries: 10 } as const;

let node: TestNode;
let sync: Awaited<ReturnType<TestNode["startSync"]>>;
let ifindex: number;
let hostLink: string;
/** Of the pod. */
let endpoint: WorkloadEndpoint;
let endpoints: EndpointStore;

beforeEach(async () => {
  node = await TestNode.create();
  await node.writeState();
  const guard = { allowedSources: ["192.0.2.0/24"], allowIpv6: true };
  const netns = await node.createPod();
  const { json } = await node.call("ADD", { containerId: "c1", netns, config: { guard } });
  hostLink = json.interfaces[0].name;
  [{ ifindex }] = await node.ip("link", "show", hostLink);
  endpoints = new EndpointStore(node.runDir);
  [endpoint] = (await endpoints.list()) as [WorkloadEndpoint];
  sync = await node.startSync();
  await waitFor(() => sync.log().includes("datastore is in sync"), { what: "sync at work", timeoutMs: 20_000 });
});

afterEach(async () => {
  await sync.stop();
  await node.remove();
});

/** Any event of a link that is not a pod's wakes sync. */
async function wake(): Promise<void> {
  await node.ip("link", "add", "wake", "type", "bridge");
}

/** Sync has listed the links after this began; what it does about pods' links of that list comes next. */
async function wakeUntilListed(name: string): Promise<void> {
  await node.ip("link", "add", name, "type", "bridge");
  const isListed = () =>
    sync
      .log()
      .split("\n")
      .some((line) => line.includes(`"link":"${name}"`));
  await waitFor(isListed, { what: `"${name}" guarded`, timeoutMs: 20_000 });
}

async function isAttachedAgain(index: number): Promise<void> {
  const isSo = async () => {
    using guard = node.openGuard(); // throws while sync has not pinned it again, which waitFor takes for "not yet"
    return node.enter(() => guard.isAttached(index));
  };
  await waitFor(isSo, { what: "the pod guarded again", timeoutMs: 20_000 });
}

async function isGuardedAgain(): Promise<void> {
  await isAttachedAgain(ifindex);
  using guard = node.openGuard();
  expect(guard.policyOf(ifindex)).toMatchObject({
    addresses: ["10.100.15.129"],
    allowedSources: ["192.0.2.0/24"],
    flags: { "allow-ipip": false, "allow-ipv6": true, silent: false },
  });
}

test("a pod is guarded again, with what it may send, when somebody removed its entries and its program", async () => {
  using guard = node.openGuard();
  node.enter(() => guard.forget(ifindex));
  await wake();
  await isGuardedAgain();
});

test("a pod is guarded again when somebody removed every pin, and when the bpffs was unmounted", async () => {
  await rm(join(node.runDir, "bpf/guard"), removing);
  await wake();
  await isGuardedAgain();
  await run({ file: "umount", args: [join(node.runDir, "bpf")] });
  await node.ip("link", "del", "wake");
  await isGuardedAgain();
});

test("a pod is guarded again when somebody removed the programs' pins and those of pods alone", async () => {
  for (const folder of ["programs", "pod-links"]) {
    await rm(join(node.runDir, "bpf/guard/v1", folder), removing);
  }
  await wake();
  await isGuardedAgain();
});

test("a pod whose endpoint is lost is named, since nobody knows what it may send", async () => {
  await node.damageEndpoints();
  using guard = node.openGuard();
  node.enter(() => guard.forget(ifindex));
  await wake();
  await waitFor(() => sync.log().includes("Cannot guard the pod links"), { what: "a condition", timeoutMs: 20_000 });
  expect(node.enter(() => guard.isAttached(ifindex))).toBe(false);
});

test("a link that cannot be guarded is named, with the reason, and does not keep the guard from the others", async () => {
  const { json } = await node.call("ADD", { containerId: "c2", netns: await node.createPod() });
  const [other] = await node.ip("link", "show", json.interfaces[0].name);
  const sources = Array.from({ length: 17 }, (_, index) => `192.0.${index}.0/24`);
  await endpoints.save({ ...endpoint, permissions: { ...endpoint.permissions, allowedSources: sources } });
  using guard = node.openGuard();
  node.enter(() => {
    guard.forget(ifindex);
    guard.forget(other.ifindex);
  });
  await wake();
  await isAttachedAgain(other.ifindex);
  const condition = `Cannot guard the pod links \\"${hostLink}\\": Cannot hold 17 allowed sources of one interface`;
  await waitFor(() => sync.log().includes(condition), { what: "a condition", timeoutMs: 20_000 });
  expect(guard.policyOf(ifindex)).toBeUndefined();
});

test("a link whose call is at work is not touched, and guarded again when the call is over", async () => {
  const lock = await tryLockContainer(node.runDir, "c1");
  using guard = node.openGuard();
  node.enter(() => guard.forget(ifindex));
  await wakeUntilListed("first");
  await wakeUntilListed("second"); // by another pass: the first one is over
  expect(guard.linkIndexes()).toEqual([]);
  expect(sync.log()).not.toMatch(/guarded again|Cannot guard/);
  await lock?.release();
  await wake();
  await isGuardedAgain();
});

describe("a link that sync has listed, and that is another moment later", () => {
  const endings: readonly [how: string, end: () => Promise<unknown>][] = [
    ["gone with the container's namespace, the endpoint stays", () => node.ip("link", "del", hostLink)],
    ["gone with a DEL, the endpoint too", () => node.call("DEL", { containerId: "c1" })],
    [
      "that of the pod's next sandbox, under the same name and number",
      async () => {
        await node.ip("link", "del", hostLink);
        await node.ip("link", "add", hostLink, "index", String(ifindex), "type", "veth", "peer", "name", "peer");
        await node.ip("link", "set", hostLink, "up", "alias", "cni-ipip:pods/c2/eth0");
      },
    ],
    ["down", () => node.ip("link", "set", hostLink, "down")],
  ];

  test.each(endings)("is neither guarded nor a condition nor remembered: %s", async (_, end) => {
    await sync.stop(); // one pass of it alone, which begins with the list of before
    using guard = node.openGuard();
    node.enter(() => guard.forget(ifindex));
    const netlink = node.enter(() => Netlink.open());
    const links = await netlink.links();
    netlink.close();
    await end();
    const script = join(import.meta.dirname, "look-after.ts");
    const args = [`--net=/run/netns/${node.namespace}`, process.execPath, script, node.runDir];
    const { stdout } = await run({ file: "nsenter", args, input: JSON.stringify(links) });
    expect(stdout).toBe("");
    expect(guard.linkIndexes()).toEqual([]);
  });
});
