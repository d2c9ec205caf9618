/** Packets for the host-net guard of NODE, with what has to become of each: layers in, action and counter by name out. */
import type { VerdictName } from "../../../src/guard/layout.ts";
import {
  arp,
  data,
  eth,
  frame,
  type Ipv4Fields,
  icmpEcho,
  ipv4,
  ipv6,
  part,
  tcp,
  udp,
  unknownEthertype,
  vlan,
} from "../../lib/packets.ts";

/** This node: on the link that packets come in by, with a secondary address, another link and a local route. */
export const NODE = "10.0.0.1";
export const SECONDARY = "10.0.0.5";
export const OTHER_LINK = "192.168.7.1";
export const ANY_IP = "203.0.113.0/24";
/** Known to the guard alone: the routes would send it on. */
export const LISTED_LOCAL = "198.18.0.1";
/** On the own link, but nobody has answered there yet. */
export const SILENT_NEIGHBOUR = "10.0.0.77";
export const GATEWAY = "10.0.0.254";
export const BLACKHOLE = "10.66.0.0/16";

export const MEMBER = "10.0.0.2";
export const MEMBER_BEHIND_GATEWAY = "198.18.5.5";
export const MEMBER_CIDR = "198.51.100.0/24";
export const MEMBER_SMALL_CIDR = "198.18.128.16/28";
const CIDR_MEMBER = "198.51.100.7";
const STRANGER = "192.0.2.66";
const FAR_AWAY = "192.0.2.200";

/** The other end of an ipip device that the owner made. */
export const OFFICE = "192.0.2.99";

const POD_A = "10.100.9.193";
const POD_B = "10.100.15.129";

export type HookName = "tc" | "xdp";

export interface Fixture {
  readonly name: string;
  readonly given: Buffer;
  readonly action: "pass" | "drop";
  /** Undefined: no counter moves. */
  readonly counts: VerdictName | undefined;
  /** Where a test run can show it; both unless said. */
  readonly hooks?: readonly HookName[];
  /** `gso_size` of the skb that the packet is in, bytes. */
  readonly gsoSize?: number;
}

const podPacket = [ipv4(POD_A, POD_B), udp(40000, 53), data(32)] as const;

function ipip(source: string, destination: string, fields?: Ipv4Fields): Buffer {
  return frame(eth(), ipv4(source, destination, fields), ...podPacket);
}

const member = { action: "pass", counts: "member" } as const;
const notMember = { action: "drop", counts: "not-member" } as const;
const malformed = { action: "drop", counts: "malformed" } as const;
const nested = { action: "drop", counts: "nested" } as const;
const transit = { action: "pass", counts: "transit" } as const;
const forgedTransit = { action: "drop", counts: "forged-transit" } as const;
const unjudged = { action: "pass", counts: undefined } as const;

const sources: Fixture[] = [
  { name: "a member", given: ipip(MEMBER, NODE), ...member },
  { name: "an address in a member CIDR", given: ipip(CIDR_MEMBER, NODE), ...member },
  { name: "the first address of a member CIDR", given: ipip("198.51.100.0", NODE), ...member },
  { name: "the last address of a member CIDR", given: ipip("198.51.100.255", NODE), ...member },
  { name: "the address before a member CIDR", given: ipip("198.51.99.255", NODE), ...notMember },
  { name: "the address after a member CIDR", given: ipip("198.51.101.0", NODE), ...notMember },
  { name: "an address in a member CIDR of 16", given: ipip("198.18.128.31", NODE), ...member },
  { name: "the address after a member CIDR of 16", given: ipip("198.18.128.32", NODE), ...notMember },
  { name: "a stranger", given: ipip(STRANGER, NODE), ...notMember },
  { name: "a stranger with a member's bytes reversed", given: ipip("2.0.0.10", NODE), ...notMember },
  { name: "the own address", given: ipip(NODE, NODE), ...notMember },
  { name: "the own secondary address", given: ipip(SECONDARY, NODE), ...notMember },
  { name: "a stranger that names itself as destination", given: ipip(STRANGER, STRANGER), ...transit },
  { name: "0.0.0.0", given: ipip("0.0.0.0", NODE), ...notMember },
];

const destinations: Fixture[] = [
  ["the secondary address", SECONDARY],
  ["an address of another link", OTHER_LINK],
  ["an address of a local route", "203.0.113.9"],
  ["an address that only the guard knows", LISTED_LOCAL],
  ["the subnet broadcast address", "10.0.0.255"],
  ["255.255.255.255", "255.255.255.255"],
  ["all hosts, 224.0.0.1", "224.0.0.1"],
  ["the last multicast address", "239.255.255.255"],
  ["127.0.0.1", "127.0.0.1"],
  ["127.255.255.254", "127.255.255.254"],
  ["a blackhole route", "10.66.1.1"],
].map(([name, destination]) => ({
  name: `a stranger to ${name}`,
  given: ipip(STRANGER, destination ?? ""),
  ...notMember,
}));

const onTheWay: Fixture[] = [
  { name: "a stranger to a host behind the gateway", given: ipip(STRANGER, FAR_AWAY), ...transit },
  { name: "a stranger to a silent neighbour", given: ipip(STRANGER, SILENT_NEIGHBOUR), ...transit },
  { name: "a stranger to 223.255.255.255, before multicast", given: ipip(STRANGER, "223.255.255.255"), ...transit },
  { name: "a stranger to 126.255.255.255, before loopback", given: ipip(STRANGER, "126.255.255.255"), ...transit },
  { name: "a stranger to 128.0.0.1, after loopback", given: ipip(STRANGER, "128.0.0.1"), ...transit },
  { name: "a stranger to 240.0.0.1, after multicast", given: ipip(STRANGER, "240.0.0.1"), ...transit },
  { name: "a stranger to 255.255.255.254", given: ipip(STRANGER, "255.255.255.254"), ...transit },
  {
    name: "a stranger's packet that is too long for the next link",
    given: frame(eth(), ipv4(STRANGER, FAR_AWAY), ipv4(POD_A, POD_B), udp(40000, 53), data(2000)),
    ...transit,
  },
  { name: "a member to a host behind the gateway", given: ipip(MEMBER, FAR_AWAY), ...member },
  { name: "a member to a member", given: ipip(MEMBER, CIDR_MEMBER), ...member },
  { name: "a stranger to a member", given: ipip(STRANGER, MEMBER), ...forgedTransit },
  { name: "a stranger to a member behind the gateway", given: ipip(STRANGER, MEMBER_BEHIND_GATEWAY), ...forgedTransit },
  { name: "a stranger to a member's CIDR", given: ipip(STRANGER, CIDR_MEMBER), ...forgedTransit },
];

const otherTunnels: Fixture[] = [
  { name: "the pair of another ipip device", given: ipip(OFFICE, NODE), action: "pass", counts: "other-tunnel" },
  { name: "the remote of another ipip device to another own address", given: ipip(OFFICE, SECONDARY), ...notMember },
  { name: "a stranger on the local address of another ipip device", given: ipip(STRANGER, NODE), ...notMember },
  {
    name: "protocol 4 in the pair of another ipip device, whose owner answers for it",
    given: frame(eth(), ipv4(OFFICE, NODE), ipv4(STRANGER, NODE), ...podPacket),
    action: "pass",
    counts: "other-tunnel",
  },
];

const inside: Fixture[] = [
  {
    name: "a member's packet in a packet in a packet",
    given: frame(eth(), ipv4(MEMBER, NODE), ipv4(STRANGER, NODE), ...podPacket),
    ...nested,
  },
  {
    name: "a nested packet behind 40 bytes of options",
    given: frame(eth(), ipv4(MEMBER, NODE, { optionBytes: 40 }), ipv4(STRANGER, NODE), ...podPacket),
    ...nested,
  },
  {
    name: "a nested packet whose inner header has options",
    given: frame(eth(), ipv4(MEMBER, NODE), ipv4(STRANGER, NODE, { optionBytes: 8 }), ...podPacket),
    ...nested,
  },
  {
    name: "a nested packet that is a later fragment inside",
    given: frame(eth(), ipv4(MEMBER, NODE), ipv4(STRANGER, NODE, { protocol: 4, fragmentOffset: 800 }), data(64)),
    ...nested,
  },
  {
    name: "a stranger's nested packet",
    given: frame(eth(), ipv4(STRANGER, NODE), ipv4(STRANGER, NODE), ...podPacket),
    ...notMember,
  },
  {
    name: "IPv6 in a member's IPv4",
    given: frame(eth(), ipv4(MEMBER, NODE, { protocol: 4 }), ipv6(59), data(8)),
    ...malformed,
  },
  {
    name: "zeroes in a member's IPv4",
    given: frame(eth(), ipv4(MEMBER, NODE, { protocol: 4 }), data(40, 0)),
    ...malformed,
  },
  { name: "nothing in a member's IPv4", given: frame(eth(), ipv4(MEMBER, NODE, { protocol: 4 })), ...malformed },
  {
    name: "a member's inner header that lacks its last byte",
    given: frame(eth(), ipv4(MEMBER, NODE, { protocol: 4 }), part(frame(...podPacket), 0, 19)),
    ...malformed,
  },
  {
    name: "a member's inner header and no more",
    given: frame(eth(), ipv4(MEMBER, NODE), ipv4(POD_A, POD_B, { protocol: 17 })),
    ...member,
  },
  {
    name: "a member's inner header that lies in the padding",
    given: ipip(MEMBER, NODE, { totalLength: 39 }),
    ...malformed,
  },
  {
    name: "a member's inner header behind options that lies in the padding",
    given: ipip(MEMBER, NODE, { totalLength: 51, optionBytes: 12 }),
    ...malformed,
  },
  {
    name: "a member's short packet with padding behind it",
    given: frame(eth(), ipv4(MEMBER, NODE, { totalLength: 40 }), ipv4(POD_A, POD_B, { protocol: 17 }), data(20, 0)),
    ...member,
  },
];

const longPacket = frame(ipv4(POD_A, POD_B), udp(40000, 53), data(3000));
const longNestedPacket = frame(ipv4(STRANGER, NODE), ipv4(POD_A, POD_B), udp(40000, 53), data(3000));

function fragment(source: string, of: Buffer, start: number, end: number, moreFragments: boolean): Buffer {
  return frame(
    eth(),
    ipv4(source, NODE, { protocol: 4, identification: 77, fragmentOffset: start, moreFragments }),
    part(of, start, end),
  );
}

const fragments: Fixture[] = [
  { name: "a member's first fragment", given: fragment(MEMBER, longPacket, 0, 1480, true), ...member },
  { name: "a member's middle fragment", given: fragment(MEMBER, longPacket, 1480, 2960, true), ...member },
  { name: "a member's last fragment", given: fragment(MEMBER, longPacket, 2960, 3028, false), ...member },
  { name: "a member's last fragment of 8 bytes", given: fragment(MEMBER, longPacket, 2960, 2968, false), ...member },
  { name: "a member's fragment at the smallest offset", given: fragment(MEMBER, longPacket, 8, 16, true), ...member },
  {
    name: "a member's fragment at half of the largest offset",
    given: frame(eth(), ipv4(MEMBER, NODE, { protocol: 4, fragmentOffset: 32768, moreFragments: true }), data(64, 0)),
    ...member,
  },
  {
    name: "a member's fragment at the largest offset",
    given: ipip(MEMBER, NODE, { fragmentOffset: 65528 }),
    ...member,
  },
  {
    name: "a member's first fragment of a nested packet",
    given: fragment(MEMBER, longNestedPacket, 0, 1480, true),
    ...nested,
  },
  { name: "a member's first fragment of 8 bytes", given: fragment(MEMBER, longPacket, 0, 8, true), ...malformed },
  { name: "a member's first fragment of 16 bytes", given: fragment(MEMBER, longPacket, 0, 16, true), ...malformed },
  { name: "a member's first fragment of 24 bytes", given: fragment(MEMBER, longPacket, 0, 24, true), ...member },
  { name: "a stranger's first fragment", given: fragment(STRANGER, longPacket, 0, 1480, true), ...notMember },
  { name: "a stranger's middle fragment", given: fragment(STRANGER, longPacket, 1480, 2960, true), ...notMember },
  { name: "a stranger's last fragment", given: fragment(STRANGER, longPacket, 2960, 3028, false), ...notMember },
];

const options: Fixture[] = [4, 8, 12, 16, 20, 24, 28, 32, 36, 40].flatMap((optionBytes) => {
  const words = 5 + optionBytes / 4;
  return [
    { name: `a member with a header of ${words} words`, given: ipip(MEMBER, NODE, { optionBytes }), ...member },
    { name: `a stranger with a header of ${words} words`, given: ipip(STRANGER, NODE, { optionBytes }), ...notMember },
  ];
});

const lies: Fixture[] = [
  ...[0, 1, 2, 3, 5, 6, 7, 15].map((version) => ({
    name: `a member with the version ${version}`,
    given: ipip(MEMBER, NODE, { version }),
    ...malformed,
  })),
  ...[0, 1, 2, 3, 4].map((headerWords) => ({
    name: `a member that claims a header of ${headerWords} words`,
    given: ipip(MEMBER, NODE, { headerWords }),
    ...malformed,
  })),
  { name: "a member that claims no length", given: ipip(MEMBER, NODE, { totalLength: 0 }), ...malformed },
  { name: "a member that claims less than a header", given: ipip(MEMBER, NODE, { totalLength: 19 }), ...malformed },
  {
    name: "a member that claims less than its options",
    given: ipip(MEMBER, NODE, { totalLength: 59, optionBytes: 40 }),
    ...malformed,
  },
  { name: "a member that claims one byte more", given: ipip(MEMBER, NODE, { totalLength: 81 }), ...malformed },
  { name: "a member that claims 65535 bytes", given: ipip(MEMBER, NODE, { totalLength: 65535 }), ...malformed },
  { name: "a stranger that claims a header of 4 words", given: ipip(STRANGER, NODE, { headerWords: 4 }), ...malformed },
  {
    name: "a stranger that claims less than its options",
    given: ipip(STRANGER, NODE, { totalLength: 59, optionBytes: 40 }),
    ...malformed,
  },
  { name: "a stranger in transit that lies", given: ipip(STRANGER, FAR_AWAY, { totalLength: 81 }), ...malformed },
  {
    name: "a member's segments that GRO merged beyond 64 KiB, whose length is 0",
    given: ipip(MEMBER, NODE, { totalLength: 0 }),
    gsoSize: 1400,
    hooks: ["tc"],
    ...member,
  },
  {
    name: "a stranger's segments that GRO merged beyond 64 KiB, whose length is 0",
    given: ipip(STRANGER, NODE, { totalLength: 0 }),
    gsoSize: 1400,
    hooks: ["tc"],
    ...notMember,
  },
];

const tags = { one: [vlan(100)], service: [vlan(100, "serviceVlan")], two: [vlan(100, "serviceVlan"), vlan(200)] };

const tagged: Fixture[] = Object.entries(tags).flatMap(([name, layers]) => [
  {
    name: `a member behind VLAN tags (${name})`,
    given: frame(eth(), ...layers, ipv4(MEMBER, NODE), ...podPacket),
    ...member,
  },
  {
    name: `a stranger behind VLAN tags (${name})`,
    given: frame(eth(), ...layers, ipv4(STRANGER, NODE), ...podPacket),
    ...notMember,
  },
  {
    name: `a nested packet behind VLAN tags (${name})`,
    given: frame(eth(), ...layers, ipv4(MEMBER, NODE, { optionBytes: 12 }), ipv4(STRANGER, NODE), ...podPacket),
    ...nested,
  },
  { name: `TCP behind VLAN tags (${name})`, given: frame(eth(), ...layers, ipv4(POD_A, NODE), tcp(1, 2)), ...unjudged },
]);

const others: Fixture[] = [
  {
    name: "a stranger behind three VLAN tags, which the next device down takes off",
    given: frame(eth(), vlan(1), vlan(2), vlan(3), ipv4(STRANGER, NODE), ...podPacket),
    ...unjudged,
  },
  { name: "a frame that ends in a VLAN tag", given: frame(eth(), vlan(1)).subarray(0, 16), ...unjudged },
  { name: "TCP", given: frame(eth(), ipv4(STRANGER, NODE), tcp(40000, 443)), ...unjudged },
  { name: "UDP", given: frame(eth(), ipv4(STRANGER, NODE), udp(40000, 53), data(20)), ...unjudged },
  { name: "ICMP", given: frame(eth(), ipv4(STRANGER, NODE), icmpEcho(), data(56)), ...unjudged },
  { name: "GRE, protocol 47", given: frame(eth(), ipv4(STRANGER, NODE, { protocol: 47 }), data(40)), ...unjudged },
  {
    name: "IPv6 in IPv4, protocol 41",
    given: frame(eth(), ipv4(STRANGER, NODE, { protocol: 41 }), data(40)),
    ...unjudged,
  },
  { name: "ARP", given: frame(eth(), arp(STRANGER, NODE), data(18, 0)), ...unjudged },
  {
    name: "an unknown ethertype, whatever it carries",
    given: frame(eth(), unknownEthertype(), ipv4(STRANGER, NODE), ...podPacket),
    ...unjudged,
  },
  {
    name: "an unknown ethertype behind a VLAN tag",
    given: frame(eth(), vlan(1), unknownEthertype(), ipv4(STRANGER, NODE), ...podPacket),
    ...unjudged,
  },
  { name: "IPv6", given: frame(eth(), ipv6(17), udp(40000, 53), data(20)), ...unjudged },
  { name: "IPv4 in IPv6", given: frame(eth(), ipv6(4), ...podPacket), ...unjudged },
  { name: "an Ethernet header and nothing more", given: frame(eth(), data(0)), ...unjudged },
];

export const fixtures: readonly Fixture[] = [
  ...sources,
  ...destinations,
  ...onTheWay,
  ...otherTunnels,
  ...inside,
  ...fragments,
  ...options,
  ...lies,
  ...tagged,
  ...others,
];

/** On a link that does not forward, the kernel looks no address up, and takes no packet on either. */
export const withoutForwarding: readonly Fixture[] = [
  { name: "a member", given: ipip(MEMBER, NODE), ...member },
  { name: "a stranger to this node", given: ipip(STRANGER, NODE), ...notMember },
  { name: "a stranger to a listed address", given: ipip(STRANGER, LISTED_LOCAL), ...notMember },
  { name: "a stranger to 224.0.0.1", given: ipip(STRANGER, "224.0.0.1"), ...notMember },
  { name: "a stranger to 127.0.0.1", given: ipip(STRANGER, "127.0.0.1"), ...notMember },
  { name: "a stranger to somebody else", given: ipip(STRANGER, FAR_AWAY), ...notMember },
  { name: "a stranger to a member", given: ipip(STRANGER, CIDR_MEMBER), ...notMember },
];

/** A member's packet of 94 bytes with options, to be cut. */
export const whole: Buffer = ipip(MEMBER, NODE, { optionBytes: 12 });
