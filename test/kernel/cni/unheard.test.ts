/** Answers that nobody gets. */
import { chmod, copyFile, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { type Output, type Process, run, start } from "../../../src/exec.ts";
import { waitFor } from "../../lib/wait.ts";
import { type Call, nothing, TestNode } from "./node.ts";

jest.setTimeout(60_000);

let node: TestNode;
let call: Call;
let log: string;

beforeEach(async () => {
  node = await TestNode.create();
  await node.writeState();
  log = join(node.runDir, "cni.log");
  call = { containerId: "c1", netns: await node.createPod(), config: { log: { level: "info", file: log } } };
});

afterEach(() => node.remove());

/** @param script of a shell that calls the plugin as "$@" */
function inShell(script: string, command: string): Process {
  const { file, args, env, input } = node.command(command, call);
  return start({ file: "sh", args: ["-c", script, "sh", file, ...args], env, input, okExitCodes: [1] });
}

/** The reader has long ended when the plugin has started. */
const unread = '{ "$@"; echo "exit $?" >&2; } | :';

const exitStatus = ({ stderr }: Output) => /exit (\d+)/.exec(stderr)?.[1];

test("a repeated ADD that nobody reads leaves alone what the first one made", async () => {
  const { json } = await node.call("ADD", call);
  const before = await node.remains();
  expect(exitStatus(await inShell(unread, "ADD").ended)).toBe("1");
  expect(await node.remains()).toEqual(before);
  expect(await node.call("CHECK", { ...call, config: { prevResult: json } })).toMatchObject({ exitCode: 0 });
});

test("an ADD that had to make a broken interface anew and is not heard takes it back", async () => {
  await node.call("ADD", call);
  await node.podIp(call.netns ?? "", "link", "set", "eth0", "down");
  expect(exitStatus(await inShell(unread, "ADD").ended)).toBe("1");
  expect(await node.remains()).toEqual(nothing);
});

/** Its standard output is a pipe that is full, with somebody at the other end. */
async function addIntoFullPipe(): Promise<{ add: Process; pipe: string }> {
  const pipe = join(node.runDir, "pipe");
  const script = `mkfifo ${pipe}; exec 9<>${pipe}; dd if=/dev/zero bs=65536 count=1 >&9 2>/dev/null; exec "$@" >&9`;
  const add = inShell(script, "ADD");
  const isDone = async () => (await readFile(log, "utf8").catch(() => "")).includes("ADD done");
  await waitFor(isDone, { what: "ADD done", timeoutMs: 20_000 });
  return { add, pipe };
}

test("an ADD whose answer waits in a full pipe ends by SIGTERM, and takes back what it made", async () => {
  const { add } = await addIntoFullPipe();
  add.kill("SIGTERM");
  expect((await add.ended).exitCode).toBe(1);
  expect(await node.remains()).toEqual(nothing);
});

test("an answer that waits in a full pipe is there when somebody reads", async () => {
  const { add, pipe } = await addIntoFullPipe();
  const { stdout } = await run({ file: "head", args: ["-n", "1", pipe] });
  expect((await add.ended).exitCode).toBe(0);
  expect(JSON.parse(stdout.replaceAll("\0", ""))).toMatchObject({ ips: [{ address: "10.100.15.129/32" }] });
  expect(await node.leases()).toEqual(["10.100.15.129"]);
});

/** The plugin by its launcher, as a runtime calls it. */
async function launcher(): Promise<string> {
  const directory = join(node.runDir, "program");
  await mkdir(directory);
  await copyFile(join(import.meta.dirname, "../../../src/launcher.sh"), join(directory, "cni-ipip"));
  await chmod(join(directory, "cni-ipip"), 0o755);
  await symlink(process.execPath, join(directory, "node"));
  const main = join(import.meta.dirname, "../../../cni/main.ts");
  await writeFile(join(directory, "plugin.mjs"), `await import(${JSON.stringify(main)});`);
  return join(directory, "cni-ipip");
}

test.each([">&-", ">/dev/full"])(
  "an ADD whose standard output is %s takes back what it made, DEL is done",
  async (to) => {
    const script = `nsenter --net=/run/netns/${node.namespace} sh -c "exec ${await launcher()} ${to}"`;
    expect((await inShell(script, "ADD").ended).exitCode).toBe(1);
    expect(await readFile(log, "utf8")).toContain("ADD done");
    expect(await node.remains()).toEqual(nothing);
    await node.call("ADD", call);
    expect((await inShell(script, "DEL").ended).exitCode).toBe(0);
    expect(await node.remains()).toEqual(nothing);
  },
);
