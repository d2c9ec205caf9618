import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { type NodeState, readNodeState, writeNodeState } from "../../../src/node-state.ts";

const state: NodeState = {
  version: 1,
  nodeName: "node1",
  mtu: 1480,
  tunnelAddress: "10.100.15.128",
  blocks: ["10.100.15.128/26"],
};
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "node-state-"));
});

afterEach(() => rm(directory, { recursive: true }));

test("readNodeState() knows nothing before the first write", async () => {
  expect(await readNodeState(directory)).toBeUndefined();
});

test("readNodeState() gives what writeNodeState() wrote last, and nothing is left beside it", async () => {
  const runDir = join(directory, "made/when/missing");
  await writeNodeState(runDir, { ...state, mtu: 1400 });
  await writeNodeState(runDir, state);
  expect(await readNodeState(runDir)).toEqual(state);
  expect(await readdir(runDir)).toEqual(["node.json"]);
});

test("readNodeState() takes a node without an address of the tunnel, and one that gives none of some addresses", async () => {
  const { tunnelAddress, ...others } = state;
  expect(tunnelAddress).toBeDefined();
  const direct = { ...others, reserved: ["10.100.15.128/30"] };
  await writeNodeState(directory, direct);
  expect(await readNodeState(directory)).toEqual(direct);
});

test.each([
  ["", "it is empty"],
  ['{"version":1,', "it is not JSON, "],
  [JSON.stringify({ ...state, version: 2 }), 'field "version": 2 is not supported, allowed is 1'],
  [JSON.stringify({ ...state, mtu: "1480" }), 'field "mtu": "1480" is not a whole number'],
  [
    JSON.stringify({ ...state, tunnelAddress: "10.100.15" }),
    'field "tunnelAddress": "10.100.15" is not of the format "ipv4"',
  ],
  [JSON.stringify({ ...state, tunnelAddress: "0x10.1.1.1" }), 'field "tunnelAddress": '],
  [
    JSON.stringify({ ...state, blocks: ["10.100.15.128/26", "10.100.15.128/33"] }),
    'field "blocks[1]": "10.100.15.128/33" is not of the format "cidrv4"',
  ],
])("readNodeState() refuses %s and names the file", async (content, problem) => {
  await writeFile(join(directory, "node.json"), content);
  const reading = readNodeState(directory);
  await expect(reading).rejects.toThrow(`Cannot read the node state "${directory}/node.json": `);
  await expect(reading).rejects.toThrow(problem);
});
