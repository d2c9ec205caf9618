/** What a pod may send: the decision packet by packet, and the guard on real links. The pod is the neighbour behind e0. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { attachClsact, BpfLink, BpfMap, BpfObject, BpfProgram } from "libbpf-ts";
import { assetPath } from "../../../src/assets.ts";
import { HostNetGuard } from "../../../src/guard/guard.ts";
import { type Counter, encodeAddress, type PodDrop, present } from "../../../src/guard/layout.ts";
import { WorkloadGuard, type WorkloadPolicy } from "../../../src/guard/workload-guard.ts";
import { arp, data, eth, frame, icmpEcho, ipv4, ipv6, tcp, udp, unknownEthertype, vlan } from "../../lib/packets.ts";
import { waitFor } from "../../lib/wait.ts";
import { compileForeign } from "./compile.ts";
import { type GuardedLink, GuardedNode, image, MEMBER, NODE, NODE_MAC } from "./guarded-node.ts";

const images = [image, readFileSync(assetPath("bpf/workload_guard.bpf.o"))];

const POD = "10.100.9.193";
const SECOND = "10.100.9.194";
const OTHER_POD = "10.100.15.129";
const SERVICE = "10.96.0.10";

const policy: WorkloadPolicy = {
  containerId: "c1",
  addresses: [POD],
  allowedSources: [],
  allowIpip: false,
  allowIpv6: false,
};

let world: GuardedNode;
let link: GuardedLink;
let host: HostNetGuard;
let guard: WorkloadGuard;

beforeEach(async () => {
  world = await GuardedNode.create();
  link = await world.link();
  host = HostNetGuard.open({ pinDirectory: world.pinDirectory, images });
  guard = open();
});

afterEach(async () => {
  guard.close();
  host.close();
  await world.remove();
});

function open(): WorkloadGuard {
  const opened = WorkloadGuard.openPinned(world.pinDirectory);
  if (opened === undefined) {
    throw new Error("Cannot open the workload guard: it is not pinned");
  }
  return opened;
}

function protect(changes: Partial<WorkloadPolicy> = {}, on: GuardedLink = link): void {
  world.enter(() => guard.protect(on, { ...policy, ...changes }));
}

function isAttached(on: GuardedLink = link): boolean {
  return world.enter(() => guard.isAttached(on.index));
}

/** Reasons that were ever given for the link's packets, with how many. */
function drops(on: GuardedLink = link): Partial<Record<PodDrop, Counter>> {
  const seen = Object.entries(guard.drops(on.index) ?? {}).filter(([, { packets }]) => packets > 0n);
  return Object.fromEntries(seen);
}

/** By a test run of the pinned program, as if the packet had come in on the link. */
function judge(packet: Uint8Array, { ifindex = link.index } = {}): string {
  const context = Buffer.alloc(180); // struct __sk_buff of linux/bpf.h
  context.writeUInt32LE(ifindex, 40);
  using program = BpfProgram.openPinned(join(world.pinDirectory, "programs/guard_tc_pod"));
  const { returnValue } = world.enter(() => program.testRun({ data: packet, context }));
  return { [-1]: "pass", 2: "drop" }[returnValue] ?? `returned ${returnValue}`;
}

const packetFrom = (source: string) => frame(eth(), ipv4(source, OTHER_POD), udp(40000, 53), data(32));
const ipipTo = (destination: string) =>
  frame(eth(), ipv4(POD, destination), ipv4(POD, OTHER_POD), udp(40000, 53), data(8));

const rows: readonly [name: string, packet: Buffer, dropped: PodDrop | undefined][] = [
  ["UDP from its own address", packetFrom(POD), undefined],
  ["TCP to a service", frame(eth(), ipv4(POD, SERVICE), tcp(40000, 443)), undefined],
  ["a ping to the node", frame(eth(), ipv4(POD, NODE), icmpEcho(), data(56)), undefined],
  ["IP options", frame(eth(), ipv4(POD, OTHER_POD, { optionBytes: 40 }), udp(1, 2)), undefined],
  ["a later fragment", frame(eth(), ipv4(POD, OTHER_POD, { protocol: 17, fragmentOffset: 1480 }), data(32)), undefined],
  ["ARP", frame(eth("ff:ff:ff:ff:ff:ff"), arp(POD, "169.254.1.1")), undefined],
  ["another pod's address", packetFrom(OTHER_POD), "spoofed-source"],
  ["the node's address", packetFrom(NODE), "spoofed-source"],
  ["the next address", packetFrom(SECOND), "spoofed-source"],
  ["its address with the bytes turned", packetFrom("193.9.100.10"), "spoofed-source"],
  ["loopback", packetFrom("127.0.0.1"), "spoofed-source"],
  ["multicast as source", packetFrom("224.0.0.1"), "spoofed-source"],
  ["no address yet", packetFrom("0.0.0.0"), "unspecified-source"],
  ["IPIP to a node", ipipTo(MEMBER), "ipip"],
  ["IPIP to its own node", ipipTo(NODE), "ipip"],
  ["IPIP with options", frame(eth(), ipv4(POD, NODE, { optionBytes: 4, protocol: 4 }), data(40)), "ipip"],
  ["a later fragment of IPIP", frame(eth(), ipv4(POD, NODE, { protocol: 4, fragmentOffset: 8 }), data(40)), "ipip"],
  ["IPIP from a node's address", frame(eth(), ipv4(MEMBER, NODE), ipv4(POD, OTHER_POD), data(8)), "spoofed-source"],
  ["IPv6", frame(eth(), ipv6(58), data(40)), "ipv6"],
  ["a version that is not 4", frame(eth(), ipv4(POD, OTHER_POD, { version: 6 }), udp(1, 2)), "malformed"],
  ["a header that is too short", frame(eth(), ipv4(POD, OTHER_POD, { headerWords: 4 }), udp(1, 2)), "malformed"],
  ["another ethertype", frame(eth(), unknownEthertype(), data(46)), "other-ethertype"],
  // In a test run tags stay in the data, where the stack has the second one.
  ["a VLAN tag in the data", frame(eth(), vlan(7), ipv4(POD, OTHER_POD), udp(1, 2), data(20)), "other-ethertype"],
];

test.each(rows)("the decision: %s", (_, packet, dropped) => {
  protect();
  expect(judge(packet)).toBe(dropped === undefined ? "pass" : "drop");
  const counted = dropped === undefined ? {} : { [dropped]: { packets: 1n, bytes: BigInt(packet.length) } };
  expect(drops()).toEqual(counted);
});

test("a link that nothing is known of passes nothing", () => {
  expect(judge(packetFrom(POD))).toBe("drop");
  expect(judge(frame(eth(), arp(POD, "169.254.1.1")))).toBe("drop");
});

test("IPv6 passes where it is allowed", () => {
  protect({ allowIpv6: true });
  expect(judge(frame(eth(), ipv6(58), data(40)))).toBe("pass");
  expect(judge(ipipTo(MEMBER))).toBe("drop");
});

describe("with IPIP allowed", () => {
  beforeEach(async () => {
    protect({ allowIpip: true });
    using members = BpfMap.openPinned(join(world.pinDirectory, "maps/members_exact"));
    members.set(encodeAddress(MEMBER), present);
    await world.node.ip("route", "add", "198.51.100.0/24", "via", "10.0.0.254");
  });

  test("it passes to others", () => {
    expect(judge(ipipTo("198.51.100.9"))).toBe("pass");
    expect(judge(packetFrom(POD))).toBe("pass");
  });

  test.each([
    ["this node", NODE, "not-member"],
    ["this node by multicast", "224.0.0.1", "not-member"],
    ["another node, which would take it for this one's after masquerading", MEMBER, "forged-transit"],
  ] as const)("it does not reach %s", (_, destination, verdict) => {
    expect(judge(ipipTo(destination))).toBe("drop");
    expect(host.counters()[verdict].packets).toBe(1n);
  });

  test("it is only from the pod's own address", () => {
    expect(judge(frame(eth(), ipv4(OTHER_POD, "198.51.100.9"), ipv4(POD, OTHER_POD), data(8)))).toBe("drop");
    expect(drops()).toMatchObject({ "spoofed-source": { packets: 1n } });
  });
});

test.each([
  ["192.0.2.8/29", ["192.0.2.8", "192.0.2.15"], ["192.0.2.7", "192.0.2.16"]],
  ["192.0.2.9/32", ["192.0.2.9"], ["192.0.2.8", "192.0.2.10"]],
  ["192.0.2.13/29", ["192.0.2.8"], ["192.0.2.16"]],
  ["128.0.0.0/1", ["255.255.255.254", "128.0.0.1"], ["127.255.255.255"]],
  ["0.0.0.0/0", ["8.8.8.8", "255.0.0.1"], ["0.0.0.0"]],
])("the allowed source %s lets exactly its addresses through", (cidr, inside, outside) => {
  protect({ allowedSources: [cidr] });
  expect(inside.map((source) => judge(packetFrom(source)))).toEqual(inside.map(() => "pass"));
  expect(outside.map((source) => judge(packetFrom(source)))).toEqual(outside.map(() => "drop"));
  expect(judge(packetFrom(POD))).toBe("pass");
});

test("16 allowed sources are held, 17 are refused before anything is changed", () => {
  const sources = Array.from({ length: 17 }, (_, index) => `192.0.${index}.0/24`);
  protect({ allowedSources: sources.slice(0, 16) });
  expect(judge(packetFrom("192.0.15.1"))).toBe("pass");
  expect(() => protect({ allowedSources: sources })).toThrow(
    "Cannot hold 17 allowed sources of one interface: the limit is 16",
  );
  expect(guard.policyOf(link.index)?.allowedSources).toEqual(sources.slice(0, 16));
});

test("9 addresses of one interface are refused", () => {
  const addresses = Array.from({ length: 9 }, (_, index) => `10.0.0.${index + 1}`);
  expect(() => protect({ addresses })).toThrow("Cannot hold 9 addresses of one interface: the limit is 8");
  expect(guard.policyOf(link.index)).toBeUndefined();
});

describe("two links of one container", () => {
  let second: GuardedLink;

  beforeEach(async () => {
    await world.node.ipBatch("link add second type veth peer name second-peer");
    second = await world.link("second");
    protect({ addresses: [POD] });
    protect({ addresses: [SECOND] }, second);
  });

  test("each sends from the other's address, and nobody else does", async () => {
    expect(judge(packetFrom(SECOND))).toBe("pass");
    expect(judge(packetFrom(POD), { ifindex: second.index })).toBe("pass");
    await world.node.ipBatch("link add third type veth peer name third-peer");
    const third = await world.link("third");
    protect({ containerId: "c2", addresses: [OTHER_POD] }, third);
    expect(judge(packetFrom(POD), { ifindex: third.index })).toBe("drop");
    expect(judge(packetFrom(OTHER_POD))).toBe("drop");
  });

  test("forgetting one ends its address everywhere and keeps the other's", () => {
    world.enter(() => guard.forget(second.index));
    expect(judge(packetFrom(SECOND))).toBe("drop");
    expect(judge(packetFrom(POD))).toBe("pass");
    expect(guard.linkIndexes()).toEqual([link.index]);
  });

  test("an address that moved to the other link is not forgotten with the first", () => {
    protect({ addresses: [SECOND, POD] }, second);
    world.enter(() => guard.forget(link.index));
    expect(judge(packetFrom(POD), { ifindex: second.index })).toBe("pass");
  });
});

test("protect() again changes what is allowed, forgets earlier addresses and keeps the counters", () => {
  protect({ addresses: [POD, SECOND] });
  expect(judge(packetFrom(OTHER_POD))).toBe("drop");
  protect({ addresses: [POD], allowIpv6: true });
  expect(judge(packetFrom(SECOND))).toBe("drop");
  expect(drops()["spoofed-source"]?.packets).toBe(2n);
  expect(guard.policyOf(link.index)).toMatchObject({ addresses: [POD], flags: { "allow-ipv6": true } });
});

test("protect() for another container begins with nothing of the earlier one", () => {
  protect();
  expect(judge(packetFrom(OTHER_POD))).toBe("drop");
  protect({ containerId: "c2", addresses: [SECOND] });
  expect(drops()).toEqual({});
  expect(judge(packetFrom(POD))).toBe("drop");
});

test("silence() stops everything, and is content with an unknown link", () => {
  protect({ allowedSources: ["0.0.0.0/0"], allowIpv6: true, allowIpip: true });
  guard.silence(link.index);
  const packets = [packetFrom(POD), frame(eth(), arp(POD, NODE)), frame(eth(), ipv6(58), data(40))];
  expect(packets.map((packet) => judge(packet))).toEqual(["drop", "drop", "drop"]);
  expect(isAttached()).toBe(true);
  guard.silence(4711);
  expect(guard.policyOf(4711)).toBeUndefined();
});

test("forget() leaves nothing, and is content when there is nothing", () => {
  protect({ addresses: [POD, SECOND] });
  world.enter(() => guard.forget(link.index));
  world.enter(() => guard.forget(link.index));
  expect(isAttached()).toBe(false);
  expect(guard.linkIndexes()).toEqual([]);
  using addresses = BpfMap.openPinned(join(world.pinDirectory, "maps/container_addresses"));
  expect([...addresses.keys()]).toEqual([]);
});

test("what is known of a link that went with its namespace is found and forgotten", async () => {
  protect();
  await world.node.ip("link", "del", "e0");
  expect(isAttached()).toBe(false);
  expect(guard.linkIndexes()).toEqual([link.index]);
  world.enter(() => guard.forget(link.index));
  expect(guard.linkIndexes()).toEqual([]);
});

test("the host-net guard on other links goes on, and each forgets only its own", async () => {
  await world.node.ipBatch("link add uplink type veth peer name uplink-peer");
  const uplink = await world.link("uplink");
  world.enter(() => host.attach(uplink, "tc"));
  protect();
  expect([...world.enter(() => host.attachments()).keys()]).toEqual([uplink.index]);
  world.enter(() => guard.forget(link.index));
  expect([...world.enter(() => host.attachments()).keys()]).toEqual([uplink.index]);
});

test("the guard is not there for the plugin before sync has loaded it", () => {
  expect(WorkloadGuard.openPinned(join(world.pinDirectory, "elsewhere"))).toBeUndefined();
});

describe("with real frames", () => {
  const delivered = async () => {
    const [{ stats64 }] = await world.node.ipJson("-s", "link", "show", "e0");
    return stats64.rx.packets;
  };

  async function sendAll(...frames: readonly Buffer[]): Promise<void> {
    const before = await delivered();
    await world.send(...frames);
    await waitFor(async () => (await delivered()) >= before + frames.length, {
      what: "frames received",
      timeoutMs: 5000,
    });
  }

  test("frames in a VLAN are dropped, those with a priority alone are judged as they are", async () => {
    protect();
    await sendAll(
      frame(eth(NODE_MAC), vlan(7), ipv4(POD, NODE), udp(1, 2), data(20)),
      frame(eth(NODE_MAC), vlan(0), ipv4(OTHER_POD, NODE), udp(1, 2), data(20)),
      frame(eth(NODE_MAC), vlan(0), vlan(0), ipv4(POD, NODE), udp(1, 2), data(20)),
      frame(eth(NODE_MAC), vlan(0), ipv4(POD, NODE, { protocol: 4 }), data(40)),
    );
    expect(drops()).toMatchObject({
      "other-ethertype": { packets: 2n },
      "spoofed-source": { packets: 1n },
      ipip: { packets: 1n },
    });
  });

  test("frames that end inside the IPv4 header are dropped", async () => {
    protect();
    const whole = packetFrom(POD);
    await sendAll(...[15, 20, 33].map((length) => whole.subarray(0, length)));
    expect(drops()).toMatchObject({ malformed: { packets: 3n } });
  });

  test("nothing reaches tunl0's handler, with the check off it would", async () => {
    const heard = await world.listen();
    const forged = frame(eth(NODE_MAC), ipv4(POD, NODE), ipv4(POD, OTHER_POD), udp(1, 2), data(8));
    await sendAll(forged);
    await waitFor(() => heard().length === 1, { what: "an unchecked IPIP packet heard", timeoutMs: 5000 });
    protect();
    await sendAll(forged, forged);
    expect(drops()).toMatchObject({ ipip: { packets: 2n } });
    expect(heard()).toEqual([POD]);
  });

  test("somebody else's program runs too", async () => {
    protect();
    using foreign = BpfObject.open(await compileForeign(), { name: "foreign" });
    foreign.load();
    world.enter(() => attachClsact(foreign.program("foreign_tc"), link.index, { priority: 7, handle: 7 }));
    await sendAll(packetFrom(OTHER_POD));
    expect(drops()).toMatchObject({ "spoofed-source": { packets: 1n } });
    world.enter(() => guard.forget(link.index));
  });
});

test("upgrade() puts the pinned program in the place of another version, and keeps the entries", () => {
  protect();
  const path = join(world.pinDirectory, "pod-links", `tcx-${link.index}`);
  using other = BpfProgram.openPinned(join(world.pinDirectory, "programs/guard_tc_ethernet"));
  using attachment = BpfLink.openPinned(path);
  attachment.update(other);
  world.enter(() => guard.upgrade());
  using pinned = BpfProgram.openPinned(join(world.pinDirectory, "programs/guard_tc_pod"));
  expect(attachment.info().programId).toBe(pinned.id);
  expect(guard.policyOf(link.index)?.addresses).toEqual([POD]);
});
