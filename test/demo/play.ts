/** The demo itself: the cluster of test/lib/lab.ts, its packets, and the packets that are refused. Runs in a sandbox or machine. */

import { verdictPackets } from "../lib/guard-state.ts";
import { Lab, NODE1, NODE2, STRANGER } from "../lib/lab.ts";
import type { LabNode } from "../lib/lab-node.ts";
import type { Namespace } from "../lib/namespace.ts";
import { captureOne, echoRequests, sendForged, tunnelPackets } from "../lib/traffic.ts";
import { waitFor } from "../lib/wait.ts";
import { expectThat, Story, StoryEnd } from "./story.ts";
import { showNode, showPod } from "./views.ts";

interface Pod {
  readonly name: string;
  readonly node: LabNode;
  readonly namespace: Namespace;
  readonly address: string;
}

interface Pods {
  readonly pod1: Pod;
  readonly pod2: Pod;
  readonly pod3: Pod;
}

/** For what takes milliseconds on a real machine and may take seconds in an emulated one. */
const PATIENCE_MS = 60_000;

const story = new Story();
const strangerAddress = STRANGER.address.replace(/\/.*$/, "");

async function play(lab: Lab): Promise<void> {
  await story.must("sync starts on node1 (guard by tc) and node2 (guard by tc and native XDP)", () => startSync(lab));
  const pods = await story.must("three pods are added by CNI calls", () => addPods(lab));
  await story.step("each node has its tunnel address and a route to the other's pods", () => look(lab, pods));
  await story.step("pod2 reaches pod3 on the same node, and nothing is tunnelled", () => pingOnOneNode(pods));
  await story.step("pod2 reaches pod1 on the other node, in an IPIP packet", () => pingAcross(lab, pods));
  await story.step("node2 itself reaches pod1", () => pingFromNode(lab, pods));
  const { pod1, pod2 } = pods;
  await story.step("a stranger's packet like pod2's is refused by node1's tc guard", () => refuse(lab, pod2, pod1));
  await story.step("a stranger's packet like pod1's is refused by node2's XDP guard", () => refuse(lab, pod1, pod2));
  await story.step("with the stranger in externalNodeCidrs both are accepted", () => accept(lab, pods));
  await story.step("node2 is removed from the cluster, and its packets are refused", () => removeNode(lab, pods));
  await story.step("the pods are deleted by CNI calls, with all that was made for them", () => deletePods(pods));
}

async function buildLab(): Promise<Lab> {
  const lab = await Lab.build({ node1: "tc", node2: "xdp-native" });
  for (const { name, address, block } of [NODE1, NODE2]) {
    story.say(`${name.padEnd(9)} ${address.padEnd(18)} block ${block}`);
  }
  story.say(`${STRANGER.name.padEnd(9)} ${STRANGER.address.padEnd(18)} no member`);
  return lab;
}

async function startSync({ node1, node2 }: Lab): Promise<void> {
  await Promise.all([startSyncOn(node1), startSyncOn(node2)]);
}

async function startSyncOn(node: LabNode): Promise<void> {
  const sync = node.startSync();
  const isReady = () => node.log.includes("ready for pods");
  const ready = waitFor(isReady, { what: `${node.name} ready for pods`, timeoutMs: PATIENCE_MS });
  const ended = sync.ended.then(() => expectThat(isReady(), `sync on ${node.name} ended early`));
  await Promise.race([ready, ended]);
  story.say(`${node.name} is ready for pods`);
}

/** Calls on two nodes go side by side. */
async function addPods(lab: Lab): Promise<Pods> {
  const [pod1, [pod2, pod3]] = await Promise.all([
    addPod(lab, "pod1", lab.node1),
    addPod(lab, "pod2", lab.node2).then(async (pod2) => [pod2, await addPod(lab, "pod3", lab.node2)] as const),
  ]);
  return { pod1, pod2, pod3 };
}

async function addPod(lab: Lab, name: string, node: LabNode): Promise<Pod> {
  const namespace = await lab.createPod(name);
  const { exitCode, stdout } = await node.cni("ADD", { pod: namespace, podName: name });
  expectThat(exitCode === 0, `CNI ADD of ${name} answered ${stdout}`);
  const address = JSON.parse(stdout).ips[0].address.replace("/32", "");
  story.say(`${name} on ${node.name} has ${address}`);
  return { name, node, namespace, address };
}

async function look({ node1, node2 }: Lab, { pod1 }: Pods): Promise<void> {
  await showPod(story, pod1.name, pod1.namespace);
  await showNode(story, node1);
  await showNode(story, node2);
  for (const [node, other] of [
    [node1, node2],
    [node2, node1],
  ] as const) {
    const [tunnel] = await node.namespace.ipJson("address", "show", "tunl0");
    const own = tunnel.addr_info.map(
      ({ local, prefixlen }: { local: string; prefixlen: number }) => `${local}/${prefixlen}`,
    );
    const expected = node.block.replace("/26", "/32");
    expectThat(own.join() === expected, `tunl0 on ${node.name} has "${own}", not ${expected}`);
    const [route] = await node.namespace.ipJson("route", "show", other.block);
    const isRight = route?.dev === "tunl0" && route.gateway === other.host && route.protocol === "80";
    expectThat(isRight, `${node.name} has no route to ${other.block} by tunl0`);
  }
}

async function pingOnOneNode({ pod2, pod3 }: Pods): Promise<void> {
  const before = await tunnelPackets(pod2.node);
  await pod2.namespace.ping(pod3.address);
  const after = await tunnelPackets(pod2.node);
  story.say(`tunl0 on node2: ${before.sent} packets sent before, ${after.sent} after; ${after.received} received`);
  expectThat(before.sent === after.sent && before.received === after.received, "tunl0 carried packets");
}

async function pingAcross({ node1, node2 }: Lab, { pod1, pod2 }: Pods): Promise<void> {
  const before = await tunnelPackets(node1);
  const wire = { device: "eth0", filter: `ip proto 4 and src ${node2.host}`, timeoutMs: PATIENCE_MS };
  const packet = await captureOne(node1.namespace, wire, () => pod2.namespace.ping(pod1.address));
  story.show("node1$ tcpdump -nn -v -t -i eth0 ip proto 4", packet);
  const outer = `${node2.host} > ${node1.host}: `;
  const inner = `${pod2.address} > ${pod1.address}: ICMP echo request`;
  expectThat(packet.includes("proto IPIP (4)") && packet.includes(outer), `no packet of ${outer}protocol 4`);
  expectThat(packet.includes(inner), `no packet of ${inner} inside`);
  const after = await tunnelPackets(node1);
  story.say(`tunl0 on node1: ${after.received - before.received} received, ${after.sent - before.sent} sent`);
}

async function pingFromNode({ node1, node2 }: Lab, { pod1 }: Pods): Promise<void> {
  const wire = { device: "tunl0", filter: `dst ${pod1.address}`, timeoutMs: PATIENCE_MS };
  const packet = await captureOne(node1.namespace, wire, () => node2.namespace.ping(pod1.address));
  story.show("node1$ tcpdump -nn -v -t -i tunl0", packet);
  const source = node2.block.replace(/\/.*$/, "");
  expectThat(packet.includes(`${source} > ${pod1.address}: `), `the packet does not come from ${source}`);
}

async function refuse(lab: Lab, source: Pod, destination: Pod): Promise<void> {
  const { node } = destination;
  const [link] = await node.namespace.ipJson("link", "show", "eth0");
  story.say(`eth0 of ${node.name}: ${link.xdp?.mode === XDP_NATIVE ? "native XDP and tc" : "tc"}`);
  expectThat((link.xdp?.mode === XDP_NATIVE) === (node === lab.node2), "the guard is not attached as configured");
  const [refused, arrived] = [verdictPackets(node, "not-member"), await echoRequests(destination.namespace)];
  await sendLike(lab, source, destination);
  const now = verdictPackets(node, "not-member");
  story.say(`${strangerAddress} > ${node.host}: ${source.address} > ${destination.address}`);
  story.say(`counter "not-member" on ${node.name}: ${refused} before, ${now} after`);
  expectThat(now === refused + 1, "the guard did not refuse exactly one packet");
  expectThat((await echoRequests(destination.namespace)) === arrived, `the packet reached ${destination.name}`);
}

/** IFLA_XDP_ATTACHED, XDP_ATTACHED_DRV in include/uapi/linux/if_link.h */
const XDP_NATIVE = 1;

function sendLike({ stranger }: Lab, source: Pod, destination: Pod): Promise<void> {
  return sendForged({
    forger: stranger,
    forgerAddress: strangerAddress,
    node: destination.node,
    innerSource: source.address,
    innerDestination: destination.address,
  });
}

async function accept(lab: Lab, { pod1, pod2 }: Pods): Promise<void> {
  const externalNodeCidrs = [`${strangerAddress}/32`];
  await lab.datastore.writeSettings({ externalNodeCidrs });
  story.say(`externalNodeCidrs: ${externalNodeCidrs}`);
  for (const [source, destination] of [
    [pod2, pod1],
    [pod1, pod2],
  ] as const) {
    const before = await echoRequests(destination.namespace);
    const arrives = async () => {
      await sendLike(lab, source, destination);
      return (await echoRequests(destination.namespace)) > before;
    };
    await waitFor(arrives, { what: `the stranger's packet at ${destination.name}`, timeoutMs: PATIENCE_MS });
    story.say(`the stranger's packet reached ${destination.name} through ${destination.node.name}`);
  }
}

async function removeNode({ datastore, node1, node2 }: Lab, { pod1, pod2 }: Pods): Promise<void> {
  await datastore.removeNode(node2.name);
  const isGone = async () => (await node1.namespace.ipJson("route", "show", node2.block)).length === 0;
  await waitFor(isGone, { what: `the route to ${node2.block} gone`, timeoutMs: PATIENCE_MS });
  story.say(`node1 has no route to ${node2.block} any more`);
  const [refused, arrived] = [verdictPackets(node1, "not-member"), await echoRequests(pod1.namespace)];
  const ping = { file: "ping", args: ["-n", "-c", "1", "-W", "1", pod1.address], okExitCodes: [1] };
  const { exitCode } = await pod2.namespace.run(ping);
  const now = verdictPackets(node1, "not-member");
  story.say(`${node2.host} > ${node1.host}: ${pod2.address} > ${pod1.address}`);
  story.say(`counter "not-member" on node1: ${refused} before, ${now} after`);
  expectThat(exitCode === 1 && now === refused + 1, "the guard did not refuse exactly one packet");
  expectThat((await echoRequests(pod1.namespace)) === arrived, "the packet reached pod1");
}

async function deletePods({ pod1, pod2, pod3 }: Pods): Promise<void> {
  await Promise.all([deletePod(pod1), deletePod(pod2).then(() => deletePod(pod3))]);
}

async function deletePod({ name, node, namespace, address }: Pod): Promise<void> {
  const { exitCode, stdout } = await node.cni("DEL", { pod: namespace, podName: name });
  expectThat(exitCode === 0, `CNI DEL of ${name} answered ${stdout}`);
  const left = [
    ...(await namespace.ipJson("link", "show", "type", "veth")),
    ...(await node.namespace.ipJson("route", "show", address)),
  ];
  expectThat(left.length === 0, `of ${name} is left: ${JSON.stringify(left)}`);
}

try {
  const lab = await story.must("two nodes and a stranger are put on one wire", buildLab);
  try {
    await play(lab);
  } finally {
    await story.step("everything is taken away", () => lab.remove());
  }
} catch (error) {
  if (!(error instanceof StoryEnd)) {
    throw error;
  }
}
console.log(story.hasFailed ? "\n✗ the demo failed" : "\n✓ the demo is done");
process.exitCode = story.hasFailed ? 1 : 0;
