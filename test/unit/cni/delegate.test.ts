/** Calls to plugins that behave badly: shell scripts, so that what is tested is a process. */
import { chmod, mkdir, open, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CniError } from "@containernetworking/cni-types-ts";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { type DelegateCall, delegate } from "../../../cni/delegate.ts";
import { run } from "../../../src/exec.ts";
import { Scratch } from "../../lib/scratch.ts";
import { waitFor } from "../../lib/wait.ts";

jest.setTimeout(30_000);

let scratch: Scratch;

beforeEach(() => {
  scratch = new Scratch("delegate");
});

afterEach(() => scratch[Symbol.dispose]());

/** @returns the directory of the plugin "hostile" */
async function plugin(script: string, { directory = "bin", mode = 0o755 } = {}): Promise<string> {
  const path = join(scratch.path, directory);
  await mkdir(path, { recursive: true });
  await writeFile(join(path, "hostile"), `#!/bin/sh\n${script}\n`);
  await chmod(join(path, "hostile"), mode);
  return path;
}

function call(path: readonly string[], more: Partial<DelegateCall> = {}): DelegateCall {
  return {
    type: "hostile",
    environment: { PATH: process.env.PATH },
    path,
    configuration: '{"token": "secret"}',
    signal: new AbortController().signal,
    ...more,
  };
}

async function failureOf(work: Promise<unknown>): Promise<CniError> {
  const error = await work.then(
    () => undefined,
    (thrown) => thrown,
  );
  expect(error).toBeInstanceOf(CniError);
  return error as CniError;
}

test.each([
  ["exit 0", undefined],
  ["echo; echo '  '", undefined],
  ["cat", { token: "secret" }],
  ["echo 'a line for people' >&2; echo '{\"ips\": []}'", { ips: [] }],
  ["echo null", null],
])("what %j prints is the answer", async (script, answer) => {
  expect(await delegate("ADD", call([await plugin(script)]))).toEqual(answer);
});

const nested = `{"cniVersion": "1.0.0", "code": 105, "msg": "no address", "details": "of any kind"}`;

test.each([
  ["an error object", `echo '${nested}'; exit 1`, { code: 105, message: "no address", details: "of any kind" }],
  ["one with exit status 0", `echo '${nested}'`, { code: 105, message: "no address", details: "of any kind" }],
  [
    "one of version 0.1.0",
    `echo '{"cniVersion": "0.1.0", "code": 100, "msg": "x"}'; exit 3`,
    { code: 100, message: "x", details: undefined },
  ],
  [
    "one without a version",
    `echo '{"code": 11, "msg": "later", "other": 1}'; exit 1`,
    { code: 11, message: "later", details: undefined },
  ],
])("%s is reported with its own code, message and details", async (_, script, expected) => {
  const { code, message, details } = await failureOf(delegate("ADD", call([await plugin(script)])));
  expect({ code, message, details }).toEqual(expected);
});

const unreported = (ending: string) => `Cannot ADD by the plugin "hostile": ${ending} and no error object`;

test.each([
  ["says nothing", "exit 1", unreported("exit status 1"), /exit status 1$/],
  ["says it on standard error", "echo 'no daemon' >&2; exit 2", unreported("exit status 2"), /^no daemon$/],
  ["says much", "head -c 5000 /dev/zero | tr '\\0' x >&2; exit 2", unreported("exit status 2"), /^x{200}…$/],
  ["prints garbage", "echo '{\"code\":'; exit 1", unreported("exit status 1"), /exit status 1$/],
  ["prints a code in words", `echo '{"code": "7", "msg": "x"}'; exit 1`, unreported("exit status 1"), /exit status 1$/],
  ["prints a result", `echo '{"ips": []}'; exit 1`, unreported("exit status 1"), /exit status 1$/],
  ["is killed", "kill -KILL $$", unreported("killed by SIGKILL"), /SIGKILL/],
  [
    "prints without end",
    "cat /dev/zero",
    'Cannot ADD by the plugin "hostile": it printed more than 4194304 characters, the limit',
    /./,
  ],
])("a plugin that fails and %s is named with how it ended", async (_, script, message, details) => {
  const failure = await failureOf(delegate("ADD", call([await plugin(script)])));
  expect(failure).toMatchObject({ code: 999, message, details: expect.stringMatching(details) });
  expect(JSON.stringify(failure.toResult("1.1.0"))).not.toContain("secret");
});

test("a program whose interpreter is missing does not start", async () => {
  const path = await plugin("");
  await writeFile(join(path, "hostile"), "#!/does/not/exist\n");
  expect(await failureOf(delegate("ADD", call([path])))).toMatchObject({
    code: 999,
    message: 'Cannot ADD by the plugin "hostile": it does not start',
    details: expect.stringContaining("ENOENT"),
  });
});

test.each([
  ["ready", '"ready"'],
  ['{"ips": [', '"{\\"ips\\": ["'],
  ["x".repeat(300), `"${"x".repeat(200)}…"`],
])("an answer that is not JSON is refused and shown in short, %#", async (answer, shown) => {
  expect(await failureOf(delegate("CHECK", call([await plugin(`echo '${answer}'`)])))).toMatchObject({
    code: 6,
    message: `Cannot decode the answer to CHECK of the plugin "hostile": ${shown}, allowed is JSON`,
  });
});

test("10 MiB of output are refused in a short sentence", async () => {
  const path = await plugin("head -c 10485760 /dev/zero | tr '\\0' x");
  const { code, message } = await failureOf(delegate("ADD", call([path])));
  expect(code).toBe(999);
  expect(message.length).toBeLessThan(200);
});

test("a plugin that does not read its configuration is no failure, however long that is", async () => {
  const long = call([await plugin("exit 0")], { configuration: "x".repeat(1 << 20) });
  expect(await delegate("DEL", long)).toBeUndefined();
});

test("a plugin gets the configuration as it is", async () => {
  const configuration = ' {"name":\t"pöds", "big": 12345678901234567890}\n\n';
  const path = await plugin(`cat > ${join(scratch.path, "input")}`);
  await delegate("ADD", call([path], { configuration }));
  expect(await readFile(join(scratch.path, "input"), "utf8")).toBe(configuration);
});

test("a plugin sees the variables of CNI and PATH, and nothing else", async () => {
  const environment = {
    CNI_COMMAND: "ADD",
    CNI_CONTAINERID: "c1",
    CNI_ARGS: "IgnoreUnknown=1;IP=10.1.2.3",
    CNI_PATH: "/opt/cni/bin",
    CNI_NETNS: undefined,
    PATH: "/usr/bin:/bin",
    HOME: "/root",
    TOKEN: "secret",
  };
  const path = await plugin(`exec /usr/bin/env > ${join(scratch.path, "seen")}`);
  await delegate("DEL", call([path], { environment }));
  const seen = (await readFile(join(scratch.path, "seen"), "utf8")).trim().split("\n");
  // The shell that runs the script adds PWD itself.
  expect(seen.filter((line) => !line.startsWith("PWD=")).sort()).toEqual([
    "CNI_ARGS=IgnoreUnknown=1;IP=10.1.2.3",
    "CNI_COMMAND=DEL",
    "CNI_CONTAINERID=c1",
    "CNI_PATH=/opt/cni/bin",
    "PATH=/usr/bin:/bin",
  ]);
});

test("the first program of the name is called: no directory, no file that cannot be executed", async () => {
  const directory = join(scratch.path, "directory");
  await mkdir(join(directory, "hostile"), { recursive: true });
  const dangling = join(scratch.path, "dangling");
  await mkdir(dangling);
  await symlink("/does/not/exist", join(dangling, "hostile"));
  const closed = await plugin("echo 1", { directory: "closed", mode: 0o644 });
  const [second, third] = [
    await plugin("echo 2", { directory: "second" }),
    await plugin("echo 3", { directory: "third" }),
  ];
  const path = [join(scratch.path, "absent"), directory, dangling, closed, second, third];
  expect(await delegate("ADD", call(path))).toBe(2);
});

test.each([
  [
    "absent",
    ["/does/not/exist", "/etc"],
    'CNI_PATH is "/does/not/exist:/etc", needed is a directory with a program of that name',
  ],
  ["absent", [], 'CNI_PATH is "", needed is a directory with a program of that name'],
  [".", ["/usr/bin"], 'CNI_PATH is "/usr/bin", needed is a directory with a program of that name'],
  ["..", ["/usr/bin"], 'CNI_PATH is "/usr/bin", needed is a directory with a program of that name'],
  ["", ["/usr/bin"], 'CNI_PATH is "/usr/bin", needed is a directory with a program of that name'],
  ["true\0", ["/usr/bin"], 'CNI_PATH is "/usr/bin", needed is a directory with a program of that name'],
  ["true", ["."], 'CNI_PATH is ".", needed is a directory with a program of that name'],
  ["../bin/true", ["/usr/bin"], 'allowed is a file name without "/"'],
  ["/usr/bin/true", ["/"], 'allowed is a file name without "/"'],
])("the plugin %j is not found in %j", async (type, path, problem) => {
  expect(await failureOf(delegate("ADD", call(path, { type })))).toMatchObject({
    code: 7,
    message: `Cannot find the plugin "${type}": ${problem}`,
  });
});

test("a program in the directory of the call, which CNI_PATH names with a dot, is not mistaken for one in PATH", async () => {
  const here = await plugin("echo 1", { directory: "here" });
  const elsewhere = await plugin("echo 2", { directory: "elsewhere" });
  const { stdout } = await run({
    file: process.execPath,
    args: [
      "--input-type=module",
      "-e",
      `const { delegate } = await import(${JSON.stringify(join(import.meta.dirname, "../../../cni/delegate.ts"))});
      const { signal } = new AbortController();
      const call = { type: "hostile", environment: process.env, path: ["."], configuration: "{}", signal };
      console.log(await delegate("ADD", call));`,
    ],
    cwd: here,
    env: { NODE_OPTIONS: "", PATH: `${elsewhere}:${process.env.PATH}` },
  });
  expect(stdout).toBe("1");
});

test("what a plugin writes to standard error is logged in short, and only there", async () => {
  const lines: unknown[] = [];
  const log = { info: (fields: object, sentence: string) => void lines.push({ ...fields, sentence }) };
  const noisy = await plugin("head -c 100000 /dev/zero | tr '\\0' x >&2; echo 1");
  expect(await delegate("ADD", call([noisy], { log }))).toBe(1);
  const quiet = await plugin("echo 2", { directory: "quiet" });
  expect(await delegate("ADD", call([quiet], { log }))).toBe(2);
  expect(lines).toEqual([
    {
      plugin: "hostile",
      command: "ADD",
      stderr: `${"x".repeat(200)}…`,
      sentence: "A plugin that was called wrote to standard error",
    },
  ]);
});

test("a call that is ended kills the plugin and does not wait for what that started", async () => {
  const pidFile = join(scratch.path, "pids");
  const path = await plugin(`sleep 60 & echo $$ $! > ${pidFile}.new; mv ${pidFile}.new ${pidFile}; wait`);
  const ending = new AbortController();
  const running = failureOf(delegate("ADD", call([path], { signal: ending.signal })));
  const { value: pids } = await waitFor(() => readFile(pidFile, "utf8"), { what: "the plugin", timeoutMs: 10_000 });
  const [pid, left] = pids.split(" ").map(Number);
  const reason = new CniError(11, "Cannot finish ADD: stopped by SIGTERM");
  ending.abort(reason);
  expect(await running).toBe(reason);
  expect(() => process.kill(pid ?? 0, 0)).toThrow("ESRCH");
  process.kill(left ?? 0); // it was still there, or this throws
});

test("what a plugin leaves behind on its output is not waited for: what was printed until the plugin's end counts", async () => {
  const pidFile = join(scratch.path, "pid");
  const path = await plugin(`sleep 600 & echo $! > ${pidFile}; head -c 1000000 /dev/zero | tr '\\0' 1`);
  const answer = await delegate("ADD", call([path]));
  process.kill(Number(await readFile(pidFile, "utf8"))); // it was still there, or this throws
  expect(answer).toBe(Number("1".repeat(1_000_000)));
});

test("a plugin that fails and leaves something behind is reported in its own words", async () => {
  const pidFile = join(scratch.path, "pid");
  const path = await plugin(`sleep 600 & echo $! > ${pidFile}; echo '${nested}'; exit 1`);
  const failure = await failureOf(delegate("ADD", call([path])));
  process.kill(Number(await readFile(pidFile, "utf8")));
  expect(failure).toMatchObject({ code: 105, message: "no address" });
});

test("a plugin gets the lock as its descriptor 3, and none where there is no lock", async () => {
  const path = await plugin("readlink /proc/$$/fd/3 >&2; exit 1");
  const lock = await open(join(scratch.path, "lock"), "a");
  const held = await failureOf(delegate("ADD", call([path], { lock: lock.fd })));
  await lock.close();
  expect(held.details).toBe(join(scratch.path, "lock"));
  expect((await failureOf(delegate("ADD", call([path])))).details).not.toContain("/lock");
});

test("a call that was ended before it began starts nothing", async () => {
  const started = join(scratch.path, "started");
  const path = await plugin(`touch ${started}`);
  const reason = new CniError(11, "Cannot finish ADD: stopped by SIGTERM");
  expect(await failureOf(delegate("ADD", call([path], { signal: AbortSignal.abort(reason) })))).toBe(reason);
  await expect(readFile(started)).rejects.toThrow("ENOENT");
});
