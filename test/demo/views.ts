/** Shows a cluster's machines as people look at them: addresses by `ip addr`, routes by `route -n`. */
import type { LabNode } from "../lib/lab-node.ts";
import type { Namespace } from "../lib/namespace.ts";
import type { Story } from "./story.ts";

export async function showPod(story: Story, name: string, pod: Namespace): Promise<void> {
  story.show(`${name}$ ip addr`, await addresses(pod));
  story.show(`${name}$ ip route`, await pod.ip("route"));
}

export async function showNode(story: Story, { name, namespace }: LabNode): Promise<void> {
  story.show(`${name}$ ip addr`, await addresses(namespace));
  const { stdout } = await namespace.run({ file: "busybox", args: ["route", "-n"] });
  story.show(`${name}$ route -n`, stdout);
}

/** IPv4 only, without the loopback and the lifetimes, which are the same everywhere. */
async function addresses(namespace: Namespace): Promise<string> {
  const links = (await namespace.ip("address")).split(/^(?=\d+: )/m);
  return links
    .filter((link) => !link.startsWith("1: lo:"))
    .join("")
    .replaceAll(/\n +(valid_lft|inet6) .*/g, "");
}
