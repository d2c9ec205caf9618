/** STATUS where the node's files are in the way. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { run } from "../../../src/exec.ts";
import { TestNode } from "./node.ts";

jest.setTimeout(60_000);

let node: TestNode;

beforeEach(async () => {
  node = await TestNode.create();
  await node.writeState();
});

afterEach(() => node.remove());

/** @returns a way back */
async function makeReadOnly(directory: string): Promise<() => Promise<unknown>> {
  await run({ file: "mount", args: ["--rbind", directory, directory] });
  await run({ file: "mount", args: ["-o", "remount,bind,ro", directory] });
  return () => run({ file: "umount", args: ["-R", directory] });
}

test.each(["garbage", "", "null", '{"version":1}'])("STATUS says 50 of a node state that is %j", async (content) => {
  await writeFile(join(node.runDir, "node.json"), content);
  expect((await node.call("STATUS", {})).json).toMatchObject({
    cniVersion: "1.1.0",
    code: 50,
    msg: expect.stringContaining(`Cannot read the node state "${node.runDir}/node.json": `),
  });
});

test.each(["runDir", "stateDir"] as const)(
  "STATUS says 50 of a %s that cannot be written, as ADD finds it",
  async (field) => {
    const restore = await makeReadOnly(node[field]);
    try {
      const { json } = await node.call("STATUS", {});
      expect(json).toMatchObject({
        code: 50,
        msg: expect.stringContaining(`Cannot add to the network: "${node[field]}" cannot be written (EROFS`),
      });
      expect(await node.call("ADD", { containerId: "c1", netns: await node.createPod() })).toMatchObject({
        exitCode: 1,
      });
    } finally {
      await restore();
    }
  },
);

test("STATUS looks at the directory that ADD would make a missing one in", async () => {
  const stateDir = join(node.stateDir, "made/later");
  expect((await node.call("STATUS", { config: { stateDir } })).json.code).not.toBe(999);
  const restore = await makeReadOnly(node.stateDir);
  try {
    expect((await node.call("STATUS", { config: { stateDir } })).json).toMatchObject({
      code: 50,
      msg: expect.stringContaining(`"${node.stateDir}" cannot be written`),
    });
  } finally {
    await restore();
  }
});
