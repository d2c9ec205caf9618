/** What a pod may send, packet by packet. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, jest, test } from "@jest/globals";
import { BpfMap } from "libbpf-ts";
import { encodeAddress, encodeTunnelPair, type PodDrop, present, type VerdictName } from "../../../src/guard/layout.ts";
import { arp, data, eth, frame, icmpEcho, ipv4, ipv6, tcp, udp, unknownEthertype, vlan } from "../../lib/packets.ts";
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
const arpRequest = frame(eth("ff:ff:ff:ff:ff:ff"), arp(POD, "169.254.1.1"));

const rows: readonly [name: string, packet: Buffer, dropped: PodDrop | undefined][] = [
  ["UDP from its own address", packetFrom(POD), undefined],
  ["TCP to a service", frame(eth(), ipv4(POD, SERVICE), tcp(40000, 443)), undefined],
  ["a ping to the node", frame(eth(), ipv4(POD, NODE), icmpEcho(), data(56)), undefined],
  ["IP options", frame(eth(), ipv4(POD, OTHER_POD, { optionBytes: 40 }), udp(1, 2)), undefined],
  ["a later fragment", frame(eth(), ipv4(POD, OTHER_POD, { protocol: 17, fragmentOffset: 1480 }), data(32)), undefined],
  ["an IPv4 header and no more", frame(eth(), ipv4(POD, OTHER_POD, { protocol: 17 })), undefined],
  ["IPv6 in IPv4, which is not protocol 4", frame(eth(), ipv4(POD, NODE, { protocol: 41 }), data(40)), undefined],
  ["ARP", arpRequest, undefined],
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
