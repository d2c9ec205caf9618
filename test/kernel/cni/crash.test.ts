/** SIGKILL at every step of ADD, DEL and GC: whoever comes next leaves nothing behind, and no address is given twice. */
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, jest, test } from "@jest/globals";
import { waitFor } from "../../lib/wait.ts";
import { type Call, nothing, TestNode } from "./node.ts";

jest.setTimeout(240_000); // hundreds of processes

const killable = join(import.meta.dirname, "killable.ts");
const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=nginx";

let node: TestNode;
let netns: string;

beforeAll(async () => {
  node = await TestNode.create();
  await node.writeState();
  netns = await node.createPod();
});

afterAll(() => node.remove());

const call = (env: Record<string, string> = {}, config: object = {}): Call => ({
  containerId: "c1",
  netns,
  args,
  program: killable,
  env,
  config,
});

/** @returns the names of the steps that a verb takes, and of changes that it made outside of one */
async function stepsOf(command: string, config: object = {}, others: Call = {}): Promise<string[]> {
  const file = join(node.runDir, "steps");
  const { json } = await node.call(command, { ...call({ CNI_TEST_STEPS: file }, config), ...others });
  expect(json?.code).toBeUndefined();
  const steps = (await readFile(file, "utf8")).trim().split("\n");
  await rm(file);
  return steps;
}

async function killAt(command: string, step: number, config: object = {}): Promise<void> {
  const process = node.start(command, call({ CNI_TEST_KILL_AT: String(step) }, config));
  const error = await process.ended.then(
    () => undefined,
    (reason: Error) => reason,
  );
  expect(error?.cause).toMatchObject({ signal: "SIGKILL" });
}

const gcAll = { "cni.dev/valid-attachments": [] };

/** Each leaves nothing of the attachment, whatever was left before it. */
const healers: Readonly<Record<string, () => Promise<void>>> = {
  async "ADD, then DEL"() {
    const { exitCode, json } = await node.call("ADD", { containerId: "c1", netns, args });
    expect({ exitCode, ips: json.ips }).toMatchObject({ exitCode: 0, ips: [{ interface: 1 }] });
    expect(await node.leases()).toEqual([json.ips[0].address.split("/")[0]]);
    expect(await node.hostLinks()).toHaveLength(1);
    await node.call("DEL", { containerId: "c1", netns, args });
  },
  async DEL() {
    expect(await node.call("DEL", { containerId: "c1", netns, args })).toMatchObject({ exitCode: 0 });
  },
  async GC() {
    expect(await node.call("GC", { config: gcAll })).toMatchObject({ exitCode: 0 });
  },
  async "the start of sync"() {
    const sync = await node.startSync();
    const isDone = async () => JSON.stringify(await node.remains()) === JSON.stringify(nothing);
    await waitFor(isDone, { what: "nothing left of the attachment", timeoutMs: 20_000 }).finally(sync.stop);
  },
};

test("every change of ADD, DEL and GC is the only one of its step, so that no two can be torn apart unseen", async () => {
  const add = await stepsOf("ADD");
  const del = await stepsOf("DEL");
  await node.call("ADD", { containerId: "c1", netns, args });
  const gc = await stepsOf("GC", gcAll);
  const [older, newer] = [await node.createPod(), await node.createPod()];
  await node.call("ADD", { containerId: "older", netns: older, args });
  const takeOver = await stepsOf("ADD", {}, { containerId: "newer", netns: newer });
  expect(takeOver).toContain("silence the pod");
  await node.call("GC", { config: gcAll });
  for (const steps of [add, del, gc, takeOver]) {
    expect(steps.filter((step) => step.startsWith("UNGUARDED"))).toEqual([]);
  }
  expect(new Set(add).size).toBe(add.length);
  expect(await node.remains()).toEqual(nothing);
});

/** Kills the verb at each step from the first given one on, each time behind the preparation, and has the healer heal it. */
async function healsEveryStep(
  healer: string,
  {
    command,
    steps,
    from,
    prepare,
  }: { command: string; steps: string[]; from: number; prepare: () => Promise<unknown> },
): Promise<void> {
  for (let step = from; step <= steps.length; step++) {
    await prepare();
    await killAt(command, step);
    await healers[healer]?.();
    expect({ step: steps[step - 1], remains: await node.remains() }).toEqual({
      step: steps[step - 1],
      remains: nothing,
    });
  }
}

describe.each(Object.keys(healers))("%s heals", (healer) => {
  test("an ADD that was killed at any step", async () => {
    const steps = await stepsOf("ADD");
    await node.call("DEL", { containerId: "c1", netns, args });
    await healsEveryStep(healer, { command: "ADD", steps, from: 1, prepare: async () => {} });
  });

  test("a DEL that was killed at any step", async () => {
    const add = () => node.call("ADD", { containerId: "c1", netns, args });
    await add();
    const steps = await stepsOf("DEL");
    expect(steps[0]).toBe("begin the endpoint's end");
    // Before that nothing tells that the pod shall go, but the runtime, which calls again.
    const from = healer === "the start of sync" ? 2 : 1;
    await healsEveryStep(healer, { command: "DEL", steps, from, prepare: add });
  });
});

test("the start of sync leaves a pod alone that is whole", async () => {
  await node.call("ADD", { containerId: "c1", netns, args });
  await killAt("DEL", 1);
  const before = await node.remains();
  const sync = await node.startSync();
  await waitFor(() => sync.log().includes("datastore is in sync"), { what: "sync at work", timeoutMs: 20_000 });
  await sync.stop();
  expect(await node.remains()).toEqual(before);
  await node.call("DEL", { containerId: "c1", netns, args });
});

test("no address is given twice, whatever step of ADD or DEL a neighbour was killed at", async () => {
  const other = await node.createPod();
  const steps = await stepsOf("ADD");
  await node.call("DEL", { containerId: "c1", netns, args });
  for (let step = 1; step <= steps.length; step++) {
    await killAt("ADD", step);
    const { json: given } = await node.call("ADD", { containerId: "c2", netns: other });
    const { json: again } = await node.call("ADD", { containerId: "c1", netns, args });
    expect({ step: steps[step - 1], address: again.ips[0].address }).not.toMatchObject({
      address: given.ips[0].address,
    });
    expect(await node.remains()).toMatchObject({ routes: [expect.any(String), expect.any(String)] });
    await node.call("DEL", { containerId: "c2", netns: other });
    await node.call("DEL", { containerId: "c1", netns, args });
  }
  expect(await node.remains()).toEqual(nothing);
});
