/** What others do to the guard of running pods, and what `cni-ipip sync` makes of that. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { run } from "../../../src/exec.ts";
import { waitFor } from "../../lib/wait.ts";
import { TestNode } from "../cni/node.ts";

jest.setTimeout(60_000);

/** Any event makes sync pin anew what is being removed. */
const removing = { recursive: true, maxRetries: 10 } as const;

let node: TestNode;
let sync: Awaited<ReturnType<TestNode["startSync"]>>;
let ifindex: number;

beforeEach(async () => {
  node = await TestNode.create();
  await node.writeState();
  const guard = { allowedSources: ["192.0.2.0/24"], allowIpv6: true };
  const netns = await node.createPod();
  const { json } = await node.call("ADD", { containerId: "c1", netns, config: { guard } });
  [{ ifindex }] = await node.ip("link", "show", json.interfaces[0].name);
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

async function isGuardedAgain(): Promise<void> {
  const isSo = async () => {
    using guard = node.openGuard(); // throws while sync has not pinned it again, which waitFor takes for "not yet"
    return node.enter(() => guard.isAttached(ifindex));
  };
  await waitFor(isSo, { what: "the pod guarded again", timeoutMs: 20_000 });
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
