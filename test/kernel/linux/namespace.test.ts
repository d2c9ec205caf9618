import { readdirSync, readlinkSync } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { run } from "../../../src/exec.ts";
import { NetworkNamespace } from "../../../src/linux/namespace.ts";

const name = `namespace-test-${process.pid}`;
const path = `/run/netns/${name}`;

beforeEach(() => run({ file: "ip", args: ["netns", "add", name] }));
afterEach(() => run({ file: "ip", args: ["netns", "delete", name] }));

function current(): string {
  return readlinkSync("/proc/thread-self/ns/net");
}

/** The namespaces of all threads of this process. */
function ofAllThreads(): Set<string> {
  return new Set(readdirSync("/proc/self/task").map((thread) => readlinkSync(`/proc/self/task/${thread}/ns/net`)));
}

test("enter() runs the action inside and comes back, also when the action throws", async () => {
  const home = current();
  const namespace = await NetworkNamespace.open(path);
  expect(namespace.enter(current)).not.toBe(home);
  expect(current()).toBe(home);
  const action = () => {
    throw new Error("inside");
  };
  expect(() => namespace.enter(action)).toThrow("inside");
  expect(current()).toBe(home);
  await namespace.close();
});

test("enter() moves no other thread, also none of the pool that asynchronous calls start later", async () => {
  const home = current();
  const namespace = await NetworkNamespace.open(path);
  const pending = namespace.enter(() => Array.from({ length: 16 }, () => stat("/")));
  await Promise.all(pending);
  expect(ofAllThreads()).toEqual(new Set([home]));
  await namespace.close();
});

test("open() fails with ENOENT when nothing is there, enter() with EINVAL when it is no namespace", async () => {
  await expect(NetworkNamespace.open(`${path}-missing`)).rejects.toMatchObject({ code: "ENOENT" });
  const file = await NetworkNamespace.open("/etc/hostname");
  expect(() => file.enter(current)).toThrow(
    expect.objectContaining({
      code: "EINVAL",
      message: 'Cannot enter the network namespace "/etc/hostname": invalid argument',
    }),
  );
  await file.close();
});

test("open() does not wait for somebody to write into a named pipe", async () => {
  const directory = await mkdtemp(join(tmpdir(), "namespace-test-"));
  const pipe = join(directory, "pipe");
  await run({ file: "mkfifo", args: [pipe] });
  const namespace = await NetworkNamespace.open(pipe);
  expect(() => namespace.enter(current)).toThrow(expect.objectContaining({ code: "EINVAL" }));
  await namespace.close();
  await rm(directory, { recursive: true });
});
