/**
 * Looks at a node's leases as the passes of sync do: `look-at-leases.ts RUN_DIRECTORY STATE_DIRECTORY MILLISECONDS…`, once at
 * each of these times. What sync would log goes to standard output, its conditions too.
 */
import { join } from "node:path";
import { pino } from "pino";
import { DiskLeases } from "../../../src/ipam/disk-leases.ts";
import { Netlink } from "../../../src/netlink/netlink.ts";
import { Conditions } from "../../../src/sync/conditions.ts";
import { NodeLeases } from "../../../src/sync/leases.ts";

const [runDir = "", stateDir = "", ...times] = process.argv.slice(2);
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
for (const time of times) {
  log.info({ waitMs: await leases.lookAfter(Number(time)) });
}
netlink.close();
