/** What a pod may send, packet by packet. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, jest, test } from "@jest/globals";
import { BpfMap } from "libbpf-ts";
import { encodeAddress, encodeTunnelPair, type PodDrop, present, type VerdictName } from "../../../src/guard/layout.ts";
import {
  type ArpFields,
  arp,
  data,
  eth,
  frame,
  icmpEcho,
  icmpError,
  ipv4,
  ipv6,
  tcp,
  udp,
  unknownEthertype,
  vlan,
} from "../../lib/packets.ts";
import { MEMBER, NODE } from "./guarded-node.ts";
import { GuardedPod, ipip, OTHER_POD, POD, packetFrom, SECOND } from "./guarded-pod.ts";

jest.setTimeout(60_000); // an emulated machine takes a second and more to start a program

const SERVICE = "10.96.0.10";
const FAR_AWAY = "198.51.100.9";
const OFFICE = "192.0.2.99";

let pod: GuardedPod;

beforeAll(async () => {
  pod = await GuardedPod.create();
  await pod.world.node.ip("route", "add", "198.51.100.0/24", "via", "10.0.0.254");
  const map = (name: string) => BpfMap.openPinned(join(pod.world.pinDirectory, "maps", name));
  using members = map("members_exact");
  members.set(encodeAddress(MEMBER), present);
  using tunnels = map("other_tunnels");
  tunnels.set(encodeTunnelPair({ local: NODE, remote: OFFICE }), present);
});

afterAll(() => pod?.remove());

const ipv6Packet = frame(eth(), ipv6(58), data(40));
const GATEWAY = "169.254.1.1";
const arpFrom = (sender: string, target = GATEWAY, fields: ArpFields = {}) =>
  frame(eth("ff:ff:ff:ff:ff:ff"), arp(sender, target, fields), data(18, 0));
const arpRequest = arpFrom(POD);
const answer = { operation: 2 };

/** As a node would be told that its packet to another node is too big. */
function aboutTunnel(name: string, type: number): [string, Buffer, PodDrop] {
  return [name, frame(eth(), ipv4(POD, NODE), icmpError(type, 4), ipv4(NODE, MEMBER, { protocol: 4 })), "ipip"];
}

const rows: readonly [name: string, packet: Buffer, dropped: PodDrop | undefined][] = [
  ["UDP from its own address", packetFrom(POD), undefined],
  ["TCP to a service", frame(eth(), ipv4(POD, SERVICE), tcp(40000, 443)), undefined],
  ["a ping to the node", frame(eth(), ipv4(POD, NODE), icmpEcho(), data(56)), undefined],
  ["IP options", frame(eth(), ipv4(POD, OTHER_POD, { optionBytes: 40 }), udp(1, 2)), undefined],
  ["a later fragment", frame(eth(), ipv4(POD, OTHER_POD, { protocol: 17, fragmentOffset: 1480 }), data(32)), undefined],
  ["an IPv4 header and no more", frame(eth(), ipv4(POD, OTHER_POD, { protocol: 17 })), undefined],
  ["IPv6 in IPv4, which is not protocol 4", frame(eth(), ipv4(POD, NODE, { protocol: 41 }), data(40)), undefined],
  ["IPv4 to loopback", frame(eth(), ipv4(POD, "127.0.0.1"), udp(1, 9999), data(8)), "loopback"],
  ["IPv4 to the end of loopback", frame(eth(), ipv4(POD, "127.255.255.255"), udp(1, 2)), "loopback"],
  ["IPv4 to the network of loopback", frame(eth(), ipv4(POD, "127.0.0.0"), tcp(1, 2)), "loopback"],
  ["a later fragment to loopback", frame(eth(), ipv4(POD, "127.0.0.1", { fragmentOffset: 8 }), data(8)), "loopback"],
  ["IPIP to loopback", ipip(POD, "127.0.0.1"), "loopback"],
  ["IPv4 to the address before loopback", frame(eth(), ipv4(POD, "126.255.255.255"), udp(1, 2)), undefined],
  ["IPv4 to the address behind loopback", frame(eth(), ipv4(POD, "128.0.0.0"), udp(1, 2)), undefined],
  ["IPv4 to an address that ends as loopback begins", frame(eth(), ipv4(POD, "1.0.0.127"), udp(1, 2)), undefined],
  ["somebody else's address to loopback", frame(eth(), ipv4(OTHER_POD, "127.0.0.1"), udp(1, 2)), "spoofed-source"],
  ["ARP", arpRequest, undefined],
  ["ARP without padding", frame(eth("ff:ff:ff:ff:ff:ff"), arp(POD, GATEWAY)), undefined],
  ["an ARP answer", arpFrom(POD, NODE, answer), undefined],
  ["gratuitous ARP", arpFrom(POD, POD), undefined],
  ["a gratuitous ARP answer", arpFrom(POD, POD, answer), undefined],
  ["an ARP probe", arpFrom("0.0.0.0", POD), undefined],
  ["an ARP answer without address, of which the kernel makes nothing", arpFrom("0.0.0.0", NODE, answer), undefined],
  ["ARP that asks for another pod", arpFrom(POD, OTHER_POD), undefined],
  ["ARP that asks for loopback, which tells the host nothing", arpFrom(POD, "127.0.0.1"), undefined],
  ["an ARP operation that the kernel does not know", arpFrom(POD, NODE, { operation: 9 }), undefined],
  [
    "ARP from another hardware address than its frame",
    frame(eth("ff:ff:ff:ff:ff:ff", "02:00:00:00:00:99"), arp(POD, GATEWAY)),
    undefined,
  ],
  ["ARP from the next address", arpFrom(SECOND), "spoofed-arp"],
  ["ARP from another pod", arpFrom(OTHER_POD), "spoofed-arp"],
  ["ARP from the node's address", arpFrom(NODE), "spoofed-arp"],
  ["ARP from its address with the bytes turned", arpFrom("193.9.100.10"), "spoofed-arp"],
  ["ARP from loopback", arpFrom("127.0.0.1"), "spoofed-arp"],
  ["ARP from multicast", arpFrom("224.0.0.1"), "spoofed-arp"],
  ["ARP from limited broadcast", arpFrom("255.255.255.255"), "spoofed-arp"],
  ["ARP from the address behind 0.0.0.0", arpFrom("0.0.0.1"), "spoofed-arp"],
  ["an ARP answer from another pod", arpFrom(OTHER_POD, NODE, answer), "spoofed-arp"],
  ["gratuitous ARP from another pod", arpFrom(OTHER_POD, OTHER_POD), "spoofed-arp"],
  ["a gratuitous ARP answer from the node's address", arpFrom(NODE, NODE, answer), "spoofed-arp"],
  ["an unknown ARP operation from another pod", arpFrom(OTHER_POD, NODE, { operation: 9 }), "spoofed-arp"],
  ["ARP of another hardware type, which the kernel takes too", arpFrom(POD, NODE, { hardwareType: 6 }), "malformed"],
  ["ARP of a hardware type with its bytes turned", arpFrom(POD, NODE, { hardwareType: 0x0100 }), "malformed"],
  ["ARP of no hardware type", arpFrom(POD, NODE, { hardwareType: 0 }), "malformed"],
  ["ARP for IPv6", arpFrom(POD, NODE, { protocolType: 0x86dd }), "malformed"],
  ["ARP for no protocol", arpFrom(POD, NODE, { protocolType: 0 }), "malformed"],
  ["ARP with protocol addresses as long as IPv6", arpFrom(POD, NODE, { protocolLength: 16 }), "malformed"],
  ["ARP without protocol addresses", arpFrom(POD, NODE, { protocolLength: 0 }), "malformed"],
  ["ARP with hardware addresses of 8 bytes", arpFrom(POD, NODE, { hardwareLength: 8 }), "malformed"],
  ["ARP without hardware addresses", arpFrom(POD, NODE, { hardwareLength: 0 }), "malformed"],
  ["malformed ARP from another pod", arpFrom(OTHER_POD, NODE, { protocolLength: 3 }), "malformed"],
  ["another pod's address", packetFrom(OTHER_POD), "spoofed-source"],
  ["the node's address", packetFrom(NODE), "spoofed-source"],
  ["the next address", packetFrom(SECOND), "spoofed-source"],
  ["its address with the bytes turned", packetFrom("193.9.100.10"), "spoofed-source"],
  ["loopback", packetFrom("127.0.0.1"), "spoofed-source"],
  ["multicast as source", packetFrom("224.0.0.1"), "spoofed-source"],
  ["limited broadcast as source", packetFrom("255.255.255.255"), "spoofed-source"],
  ["no address yet", packetFrom("0.0.0.0"), "unspecified-source"],
  ["IPIP without an address", ipip("0.0.0.0", NODE), "unspecified-source"],
  ["IPIP to a node", ipip(POD, MEMBER), "ipip"],
  ["IPIP to its own node", ipip(POD, NODE), "ipip"],
  ["IPIP with options", frame(eth(), ipv4(POD, NODE, { optionBytes: 4, protocol: 4 }), data(40)), "ipip"],
  ["a later fragment of IPIP", frame(eth(), ipv4(POD, NODE, { protocol: 4, fragmentOffset: 8 }), data(40)), "ipip"],
  ["IPIP from a node's address", ipip(MEMBER, NODE), "spoofed-source"],
  ["IPv6", ipv6Packet, "ipv6"],
  ...[3, 4, 5, 11, 12].map((type) => aboutTunnel(`an ICMP error of type ${type} about a tunnel packet`, type)),
  ["an ICMP error that ends in its header", frame(eth(), ipv4(POD, NODE), icmpError(3, 4)), "malformed"],
  ["an ICMP error that ends in the packet it is about", aboutTunnel("", 3)[1].subarray(0, -9), "malformed"],
  ["an ICMP packet without a type", frame(eth(), ipv4(POD, NODE, { protocol: 1 })), "malformed"],
  [
    "an ICMP error about a tunnel packet behind IP options",
    frame(eth(), ipv4(POD, NODE, { optionBytes: 40 }), icmpError(3, 4), ipv4(NODE, MEMBER, { protocol: 4 })),
    "ipip",
  ],
  [
    "the first fragment of an ICMP error about a tunnel packet",
    frame(eth(), ipv4(POD, NODE, { moreFragments: true }), icmpError(3, 4), ipv4(NODE, MEMBER, { protocol: 4 })),
    "ipip",
  ],
  ["an ICMP error about UDP", frame(eth(), ipv4(POD, NODE), icmpError(3, 3), ipv4(NODE, POD), udp(1, 2)), undefined],
  ["a later fragment of ICMP", frame(eth(), ipv4(POD, NODE, { protocol: 1, fragmentOffset: 8 }), data(9)), undefined],
  ["a version that is not 4", frame(eth(), ipv4(POD, OTHER_POD, { version: 6 }), udp(1, 2)), "malformed"],
  ["a header that is too short", frame(eth(), ipv4(POD, OTHER_POD, { headerWords: 4 }), udp(1, 2)), "malformed"],
  ["a short header from a forged source", frame(eth(), ipv4(NODE, NODE, { headerWords: 0 }), data(9)), "malformed"],
  ["another ethertype", frame(eth(), unknownEthertype(), data(46)), "other-ethertype"],
  // In a test run tags stay in the data, where the stack has the second one.
  ["a VLAN tag in the data", frame(eth(), vlan(7), ipv4(POD, OTHER_POD), udp(1, 2), data(20)), "other-ethertype"],
];

test.each(rows)("nothing allowed: %s", (name, packet, dropped) => {
  pod.protect({ containerId: name }); // counts begin anew with each container
  expect(pod.judge(packet)).toBe(dropped === undefined ? "pass" : "drop");
  const counted = dropped === undefined ? {} : { [dropped]: { packets: 1n, bytes: BigInt(packet.length) } };
  expect(pod.drops()).toEqual(counted);
});

test("ARP is dropped wherever it ends too early", () => {
  const whole = frame(eth("ff:ff:ff:ff:ff:ff"), arp(POD, GATEWAY));
  const ends = Array.from({ length: 28 }, (_, index) => 14 + index); // the kernel's test run wants an Ethernet header
  pod.protect({ containerId: "with ARP that ends" });
  expect(ends.map((end) => pod.judge(whole.subarray(0, end)))).toEqual(ends.map(() => "drop"));
  expect(pod.drops()).toMatchObject({ malformed: { packets: 28n } });
  expect(pod.judge(whole)).toBe("pass");
});

test("ARP passes from each of the pod's addresses and from its allowed sources, and from no other", () => {
  pod.protect({ containerId: "with some", addresses: [POD, SECOND], allowedSources: ["192.0.2.8/29"] });
  const passing = [POD, SECOND, "192.0.2.8", "192.0.2.15", "0.0.0.0"];
  const others = [OTHER_POD, "192.0.2.7", "192.0.2.16", NODE];
  expect(passing.map((sender) => pod.judge(arpFrom(sender)))).toEqual(passing.map(() => "pass"));
  expect(others.map((sender) => pod.judge(arpFrom(sender)))).toEqual(others.map(() => "drop"));
  expect(Object.keys(pod.drops())).toEqual(["spoofed-arp"]);
});

test.each([
  ["0.0.0.0/0", "127.0.0.1"],
  ["127.0.0.0/8", "127.255.255.255"],
  ["127.0.0.0/8", "127.0.0.0"],
])("the allowed source %s lets neither IPv4 nor ARP from %s pass", (cidr, source) => {
  pod.protect({ containerId: `${cidr} ${source}`, allowedSources: [cidr], allowIpip: true });
  const packets = [packetFrom(source), ipip(source, FAR_AWAY), arpFrom(source), arpFrom(source, NODE, answer)];
  expect(packets.map((packet) => pod.judge(packet))).toEqual(packets.map(() => "drop"));
  expect(pod.drops()).toEqual({ loopback: { packets: 4n, bytes: expect.anything() } });
});

test("a link that nothing is known of passes nothing", () => {
  const loopback = { ifindex: 1 };
  expect([packetFrom(POD), arpRequest, ipv6Packet].map((packet) => pod.judge(packet, loopback))).toEqual([
    "drop",
    "drop",
    "drop",
  ]);
});

test("IPv6 passes where it is allowed, and nothing else does for it", () => {
  pod.protect({ containerId: "with IPv6", allowIpv6: true });
  expect(pod.judge(ipv6Packet)).toBe("pass");
  expect(pod.judge(ipip(POD, FAR_AWAY))).toBe("drop");
  expect(pod.judge(packetFrom(OTHER_POD))).toBe("drop");
});

describe("with IPIP allowed", () => {
  beforeAll(() => pod.protect({ containerId: "with IPIP", allowIpip: true }));

  const count = (verdict: VerdictName) => pod.host.counters()[verdict].packets;

  test("it passes to others", () => {
    const before = count("transit");
    expect(pod.judge(ipip(POD, FAR_AWAY))).toBe("pass");
    expect(count("transit")).toBe(before + 1n);
  });

  const refused = [
    ["this node", ipip(POD, NODE), "not-member"],
    ["this node by multicast", ipip(POD, "224.0.0.1"), "not-member"],
    ["another node, which would take it for this one's after masquerading", ipip(POD, MEMBER), "forged-transit"],
    ["anybody with a wrong length", frame(eth(), ipv4(POD, FAR_AWAY, { protocol: 4, totalLength: 99 })), "malformed"],
  ] as const;

  test.each(refused)("it does not reach %s", (_, packet, verdict) => {
    const before = count(verdict);
    expect(pod.judge(packet)).toBe("drop");
    expect(count(verdict)).toBe(before + 1n);
  });

  test.each(refused)("in mode observe it reaches %s, counted", (_, packet, verdict) => {
    const observed = `observed-${verdict}` as const;
    const before = count(observed);
    pod.host.setMode("observe");
    const action = pod.judge(packet);
    pod.host.setMode("enforce");
    expect(action).toBe("pass");
    expect(count(observed)).toBe(before + 1n);
  });

  test("mode observe does not let a forged source pass", () => {
    pod.host.setMode("observe");
    const actions = [ipip(OTHER_POD, FAR_AWAY), packetFrom(OTHER_POD)].map((packet) => pod.judge(packet));
    pod.host.setMode("enforce");
    expect(actions).toEqual(["drop", "drop"]);
  });

  test("an ICMP error about it is believed where it was for the pod, and not where a node sent it", () => {
    const about = (destination: string) =>
      frame(eth(), ipv4(POD, NODE), icmpError(3, 4), ipv4(NODE, destination, { protocol: 4 }));
    expect([POD, MEMBER].map((destination) => pod.judge(about(destination)))).toEqual(["pass", "drop"]);
  });

  test("it is only from the pod's own address", () => {
    pod.protect({ containerId: "with IPIP, forged", allowIpip: true });
    expect(pod.judge(ipip(OTHER_POD, FAR_AWAY))).toBe("drop");
    expect(pod.drops()).toMatchObject({ "spoofed-source": { packets: 1n } });
  });

  test.each([
    ["a node", MEMBER],
    ["the end of the owner's other tunnel", OFFICE],
  ])("an allowed source that is the address of %s does not make the pod one", (_, source) => {
    const before = count("not-member");
    pod.protect({ containerId: "with IPIP from anywhere", allowIpip: true, allowedSources: ["0.0.0.0/0"] });
    expect(pod.judge(ipip(source, NODE))).toBe("drop");
    expect(count("not-member")).toBe(before + 1n);
  });
});

test.each([
  ["192.0.2.8/29", ["192.0.2.8", "192.0.2.15"], ["192.0.2.7", "192.0.2.16"]],
  ["192.0.2.9/32", ["192.0.2.9"], ["192.0.2.8", "192.0.2.10"]],
  ["192.0.2.13/29", ["192.0.2.8"], ["192.0.2.16"]],
  ["128.0.0.0/1", ["255.255.255.254", "128.0.0.1"], ["127.255.255.255"]],
  ["0.0.0.0/0", ["8.8.8.8", "255.0.0.1"], ["0.0.0.0"]],
])("the allowed source %s lets exactly its addresses through", (cidr, inside, outside) => {
  pod.protect({ containerId: cidr, allowedSources: [cidr] });
  expect(inside.map((source) => pod.judge(packetFrom(source)))).toEqual(inside.map(() => "pass"));
  expect(outside.map((source) => pod.judge(packetFrom(source)))).toEqual(outside.map(() => "drop"));
  expect(pod.judge(packetFrom(POD))).toBe("pass");
});

test("each of 16 allowed sources counts, and none that was allowed before", () => {
  const sources = Array.from({ length: 16 }, (_, index) => `192.0.${index}.0/24`);
  const judgeAll = () => sources.map((cidr) => pod.judge(packetFrom(cidr.replace("0/24", "7"))));
  pod.protect({ containerId: "with 16 sources", allowedSources: sources });
  expect(judgeAll()).toEqual(sources.map(() => "pass"));
  pod.protect({ containerId: "with 16 sources", allowedSources: sources.slice(0, 1) });
  expect(judgeAll()).toEqual(sources.map((_, index) => (index === 0 ? "pass" : "drop")));
});
