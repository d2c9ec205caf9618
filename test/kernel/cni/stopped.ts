/** A call of the plugin that was stopped when it began a step, and goes on with `kill("SIGCONT")`. */
import { join } from "node:path";
import type { Process } from "../../../src/exec.ts";
import { waitFor } from "../../lib/wait.ts";
import { type Call, stateOf, type TestNode } from "./node.ts";

/** @param step number, from 1, or name */
export async function stoppedAdd(node: TestNode, call: Call, step: number | string): Promise<Process> {
  const program = join(import.meta.dirname, "killable.ts");
  const add = node.start("ADD", { ...call, program, env: { CNI_TEST_STOP_AT: String(step) } });
  await waitFor(async () => (await stateOf(add)) === "T", { what: "ADD stopped", timeoutMs: 20_000 });
  return add;
}
