/**
 * Looks after pods' links once, as a pass of sync does: `look-after.ts RUN_DIRECTORY`, with the list of links on standard
 * input. What sync would log goes to standard output; what it would take for a condition ends the process.
 */
import { text } from "node:stream/consumers";
import { pino } from "pino";
import { Workloads } from "../../../src/sync/workloads.ts";

const [runDir = ""] = process.argv.slice(2);
const links = JSON.parse(await text(process.stdin));
await new Workloads(runDir, pino()).keepGuarded(links);
