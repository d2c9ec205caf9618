/**
 * Looks at a node's leases as the passes of sync do: `look-at-leases.ts RUN_DIRECTORY STATE_DIRECTORY STEP…`. A step is the
 * time of a look in milliseconds, or the path of a file that is removed. What sync would log goes to standard output, its
 * conditions too.
 */
import { rm } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { pino } from "pino";
import { DiskLeases } from "../../../src/ipam/disk-leases.ts";
import { Netlink } from "../../../src/netlink/netlink.ts";
import { Conditions } from "../../../src/sync/conditions.ts";
import { NodeLeases } from "../../../src/sync/leases.ts";

const [runDir = "", stateDir = "", ...steps] = process.argv.slice(2);
const log = pino();
const netlink = Netlink.open();
const store = new DiskLeases(join(stateDir, "leases"));
const leases = new NodeLeases({
  config: { runDir, stateDir },
  store,
  netlink,
  conditions: new Conditions(log),
  log,
});
for (const step of steps) {
  if (isAbsolute(step)) {
    await rm(step);
  } else {
    log.info({ waitMs: await leases.lookAfter(Number(step)) });
  }
}
netlink.close();
