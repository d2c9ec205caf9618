import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { BpfObject } from "libbpf-ts";
import { assetPath } from "../../../src/assets.ts";
import {
  decodeCounter,
  encodeAddress,
  encodeConfig,
  encodeTunnelPair,
  encodeUint32,
  present,
  type VerdictName,
  verdictNames,
  verdictNumbers,
} from "../../../src/guard/layout.ts";
import { HostNetSet } from "../../../src/ipset/host-net-set.ts";
import { NetworkNamespace } from "../../../src/linux/namespace.ts";
import { Namespace } from "../../lib/namespace.ts";
import {
  ANY_IP,
  BLACKHOLE,
  type Fixture,
  fixtures,
  GATEWAY,
  type HookName,
  LISTED_LOCAL,
  MEMBER,
  MEMBER_BEHIND_GATEWAY,
  MEMBER_CIDR,
  MEMBER_SMALL_CIDR,
  NODE,
  OFFICE,
  OTHER_LINK,
  SECONDARY,
  whole,
  withoutForwarding,
} from "./fixtures.ts";

let node: Namespace;
let namespace: NetworkNamespace;
let uplink: number;
let object: BpfObject;

beforeAll(async () => {
  [node] = await Namespace.create(`guard-decision-${process.pid}`);
  namespace = await NetworkNamespace.open(node.path);
  await node.ipBatch(
    "link set lo up",
    "link add e0 type veth peer name e0-peer",
    "link add d0 type veth peer name d0-peer",
    ...["e0", "e0-peer", "d0", "d0-peer"].map((link) => `link set ${link} up`),
    `address add ${NODE}/24 broadcast + dev e0`,
    `address add ${SECONDARY}/24 broadcast + dev e0`,
    `address add ${OTHER_LINK}/24 dev d0`,
    `route add default via ${GATEWAY}`,
    `neighbour add ${GATEWAY} lladdr 02:00:00:00:00:fe dev e0`,
    `route add local ${ANY_IP} dev lo`,
    `route add blackhole ${BLACKHOLE}`,
  );
  await setForwarding(true);
  const [link] = await node.ipJson("link", "show", "e0");
  uplink = link.ifindex;

  object = BpfObject.open(readFileSync(assetPath("bpf/host_net_guard.bpf.o")), { name: "host_net_guard" });
  object.load();
  new HostNetSet({ exact: object.map("members_exact"), cidr: object.map("members_cidr") }).replace({
    hosts: [MEMBER, MEMBER_BEHIND_GATEWAY],
    cidrs: [MEMBER_CIDR, MEMBER_SMALL_CIDR],
  });
  object.map("locals").set(encodeAddress(LISTED_LOCAL), present);
  object.map("other_tunnels").set(encodeTunnelPair({ local: NODE, remote: OFFICE }), present);
});

afterAll(async () => {
  object?.close();
  await namespace?.close();
  await Namespace.remove([node]);
});

async function setForwarding(on: boolean): Promise<void> {
  await node.run({ file: "sysctl", args: ["-w", `net.ipv4.ip_forward=${Number(on)}`] });
}

function setMode(config: Uint8Array): void {
  object.map("guard_config").set(encodeUint32(0), config);
}

interface Hook {
  readonly program: string;
  readonly pass: number;
  readonly drop: number;
}

/** Return values of linux/pkt_cls.h and linux/bpf.h. */
const hooks: Record<HookName, Hook> = {
  tc: { program: "guard_tc_ethernet", pass: -1, drop: 2 },
  xdp: { program: "guard_xdp", pass: 2, drop: 1 },
};

type Counts = Partial<Record<VerdictName, { packets: number; bytes: number }>>;

function counts(): Record<VerdictName, { packets: number; bytes: number }> {
  const entries = verdictNames.map((verdict) => {
    const perCpu = object.map("verdicts").getPerCpu(encodeUint32(verdictNumbers[verdict])).map(decodeCounter);
    const total = (field: "packets" | "bytes") => Number(perCpu.reduce((sum, counter) => sum + counter[field], 0n));
    return [verdict, { packets: total("packets"), bytes: total("bytes") }] as const;
  });
  return Object.fromEntries(entries) as Record<VerdictName, { packets: number; bytes: number }>;
}

/** struct __sk_buff of linux/bpf.h: the packet came in on the uplink. A test run of XDP says "lo", which forwards as well. */
function skbContext(gsoSize = 0): Buffer {
  const context = Buffer.alloc(180);
  context.writeUInt32LE(uplink, 40);
  context.writeUInt32LE(gsoSize === 0 ? 0 : 2, 164);
  context.writeUInt32LE(gsoSize, 176);
  return context;
}

function decide(hook: HookName, packet: Uint8Array, gsoSize?: number): { action: string; moved: Counts } {
  const { program, pass, drop } = hooks[hook];
  const before = counts();
  const { returnValue } = namespace.enter(() =>
    object.program(program).testRun({ data: packet, ...(hook === "tc" ? { context: skbContext(gsoSize) } : {}) }),
  );
  const after = counts();
  const action = { [pass]: "pass", [drop]: "drop" }[returnValue] ?? `returned ${returnValue}`;
  const moved = verdictNames
    .filter((verdict) => after[verdict].packets !== before[verdict].packets)
    .map((verdict) => {
      const packets = after[verdict].packets - before[verdict].packets;
      return [verdict, { packets, bytes: after[verdict].bytes - before[verdict].bytes }] as const;
    });
  return { action, moved: Object.fromEntries(moved) as Counts };
}

function one(verdict: VerdictName | undefined, packet: Uint8Array): Counts {
  return verdict === undefined ? {} : { [verdict]: { packets: 1, bytes: packet.length } };
}

type Row = readonly [hook: HookName, action: string, name: string, fixture: Fixture];

function rows(list: readonly Fixture[]): Row[] {
  return (["tc", "xdp"] as const).flatMap((hook) =>
    list
      .filter(({ hooks: shown = ["tc", "xdp"] }) => shown.includes(hook))
      // The kernel refuses a tc test run on less than an IPv4 header.
      .filter(({ given }) => hook === "xdp" || given.length >= 34)
      .map((fixture) => [hook, `${fixture.action} ${fixture.counts ?? "uncounted"}`, fixture.name, fixture] as const),
  );
}

test.each(rows(fixtures))("%s: %s: %s", (hook, _action, _name, { given, action, counts, gsoSize }) => {
  expect(decide(hook, given, gsoSize)).toEqual({ action, moved: one(counts, given) });
});

describe("without forwarding", () => {
  beforeAll(() => setForwarding(false));
  afterAll(() => setForwarding(true));

  test.each(rows(withoutForwarding))("%s: %s: %s", (hook, _action, _name, { given, action, counts }) => {
    expect(decide(hook, given)).toEqual({ action, moved: one(counts, given) });
  });
});

describe("in mode observe", () => {
  beforeAll(() => setMode(encodeConfig("observe")));
  afterAll(() => setMode(encodeConfig("enforce")));

  const dropped = fixtures.filter(({ action }) => action === "drop");
  const passed = fixtures.filter(({ action }) => action === "pass");

  test.each(rows(dropped))("%s passes what enforce would %s, counted apart: %s", (hook, _action, _name, fixture) => {
    const { given, counts, gsoSize } = fixture;
    const observed = `observed-${counts}` as VerdictName;
    expect(decide(hook, given, gsoSize)).toEqual({ action: "pass", moved: one(observed, given) });
  });

  test.each(rows(passed))("%s: %s: %s", (hook, _action, _name, { given, action, counts, gsoSize }) => {
    expect(decide(hook, given, gsoSize)).toEqual({ action, moved: one(counts, given) });
  });
});

test("a mode that the program does not know enforces", () => {
  const stranger = fixtures.find(({ counts }) => counts === "not-member")?.given ?? Buffer.alloc(0);
  setMode(encodeUint32(7));
  const verdict = decide("xdp", stranger);
  setMode(encodeConfig("enforce"));
  expect(verdict).toEqual({ action: "drop", moved: one("not-member", stranger) });
});

/** Ethernet header and 10 bytes show the protocol. */
const firstJudged = 24;

test.each([
  ["tc", 34],
  ["xdp", 14],
] as const)(
  "%s: a member's packet that is cut at any byte is malformed or not seen to be protocol 4",
  (hook, least) => {
    const lengths = Array.from({ length: whole.length - least }, (_, index) => least + index);
    const verdicts = lengths.map((length) => [length, decide(hook, whole.subarray(0, length))]);
    expect(verdicts).toEqual(
      lengths.map((length) => {
        const cut = whole.subarray(0, length);
        const judged = length >= firstJudged;
        return [length, { action: judged ? "drop" : "pass", moved: one(judged ? "malformed" : undefined, cut) }];
      }),
    );
  },
);
