import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { describe, readReport, sum } from "../../lib/tally.ts";

let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "cni-ipip-tally-"));
});

afterAll(() => rm(directory, { recursive: true }));

/** What jest writes when all is well, with other numbers where given. */
async function report(numbers: object): Promise<string> {
  const file = join(directory, "report.json");
  const counts = { numPassedTests: 3, numFailedTests: 0, numPendingTests: 0, numTodoTests: 0 };
  await writeFile(file, JSON.stringify({ success: true, numRuntimeErrorTestSuites: 0, ...counts, ...numbers }));
  return file;
}

test("readReport() counts what passed, failed and was skipped", async () => {
  const file = await report({ success: false, numFailedTests: 2, numPendingTests: 1, numTodoTests: 1 });
  expect(await readReport(file, 1)).toEqual({ passed: 3, failed: 2, skipped: 2 });
});

test("readReport() counts a test file that broke as failed", async () => {
  const file = await report({ success: false, numRuntimeErrorTestSuites: 1 });
  expect(await readReport(file, 1)).toEqual({ passed: 3, failed: 1, skipped: 0 });
});

test("readReport() refuses a run without a report", async () => {
  await expect(readReport(join(directory, "absent"), 134)).rejects.toThrow("exit status 134 and no report");
});

test("readReport() refuses a run without a test", async () => {
  await expect(readReport(await report({ numPassedTests: 0 }), 0)).rejects.toThrow("jest found none");
});

test("readReport() refuses a run that failed without a failed test", async () => {
  await expect(readReport(await report({}), 1)).rejects.toThrow("none failed, yet jest ended with exit status 1");
});

test("the sum of tiers names skipped tests only where there are any", () => {
  const tiers = [
    { passed: 3, failed: 0, skipped: 0 },
    { passed: 4, failed: 1, skipped: 0 },
  ];
  expect(describe(sum(tiers))).toBe("7 passed, 1 failed");
  expect(describe({ passed: 7, failed: 0, skipped: 2 })).toBe("7 passed, 0 failed, 2 skipped");
});
