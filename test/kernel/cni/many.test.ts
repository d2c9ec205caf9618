/** Many calls at once, and calls that meet each other. */
import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { assetPath } from "../../../src/assets.ts";
import { type Process, run } from "../../../src/exec.ts";
import { waitFor } from "../../lib/wait.ts";
import { type Answer, nothing, TestNode } from "./node.ts";
import { stoppedAdd } from "./stopped.ts";

jest.setTimeout(300_000);

/** What is shipped starts faster than the sources. */
const built = assetPath("plugin.mjs");
const killable = join(import.meta.dirname, "killable.ts");

let node: TestNode;

beforeEach(async () => {
  node = await TestNode.create();
});

afterEach(() => node.remove());

/** Works through the items, so many at a time. */
async function forEachOf<Item, Result>(
  items: readonly Item[],
  { atOnce }: { atOnce: number },
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const queue = items.map((item, index) => ({ item, index }));
  const worker = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) {
      results[next.index] = await work(next.item);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return results;
}

function createPods(count: number): Promise<{ containerId: string; netns: string }[]> {
  const containerIds = Array.from({ length: count }, (_, index) => `c${index}`);
  return forEachOf(containerIds, { atOnce: 4 }, async (containerId) => ({
    containerId,
    netns: await node.createPod(),
  }));
}

test("200 ADDs, 32 at a time, then 200 DELs: unique addresses, and nothing left", async () => {
  await node.writeState({ blocks: ["10.100.14.0/24"], tunnelAddress: "10.100.14.0" });
  const pods = await createPods(200);
  const answers = await forEachOf(pods, { atOnce: 32 }, (pod) => node.call("ADD", { ...pod, program: built }));
  expect(answers.filter(({ exitCode }) => exitCode !== 0)).toEqual([]);
  const addresses = answers.map(({ json }) => json.ips[0].address);
  expect(new Set(addresses).size).toBe(200);
  expect(new Set(answers.map(({ json }) => json.interfaces[0].name)).size).toBe(200);
  const { hostLinks, routes, guarded } = await node.remains();
  expect([hostLinks.length, routes.length, guarded.length]).toEqual([200, 200, 200]);

  const ends = await forEachOf(pods, { atOnce: 32 }, (pod) => node.call("DEL", { ...pod, program: built }));
  expect(ends.filter(({ exitCode }) => exitCode !== 0)).toEqual([]);
  expect(await node.remains()).toEqual(nothing);
});

test("16 ADDs for 3 addresses: 3 get one each, the others are told that there is none", async () => {
  await node.writeState({ blocks: ["10.100.14.0/30"], tunnelAddress: "10.100.14.0" });
  const pods = await createPods(16);
  const answers = await forEachOf(pods, { atOnce: 16 }, (pod) => node.call("ADD", pod));
  const given = answers.filter(({ exitCode }) => exitCode === 0).map(({ json }) => json.ips[0].address);
  expect(given.toSorted()).toEqual(["10.100.14.1/32", "10.100.14.2/32", "10.100.14.3/32"]);
  expect(answers.filter(({ exitCode }) => exitCode !== 0).map(({ json }) => json.code)).toEqual(Array(13).fill(100));
  expect(await node.remains()).toMatchObject({ hostLinks: [expect.anything(), expect.anything(), expect.anything()] });
});

test("8 ADDs for one container at the same moment give one lease and the same answer", async () => {
  await node.writeState();
  const netns = await node.createPod();
  const calls = Array.from({ length: 8 }, () => node.call("ADD", { containerId: "c1", netns }));
  const answers: Answer[] = await Promise.all(calls);
  expect(answers.map(({ exitCode }) => exitCode)).toEqual(Array(8).fill(0));
  expect(new Set(answers.map(({ json }) => JSON.stringify(json))).size).toBe(1);
  expect(await node.leases()).toHaveLength(1);
  await node.call("DEL", { containerId: "c1", netns });
  expect(await node.remains()).toEqual(nothing);
});

/** The call has opened the file that it waits for its lock in. */
async function isAtTheLock({ pid }: Process): Promise<boolean> {
  const directory = `/proc/${pid}/fd`;
  const names = await readdir(directory).catch(() => []);
  const targets = await Promise.all(names.map((name) => readlink(join(directory, name)).catch(() => "")));
  return targets.some((target) => target.endsWith("/containers.lock"));
}

test("a DEL that overtakes its ADD waits for it, and nothing is left", async () => {
  await node.writeState();
  const netns = await node.createPod();
  const add = await stoppedAdd(node, { containerId: "c1", netns }, 9);
  const before = await node.remains();
  const del = node.start("DEL", { containerId: "c1", netns });
  await waitFor(() => isAtTheLock(del), { what: "DEL at the lock", timeoutMs: 20_000 });
  expect(await node.remains()).toEqual(before);
  add.kill("SIGCONT");
  expect((await add.ended).exitCode).toBe(0);
  expect((await del.ended).exitCode).toBe(0);
  expect(await node.remains()).toEqual(nothing);
});

test("a call for another container does not wait", async () => {
  await node.writeState();
  const add = await stoppedAdd(node, { containerId: "c1", netns: await node.createPod() }, 9);
  const other = { containerId: "c2", netns: await node.createPod() };
  expect((await node.call("ADD", other)).exitCode).toBe(0);
  expect((await node.call("DEL", other)).exitCode).toBe(0);
  add.kill("SIGKILL");
  await add.ended.catch(() => undefined);
});

test("a call that waits for another ends with SIGTERM, and has changed nothing", async () => {
  await node.writeState();
  const netns = await node.createPod();
  const first = await stoppedAdd(node, { containerId: "c1", netns }, 9);
  const before = await node.remains();
  const second = node.start("ADD", { containerId: "c1", netns });
  await waitFor(() => isAtTheLock(second), { what: "the second ADD at the lock", timeoutMs: 20_000 });
  second.kill("SIGTERM");
  const { exitCode, stdout } = await second.ended;
  expect(exitCode).toBe(1);
  expect(JSON.parse(stdout)).toEqual({
    cniVersion: "1.1.0",
    code: 11,
    msg: "Cannot finish ADD: stopped by SIGTERM",
  });
  expect(await node.remains()).toEqual(before);
  first.kill("SIGCONT");
  expect((await first.ended).exitCode).toBe(0);
});

test("an ADD that is told to stop takes back what it made, whatever step it was at", async () => {
  await node.writeState();
  const netns = await node.createPod();
  const file = join(node.runDir, "steps");
  await node.call("ADD", { containerId: "c1", netns, program: killable, env: { CNI_TEST_STEPS: file } });
  const steps = (await readFile(file, "utf8")).trim().split("\n");
  await node.call("DEL", { containerId: "c1", netns });
  for (let step = 1; step <= steps.length; step++) {
    const add = await stoppedAdd(node, { containerId: "c1", netns }, step);
    add.kill("SIGTERM");
    add.kill("SIGCONT");
    const { exitCode } = await add.ended;
    expect({ step: steps[step - 1], exitCode, remains: await node.remains() }).toEqual({
      step: steps[step - 1],
      exitCode: 1,
      remains: nothing,
    });
  }
});

test("an ADD whose answer nobody reads any more takes back what it made", async () => {
  await node.writeState();
  const netns = await node.createPod();
  const { file, args, env, input } = node.command("ADD", { containerId: "c1", netns });
  // The reader has long ended when the plugin has started.
  const script = '{ "$@"; echo "exit $?" >&2; } | :';
  const { stderr } = await run({ file: "sh", args: ["-c", script, "sh", file, ...args], env, input });
  expect(stderr).toContain("exit 1");
  expect(await node.remains()).toEqual(nothing);
});

test("a configuration that was cut off makes nothing", async () => {
  await node.writeState();
  const { file, args, env, input } = node.command("ADD", { containerId: "c1", netns: await node.createPod() });
  const { exitCode, stdout } = await run({ file, args, env, input: input.slice(0, -1), okExitCodes: [1] });
  expect(exitCode).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({ code: 6 });
  expect(await node.remains()).toEqual(nothing);
});
