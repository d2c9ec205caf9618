/** The plugin's log, written by real processes: what they write to standard error and into the file is what counts. */
import { chmod, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { parseConfiguration } from "../../../cni/config.ts";
import { logConfiguration } from "../../../cni/log.ts";
import { type Output, run, start } from "../../../src/exec.ts";
import { lockName } from "../../../src/linux/lock.ts";
import { Scratch } from "../../lib/scratch.ts";
import { waitFor } from "../../lib/wait.ts";

jest.setTimeout(60_000);

let scratch: Scratch;
let file: string;

beforeEach(() => {
  scratch = new Scratch("log");
  file = join(scratch.path, "logs/of/cni.log");
});

afterEach(() => scratch[Symbol.dispose]());

const logModule = join(import.meta.dirname, "../../../cni/log.ts");

/** @param body statements that know `log`, opened with the configuration */
function program(configuration: object, body: string): { file: string; args: string[] } {
  const script = `
    const { openLog, logConfiguration } = await import(${JSON.stringify(logModule)});
    const log = openLog(logConfiguration.parse(${JSON.stringify(configuration)}));
    ${body}`;
  return { file: process.execPath, args: ["--input-type=module", "-e", script] };
}

function say(configuration: object, body: string): Promise<Output> {
  return run({ ...program(configuration, body), env: { NODE_OPTIONS: "" } });
}

type Line = Readonly<Record<string, unknown>>;

function linesOf(text: string): Line[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
}

/** Names of the log's own files: the lock beside them is none. */
async function logFiles(): Promise<string[]> {
  return (await readdir(join(file, ".."))).filter((name) => name !== "cni.log.lock").sort();
}

async function linesOfAllFiles(): Promise<Line[]> {
  const texts = (await logFiles()).map((name) => readFile(join(file, "..", name), "utf8"));
  return (await Promise.all(texts)).flatMap(linesOf);
}

const allLevels = `
  log.debug({}, "debug"); log.info({}, "info"); log.warn({}, "warn"); log.error({}, "error");
  await log.flush();`;

test.each([
  [{}, ["warn", "error"]],
  [{ level: "debug" }, ["debug", "info", "warn", "error"]],
  [{ level: "info" }, ["info", "warn", "error"]],
  [{ level: "warn" }, ["warn", "error"]],
  [{ level: "error" }, ["error"]],
])("with %j the levels %j are written, to standard error and to the file", async (configuration, levels) => {
  const { stdout, stderr } = await say({ ...configuration, file }, allLevels);
  expect(stdout).toBe("");
  expect(linesOf(stderr).map(({ msg }) => msg)).toEqual(levels);
  expect(await linesOfAllFiles()).toEqual(linesOf(stderr));
});

test("a line has its fields and the time when it was said", async () => {
  const { stdout, stderr } = await say(
    {},
    `
    const began = Date.now();
    log.warn({ network: "pods", sizes: [1, 2] }, 'two\\nlines of "text"');
    const said = Date.now();
    while (Date.now() <= said) {}
    await log.flush();
    console.log(JSON.stringify([began, said]));`,
  );
  const [line] = linesOf(stderr);
  expect(line).toMatchObject({ level: 40, network: "pods", sizes: [1, 2], msg: 'two\nlines of "text"' });
  const [began, said] = JSON.parse(stdout);
  expect(line?.time).toBeGreaterThanOrEqual(began);
  expect(line?.time).toBeLessThanOrEqual(said);
});

test("a second flush writes nothing again", async () => {
  const { stderr } = await say({ file }, 'log.warn({}, "once"); await log.flush(); await log.flush();');
  expect(linesOf(stderr)).toHaveLength(1);
  expect(await linesOfAllFiles()).toHaveLength(1);
});

test("nothing is loaded and no file made until a line is written", async () => {
  const { stdout } = await say(
    { file },
    `
    const { registerHooks } = await import("node:module");
    const loaded = [];
    registerHooks({ resolve(name, context, next) { loaded.push(name); return next(name, context); } });
    log.info({}, "below the level");
    await log.flush();
    console.log(JSON.stringify(loaded));
    log.warn({}, "at the level");
    await log.flush();
    console.log(JSON.stringify(loaded.filter((name) => ["pino", "rotating-file-stream"].includes(name))));`,
  );
  expect(stdout.split("\n")).toEqual(["[]", '["pino","rotating-file-stream"]']);
});

test("without a line no directory is made", async () => {
  await say({ file }, "await log.flush();");
  expect(await readdir(scratch.path)).toEqual([]);
});

test("the file is for its owner alone, and so is each older one", async () => {
  await say({ file, maxSizeMegabytes: 1 }, 'log.warn({ long: "x".repeat(1 << 20) }, "full"); await log.flush();');
  await say({ file, maxSizeMegabytes: 1 }, 'log.warn({}, "next"); await log.flush();');
  expect(await logFiles()).toEqual(["cni.log", "cni.log.1"]);
  for (const name of await readdir(join(file, ".."))) {
    expect((await stat(join(file, "..", name))).mode & 0o777).toBe(0o600);
  }
});

test("no more files than configured are kept, the newest lines in them", async () => {
  const body = `
    for (let number = 0; number < 6; number++) {
      log.warn({ number, long: "x".repeat(1 << 20) }, "full");
      await log.flush();
    }
    log.warn({ number: 6 }, "last");
    await log.flush();`;
  await say({ file, maxSizeMegabytes: 1, maxFiles: 3 }, body);
  expect(await logFiles()).toEqual(["cni.log", "cni.log.1", "cni.log.2"]);
  expect((await linesOfAllFiles()).map(({ number }) => number)).toEqual([6, 5, 4]);
});

test("20 processes write at once over rotations: no line is lost or torn, each file is rotated once", async () => {
  const go = join(scratch.path, "go");
  const [processes, flushes, lines] = [20, 5, 40];
  const running = Array.from({ length: processes }, (_, writer) => {
    const body = `
      const { existsSync } = await import("node:fs");
      const { setTimeout } = await import("node:timers/promises");
      process.stdout.write("ready");
      while (!existsSync(${JSON.stringify(go)})) await setTimeout(1);
      for (let flush = 0; flush < ${flushes}; flush++) {
        for (let line = 0; line < ${lines}; line++) {
          log.warn({ id: "${writer}/" + flush + "/" + line, long: "x".repeat(1000) }, "one of many");
        }
        await log.flush();
      }`;
    let isReady = false;
    const { ended } = start({
      ...program({ file, maxSizeMegabytes: 1, maxFiles: 5 }, body),
      env: { NODE_OPTIONS: "" },
      onOutput: () => {
        isReady = true;
      },
    });
    return { ended, isReady: () => isReady };
  });
  await waitFor(() => running.every(({ isReady }) => isReady()), { what: "all processes", timeoutMs: 40_000 });
  await writeFile(go, "");
  const outputs = await Promise.all(running.map(({ ended }) => ended));

  const wanted = Array.from({ length: processes * flushes * lines }, (_, number) => {
    const [writer, rest] = [Math.floor(number / (flushes * lines)), number % (flushes * lines)];
    return `${writer}/${Math.floor(rest / lines)}/${rest % lines}`;
  });
  const ids = (await linesOfAllFiles()).map(({ id }) => id);
  expect(ids.sort()).toEqual(wanted.sort());
  expect(
    outputs
      .flatMap(({ stderr }) => linesOf(stderr))
      .map(({ id }) => id)
      .sort(),
  ).toEqual(wanted);

  // 20 * 5 * 40 lines of 1.1 kB are 4.4 MB. A file rotated twice would be small.
  const names = await logFiles();
  expect(names).toEqual(["cni.log", "cni.log.1", "cni.log.2", "cni.log.3", "cni.log.4"]);
  for (const older of names.slice(1)) {
    expect((await stat(join(file, "..", older))).size).toBeGreaterThanOrEqual(1 << 20);
  }
});

/** Each leaves something at the file's place or in its way. */
const obstacles: readonly [what: string, obstruct: () => Promise<unknown>][] = [
  ["is a directory", () => mkdir(file, { recursive: true })],
  ["is below a file", () => writeFile(join(scratch.path, "logs"), "")],
  ["is a pipe that nobody reads", () => mkdir(join(file, ".."), { recursive: true }).then(() => pipe(file))],
  ["has a directory in the lock's place", () => mkdir(`${file}.lock`, { recursive: true })],
];

function pipe(path: string): Promise<Output> {
  return run({ file: "mkfifo", args: [path] });
}

test.each(obstacles)("a file that %s is one warning on standard error, no failure", async (_, obstruct) => {
  await obstruct();
  const body = 'log.error({}, "first"); log.error({}, "second"); await log.flush(); console.log("went on");';
  const { stdout, stderr } = await say({ level: "error", file }, body);
  expect(stdout).toBe("went on");
  expect(linesOf(stderr)).toMatchObject([
    { msg: "first" },
    { msg: "second" },
    { level: 40, msg: "Cannot write the log file", file, error: expect.stringMatching(/./) },
  ]);
});

test("a file that cannot be rotated is a warning too, and has the line", async () => {
  const directory = join(file, "..");
  await mkdir(`${file}.1/occupied`, { recursive: true });
  const body = 'log.warn({ long: "x".repeat(1 << 20) }, "full"); await log.flush();';
  const { stderr } = await say({ file, maxSizeMegabytes: 1, maxFiles: 2 }, body);
  expect(linesOf(stderr).map(({ msg }) => msg)).toEqual(["full", "Cannot write the log file"]);
  expect(linesOf(await readFile(join(directory, "cni.log"), "utf8"))).toHaveLength(1);
});

test("others that hold the file for too long cost its lines, and a warning says so", async () => {
  await mkdir(join(file, ".."), { recursive: true });
  const { signal } = new AbortController();
  const lock = await lockName(`${file}.lock`, "cni.log", { timeoutMs: 0, signal });
  const { stderr } = await say({ file }, 'log.warn({}, "waits"); await log.flush();');
  await lock?.release();
  expect(linesOf(stderr)).toMatchObject([
    { msg: "waits" },
    { msg: "Cannot write the log file", error: "other calls write it since 5000 ms" },
  ]);
  expect(await logFiles()).toEqual([]);
});

test("standard error that nobody reads is no failure", async () => {
  const { file: node, args } = program({ file }, 'log.warn({}, "unheard"); await log.flush(); console.log("went on");');
  const script = join(scratch.path, "deaf");
  // The reader is gone before the first line: it ends at once, and only then the pipe's other end starts.
  await writeFile(script, '#!/bin/sh\nmkfifo "$0.pipe"\n(: <"$0.pipe") & exec 2>"$0.pipe"\nwait\nexec "$@"\n');
  await chmod(script, 0o755);
  const { stdout } = await run({ file: script, args: [node, ...args], env: { NODE_OPTIONS: "" } });
  expect(stdout).toBe("went on");
  expect(await linesOfAllFiles()).toMatchObject([{ msg: "unheard" }]);
});

test("a log configuration with null in it has the defaults", () => {
  const log = { level: null, file: null, maxSizeMegabytes: null, maxFiles: null };
  const configuration = { cniVersion: "1.1.0", name: "pods", type: "cni-ipip", log };
  expect(parseConfiguration(JSON.stringify(configuration)).log).toEqual(logConfiguration.parse({}));
});

test("logConfiguration() has defaults for all but the file", () => {
  expect(logConfiguration.parse({})).toEqual({ level: "warn", maxSizeMegabytes: 10, maxFiles: 5 });
});

const aLevel = "one of debug, info, warn, error";
const aPath = "an absolute path";
const aRealPath = "an absolute path of at most 4095 bytes without NUL";
const aSize = "a whole number from 1 to 1024";
const aCount = "a whole number from 2 to 100";

test.each<[object, field: string, value: string, allowed: string]>([
  [{ level: "trace" }, "level", '"trace"', aLevel],
  [{ level: "WARN" }, "level", '"WARN"', aLevel],
  [{ level: 40 }, "level", "40", aLevel],
  [{ file: "cni.log" }, "file", '"cni.log"', aPath],
  [{ file: "" }, "file", '""', aPath],
  [{ file: 7 }, "file", "7", aPath],
  [{ file: "/\0" }, "file", '"/\\u0000"', aRealPath],
  [{ file: `/${"x".repeat(4095)}` }, "file", `"/${"x".repeat(79)}…"`, aRealPath],
  [{ maxSizeMegabytes: 0 }, "maxSizeMegabytes", "0", aSize],
  [{ maxSizeMegabytes: -1 }, "maxSizeMegabytes", "-1", aSize],
  [{ maxSizeMegabytes: 0.5 }, "maxSizeMegabytes", "0.5", aSize],
  [{ maxSizeMegabytes: 1025 }, "maxSizeMegabytes", "1025", aSize],
  [{ maxSizeMegabytes: "10" }, "maxSizeMegabytes", '"10"', aSize],
  [{ maxSizeMegabytes: 1e300 }, "maxSizeMegabytes", "1e+300", aSize],
  [{ maxFiles: 1 }, "maxFiles", "1", aCount],
  [{ maxFiles: 101 }, "maxFiles", "101", aCount],
  [{ maxFiles: 2.5 }, "maxFiles", "2.5", aCount],
  [{ maxFiles: [] }, "maxFiles", "[]", aCount],
])("the log configuration %j is refused by its field", (log, field, value, allowed) => {
  const configuration = JSON.stringify({ cniVersion: "1.1.0", name: "pods", type: "cni-ipip", log });
  expect(() => parseConfiguration(configuration)).toThrow(
    `Cannot use the network configuration: field "log.${field}" is ${value}, allowed is ${allowed}`,
  );
});
