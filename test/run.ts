/** Runs the test tiers named on the command line (all without a name) and prints how many tests ran in each. */
import { exitOnSignals } from "./lib/signals.ts";
import { describe, sum } from "./lib/tally.ts";
import { runTier, TIERS, type TierResult } from "./lib/tiers.ts";

async function main(names: readonly string[]): Promise<void> {
  const unknown = names.find((name) => !TIERS.some((tier) => tier === name));
  if (unknown !== undefined) {
    throw new Error(`Cannot run the tier "${unknown}": allowed are ${TIERS.join(", ")}`);
  }
  const results: TierResult[] = [];
  for (const tier of TIERS) {
    if (names.length === 0 || names.includes(tier)) {
      results.push(...(await runTier(tier)));
    }
  }
  console.log("");
  for (const result of results) {
    console.log(`${result.title}: ${result.reason === undefined ? describe(result) : `not run: ${result.reason}`}`);
  }
  const total = sum(results);
  console.log(describe(total));
  process.exitCode = total.failed === 0 && total.skipped === 0 ? 0 : 1;
}

exitOnSignals();
try {
  await main(process.argv.slice(2));
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 2;
}
