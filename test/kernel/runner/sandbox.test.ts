import { readdir, readFile } from "node:fs/promises";
import { expect, test } from "@jest/globals";
import { run, start } from "../../../src/exec.ts";
import { inSandbox } from "../../lib/sandbox.ts";
import { waitFor } from "../../lib/wait.ts";

const timeoutMs = 10_000;

/** Process ids, seen from here, of the programs with this argument. */
async function running(argument: string): Promise<string[]> {
  const ids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(ids.map((id) => readFile(`/proc/${id}/cmdline`, "utf8").catch(() => "")));
  return ids.filter((_, index) => lines[index]?.split("\0").includes(argument));
}

test("a sandbox gives the program's exit status and output", async () => {
  const command = { file: "sh", args: ["-c", "echo hello; exit 7"], okExitCodes: [7] };
  expect(await run(inSandbox(command))).toMatchObject({ exitCode: 7, stdout: "hello" });
});

test("a sandbox has no link of the machine, and the machine none of the sandbox", async () => {
  const script = "ip -br link; ip netns add inside; ls /run/netns /sys/class/net";
  const { stdout } = await run(inSandbox({ file: "sh", args: ["-c", script] }));
  expect(stdout.match(/^\S+/gm)).toEqual(["lo", "/run/netns:", "inside", "/sys/class/net:", "lo"]);
  expect(await readdir("/run/netns").catch(() => [])).not.toContain("inside");
});

test("a program that a sandbox left behind ends with it", async () => {
  const lifetime = `86400.${process.pid}`;
  await run(inSandbox({ file: "sh", args: ["-c", `setsid sleep ${lifetime} >/dev/null 2>&1 & true`] }));
  await waitFor(async () => (await running(lifetime)).length === 0, { what: "the program gone", timeoutMs });
});

test("a sandbox that is killed takes its programs with it", async () => {
  const lifetime = `86401.${process.pid}`;
  const sandbox = start(inSandbox({ file: "sleep", args: [lifetime] }));
  await waitFor(async () => (await running(lifetime)).length > 0, { what: "the program running", timeoutMs });
  sandbox.kill("SIGKILL");
  await expect(sandbox.ended).rejects.toThrow("SIGKILL");
  await waitFor(async () => (await running(lifetime)).length === 0, { what: "the program gone", timeoutMs });
});
