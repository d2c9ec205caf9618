import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { nodeInstance } from "../../../../src/ipam/blocks/instance-id.ts";

let directory: string;
let stateDir: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "instance-"));
  stateDir = join(directory, "state");
});

afterEach(() => rm(directory, { recursive: true }));

test("nodeInstance() is made once and stays", async () => {
  const made = await nodeInstance(stateDir);
  expect(made).toEqual({ id: expect.stringMatching(/^[0-9a-f-]{36}$/), isNew: true });
  expect(await nodeInstance(stateDir)).toEqual({ id: made.id, isNew: false });
  expect(await readFile(join(stateDir, "instance-id"), "utf8")).toBe(`${made.id}\n`);
  expect(await readdir(stateDir)).toEqual(["instance-id"]);
});

test("nodeInstance() is another one on another disk", async () => {
  const { id } = await nodeInstance(stateDir);
  expect((await nodeInstance(join(directory, "other"))).id).not.toBe(id);
});

test("nodeInstance() is the same for all that ask at once, and new for one of them", async () => {
  const found = await Promise.all(Array.from({ length: 16 }, () => nodeInstance(stateDir)));
  expect(new Set(found.map(({ id }) => id)).size).toBe(1);
  expect(found.filter(({ isNew }) => isNew)).toHaveLength(1);
});

test.each([
  ["empty", ""],
  ["cut", "8f14e45f-ceea-467f"],
  ["something else", "{}\n"],
])("nodeInstance() sets a file aside that is %s, and makes another id", async (_, text) => {
  const { id: former } = await nodeInstance(stateDir);
  await writeFile(join(stateDir, "instance-id"), text);
  const { id, isNew, setAside } = await nodeInstance(stateDir);
  expect({ isNew, setAside }).toEqual({ isNew: true, setAside: join(stateDir, `instance-id.broken-${id}`) });
  expect(id).not.toBe(former);
  expect(await readFile(setAside ?? "", "utf8")).toBe(text);
  expect(await nodeInstance(stateDir)).toEqual({ id, isNew: false });
});

test("nodeInstance() names the file that cannot be made", async () => {
  await writeFile(stateDir, "");
  await expect(nodeInstance(stateDir)).rejects.toThrow(`Cannot use the instance id "${join(stateDir, "instance-id")}"`);
});
