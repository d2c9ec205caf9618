import { afterAll, beforeAll, expect, jest, test } from "@jest/globals";
import type { VerdictName } from "../../../src/guard/layout.ts";
import { data, eth, frame, ipv4, ipv6, type Layer, tcp, udp, vlan } from "../../lib/packets.ts";
import { waitFor } from "../../lib/wait.ts";
import { GuardedNode, MEMBER, NODE, NODE_MAC, STRANGER } from "./guarded-node.ts";

jest.setTimeout(60_000); // in an emulated machine a program takes its time to start

/** Every linear length up to the last byte of the headers: Ethernet, two tags, 60 bytes of outer IPv4, 20 of inner. */
const LAST = 14 + 2 * 4 + 60 + 20 + 1;

let world: GuardedNode;

beforeAll(async () => {
  world = await GuardedNode.create();
  // Without its module, where it is one, tun has no file in /dev; exits with 1 where it is built in.
  await world.node.run({ file: "modprobe", args: ["-q", "tun"], okExitCodes: [1] });
  await world.node.ipBatch("link set e0 mtu 9000", "tuntap add tun0 mode tun", "link set tun0 up");
  await world.neighbour.ip("link", "set", "e1", "mtu", "9000");
  world.setMembers([MEMBER]);
  for (const name of ["e0", "lo", "tun0"]) {
    const link = await world.link(name);
    world.enter(() => world.guard.attach(link, "tc"));
  }
});

afterAll(() => world?.remove());

const padding = data(4200, 0);
const inner = [ipv4("10.100.9.193", "10.100.15.129"), udp(40000, 53), padding] as const;
const nestedInner = [ipv4(STRANGER, NODE), ...inner] as const;
const options = { optionBytes: 40 };
/** Short, so in one piece: sent behind all others, and judged as none of them: once it is counted they were. */
const endMark = [ipv4(STRANGER, MEMBER), ipv4(STRANGER, NODE), udp(40000, 53)] as const;
const endVerdict = "forged-transit";

type Row = readonly [name: string, layers: readonly Layer[], verdict: VerdictName | undefined];

const rows: readonly Row[] = [
  ["a member", [ipv4(MEMBER, NODE), ...inner], "member"],
  ["a member with 40 bytes of options", [ipv4(MEMBER, NODE, options), ...inner], "member"],
  ["a member's nested packet", [ipv4(MEMBER, NODE), ...nestedInner], "nested"],
  ["a nested packet behind 40 bytes of options", [ipv4(MEMBER, NODE, options), ...nestedInner], "nested"],
  ["a member's later fragment", [ipv4(MEMBER, NODE, { protocol: 4, fragmentOffset: 800 }), padding], "member"],
  ["a stranger", [ipv4(STRANGER, NODE), ...inner], "not-member"],
  ["a member that claims 65535 bytes", [ipv4(MEMBER, NODE, { totalLength: 65535 }), ...inner], "malformed"],
  ["a member's inner header in the padding", [ipv4(MEMBER, NODE, { totalLength: 39 }), ...inner], "malformed"],
  ["IPv6 in a member's IPv4", [ipv4(MEMBER, NODE, { protocol: 4 }), ipv6(59), padding], "malformed"],
  ["TCP", [ipv4(STRANGER, NODE), tcp(40000, 443), padding], undefined],
];

const ethernet = eth(NODE_MAC);
const service = vlan(100, "serviceVlan");

// One program sends all rows: in an emulated machine each that is started costs seconds.
test.each([
  ["an Ethernet link", "e0", [ethernet], 14],
  ["an Ethernet link, with a tag", "e0", [ethernet, vlan(100)], 14],
  ["an Ethernet link, with two tags", "e0", [ethernet, service, vlan(200)], 14],
  ["a link with no link header", "tun0", [], 1],
  ["a link with a link header that the guard does not know", "lo", [eth("00:00:00:00:00:00")], 14],
] as const)("headers in page fragments are judged as all others, on %s", async (_, link, front, first) => {
  const before = world.verdicts();
  const count = LAST - first + 1;
  const frames = [...rows.map(([, layers]) => layers), endMark].map((layers) => frame(...front, ...layers));
  await world.receiveInFragments(link, { first, last: LAST }, ...frames);
  await waitFor(() => moved(before)[endVerdict] === count, { what: "the last frame judged", timeoutMs: 30_000 });
  expect(moved(before)).toEqual({ ...expected(count), [endVerdict]: count });
});

/** Of all rows, each sent `count` times. */
function expected(count: number): Verdicts {
  const judged = rows.flatMap(([, , verdict]) => (verdict === undefined ? [] : [verdict]));
  const sums = judged.map((verdict) => [verdict, count * judged.filter((other) => other === verdict).length] as const);
  return Object.fromEntries(sums);
}

type Verdicts = Partial<Record<VerdictName, number>>;

function moved(before: Verdicts): Verdicts {
  const all = Object.entries(world.verdicts()) as [VerdictName, number][];
  const differences = all.map(([name, number]) => [name, number - (before[name] ?? 0)] as const);
  return Object.fromEntries(differences.filter(([, number]) => number > 0));
}
