/** The link that carries the node's address, where packets of pods go over it without the tunnel. */
import { ensureSysctl, readSysctl } from "../linux/sysctl.ts";

const loose = 2;

/**
 * Makes a strict rp_filter loose on this link, and leaves any other as it is.
 *
 * Two nodes do not follow a change at the same moment, and one whose sync is dead does not follow at all. As long as one
 * of them sends directly and the other one's route leads back through tunl0, a strict filter drops what comes directly.
 * The kernel takes the larger of this link's value and that of conf/all. Nobody knows what the value was before sync, so
 * it is not put back.
 *
 * @param name of the link
 * @returns whether it was changed
 */
export function allowAsymmetricPaths(name: string): boolean {
  const [all, own] = ["all", name].map((each) => Number(readSysctl(`ipv4/conf/${each}/rp_filter`)));
  return Math.max(all ?? 0, own ?? 0) === 1 && ensureSysctl(`ipv4/conf/${name}/rp_filter`, loose);
}
