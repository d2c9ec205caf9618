/** Counts tests: what a run of jest says, and the sum over runs. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { z } from "zod";

export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** The part that is read of what `jest --json --outputFile` writes. */
const Report = z.object({
  success: z.boolean(),
  numPassedTests: z.int(),
  numFailedTests: z.int(),
  numPendingTests: z.int(),
  numTodoTests: z.int(),
  /** Test files that broke before or outside their tests. */
  numRuntimeErrorTestSuites: z.int(),
});

/** Counts a finished run of jest. Throws when it wrote no report, or one without any test. */
export async function readReport(file: string, exitCode: number): Promise<Tally> {
  if (!existsSync(file)) {
    throw new Error(`Cannot count the tests: jest ended with exit status ${exitCode} and no report`);
  }
  const report = Report.parse(JSON.parse(await readFile(file, "utf8")));
  const failed = report.numFailedTests + report.numRuntimeErrorTestSuites;
  const skipped = report.numPendingTests + report.numTodoTests;
  if (report.numPassedTests + failed + skipped === 0) {
    throw new Error("Cannot count the tests: jest found none");
  }
  if (failed === 0 && (exitCode !== 0 || !report.success)) {
    throw new Error(`Cannot trust the tests: none failed, yet jest ended with exit status ${exitCode}`);
  }
  return { passed: report.numPassedTests, failed, skipped };
}

export function sum(tallies: readonly Tally[]): Tally {
  const total = (of: (tally: Tally) => number) => tallies.reduce((count, tally) => count + of(tally), 0);
  return {
    passed: total(({ passed }) => passed),
    failed: total(({ failed }) => failed),
    skipped: total(({ skipped }) => skipped),
  };
}

export function describe({ passed, failed, skipped }: Tally): string {
  return `${passed} passed, ${failed} failed${skipped === 0 ? "" : `, ${skipped} skipped`}`;
}
