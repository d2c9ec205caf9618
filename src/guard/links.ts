/** Which links the host-net guard belongs on. */
import type { Link } from "../netlink/link.ts";

/** Their frames reach the stack through the master, which is guarded itself. A VRF hands nothing on: its slaves are guarded. */
const mastersThatTakeFrames: readonly string[] = ["bridge", "bond", "team", "openvswitch"];

/**
 * Whether the link is the host's end of a pod's. By kind too: any link can be given such a name. What pods send is not
 * checked in this release.
 */
export function isPodLink({ kind, name }: Link): boolean {
  return kind === "veth" && name.startsWith("cali");
}

/**
 * Whether packets from outside can enter this node's stack on the link, so that the guard must look at them there.
 *
 * @param links all links of the same network namespace, to look the master up
 */
export function shouldGuard(link: Link, links: Iterable<Link>): boolean {
  if (link.isLoopback || isPodLink(link) || link.kind === "ipip") {
    return false;
  }
  const master = link.masterIndex === undefined ? undefined : find(link.masterIndex, links);
  return master?.kind === undefined || !mastersThatTakeFrames.includes(master.kind);
}

function find(index: number, links: Iterable<Link>): Link | undefined {
  for (const link of links) {
    if (link.index === index) {
      return link;
    }
  }
  return undefined;
}
