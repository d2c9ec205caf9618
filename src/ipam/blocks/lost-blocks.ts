/** Blocks that are open on this node's disk although the datastore does not say that they are ours. */
import type { BlockClaims } from "../../datastore/block-claims.ts";
import type { Block } from "../../datastore/documents.ts";
import { fits } from "../../datastore/pool-ranges.ts";
import type { LeaseStore } from "../lease-store.ts";
import type { HeldBlocks } from "./held-blocks.ts";
import { type ClusterBlocks, nextClaimOrder, ownBlocks } from "./own-blocks.ts";

interface LostBlocksOptions {
  readonly nodeName: string;
  readonly instance: string;
  readonly claims: BlockClaims;
  readonly held: HeldBlocks;
  readonly store: LeaseStore;
  readonly onClaimed: (block: Block) => void;
}

/**
 * An empty one is closed. One with leases is claimed again where nobody has it: an operator or a restored backup removed
 * the document, and the pods are still there.
 *
 * @throws an error that names the blocks that cannot be ours again while addresses of them are leased here
 */
export async function claimLostBlocks(
  cluster: ClusterBlocks,
  { nodeName, instance, claims, held, store, onClaimed }: LostBlocksOptions,
): Promise<void> {
  const own = ownBlocks(nodeName, cluster).map(({ block }) => block);
  const known = new Set([...own, ...held.leaving()].map(({ cidr }) => cidr));
  let claimOrder = nextClaimOrder(own);
  const problems: string[] = [];
  for (const cidr of (await store.blocks()).filter((open) => !known.has(open))) {
    const current = await claims.read(cidr);
    const wanted = current ?? { cidr, node: nodeName, claimOrder, instance };
    const leases = (await store.taken(cidr))?.size ?? 0;
    if (current?.node === nodeName) {
      continue; // the cluster shows it soon, or a condition says why not
    }
    if (leases === 0) {
      await held.close(wanted);
      await held.forget(wanted);
    } else if (current !== undefined) {
      problems.push(
        `"${cidr}" belongs to node "${current.node}" and has ${leases} leases here, remove the pods of one`,
      );
    } else if (![...cluster.pools.values()].some((pool) => fits(wanted, pool))) {
      problems.push(`"${cidr}" is in no pool and has ${leases} leases here, add the pool again or remove the pods`);
    } else if (await claims.claim(wanted)) {
      claimOrder += 1;
      onClaimed(wanted);
    }
  }
  if (problems.length > 0) {
    throw new Error(`Cannot keep every block: ${problems.join("; ")}`);
  }
}
