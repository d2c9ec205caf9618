/** The launcher with programs of the test's own beside it, run by a runtime with an environment that is not for us. */
import { chmod, copyFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { type Output, run } from "../../../src/exec.ts";
import { Scratch } from "../../lib/scratch.ts";

jest.setTimeout(30_000);

let scratch: Scratch;
let launcher: string;

beforeEach(async () => {
  scratch = new Scratch("launcher");
  launcher = join(scratch.path, "cni-ipip");
  await copyFile(join(import.meta.dirname, "../../../src/launcher.sh"), launcher);
  await chmod(launcher, 0o755);
  await symlink(process.execPath, join(scratch.path, "node"));
  for (const program of ["plugin", "cli"]) {
    const says = `console.log(JSON.stringify({ program: "${program}", args: process.argv.slice(2), env: process.env }));`;
    await writeFile(join(scratch.path, `${program}.mjs`), says);
  }
});

afterEach(() => scratch[Symbol.dispose]());

function launch(env: Readonly<Record<string, string>>, ...args: string[]): Promise<Output> {
  const { PATH = "" } = process.env;
  return run({ file: launcher, args, env: { PATH, ...env }, onlyEnv: true });
}

test.each([
  { NODE_OPTIONS: "--require=/does/not/exist" },
  { NODE_OPTIONS: "--no-such-option" },
  { NODE_DEBUG: "net", NODE_DEBUG_NATIVE: "cares", NODE_EXTRA_CA_CERTS: "/does/not/exist" },
  { NODE_PATH: "/a\nNODE_PATH=x y\nexport NODE_b=$(exit 1)", NODE_: "", NODE_LATER_9: "'\"$(exit 1)`exit 1`" },
])("the plugin sees nothing of %j", async (variables) => {
  const { stdout, stderr } = await launch({ CNI_COMMAND: "ADD", CNI_ARGS: "NODE_A=1", NODES: "3", ...variables });
  const { program, env } = JSON.parse(stdout);
  expect({ program, stderr }).toEqual({ program: "plugin", stderr: "" });
  expect(Object.keys(env).filter((name) => name.startsWith("NODE_"))).toEqual([]);
  expect(env).toMatchObject({ CNI_COMMAND: "ADD", CNI_ARGS: "NODE_A=1", NODES: "3" });
});

test.each([{}, { CNI_COMMAND: "" }])(
  "without a verb it is the command line, with all that is set: %j",
  async (verb) => {
    const { stdout } = await launch({ ...verb, NODE_DEBUG: "none" }, "sync", "--config", "a b");
    expect(JSON.parse(stdout)).toMatchObject({
      program: "cli",
      args: ["sync", "--config", "a b"],
      env: { NODE_DEBUG: "none" },
    });
  },
);

test("what is printed to a standard output that is closed fails", async () => {
  const program = `process.stdout.on("error", () => {});
    process.stdout.write("an answer", (error) => console.error(error?.code ?? "written"));`;
  await writeFile(join(scratch.path, "plugin.mjs"), program);
  const script = '"$0" >&-; echo "exit $?" >&2';
  const closed = await run({
    file: "sh",
    args: ["-c", script, launcher],
    env: { CNI_COMMAND: "ADD", NODE_OPTIONS: "" },
  });
  expect(closed.stderr.split("\n")).toEqual(["ENOSPC", "exit 0"]);
});
