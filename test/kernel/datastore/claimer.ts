/**
 * A process that claims blocks of a pool for one node, as fast as it can: `claimer.ts <datastore> <pool as JSON> <node> <count>`.
 * Prints the CIDRs that it got, one a line.
 */
import { parseDocument } from "../../../src/datastore/documents.ts";
import { FileBlockClaims } from "../../../src/datastore/file-block-claims.ts";
import { candidates } from "../../../src/ipam/blocks/candidates.ts";

const [path = "", poolText = "", name = "", count = ""] = process.argv.slice(2);
const { name: poolName } = JSON.parse(poolText);
const pools = new Map([[poolName, parseDocument("pool", poolName, JSON.parse(poolText))]]);
const claims = new FileBlockClaims(path);
let left = Number(count);
for (const { cidr } of candidates({ name, address: "172.31.0.1/16" }, "Workload", { pools, blocks: new Map() })) {
  if (left > 0 && (await claims.claim({ cidr, node: name, claimOrder: Number(count) - left }))) {
    console.log(cidr);
    left -= 1;
  }
}
