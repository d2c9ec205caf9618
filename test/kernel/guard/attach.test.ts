import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { BpfLink, BpfObject, BpfProgram, queryClsact, supportsTcx } from "libbpf-ts";
import { run } from "../../../src/exec.ts";
import { takeOver } from "../../../src/guard/pins.ts";
import { HostNetSet } from "../../../src/ipset/host-net-set.ts";
import { data, eth, frame, ipv4, type Layer, udp, vlan } from "../../lib/packets.ts";
import { waitFor } from "../../lib/wait.ts";
import { compileForeign, compileOtherGuard } from "./compile.ts";
import { GuardedNode, MEMBER, NODE, NODE_MAC, STRANGER } from "./guarded-node.ts";

/** What this kernel has. */
const tcHook = supportsTcx() ? "tcx" : "clsact";

let world: GuardedNode;

beforeEach(async () => {
  world = await GuardedNode.create();
});

afterEach(() => world.remove());

const inner = [ipv4("10.100.9.193", "10.100.15.129"), udp(40000, 53), data(32)] as const;

function ipip(source: string, ...tags: Layer[]): Buffer {
  return frame(eth(NODE_MAC), ...tags, ipv4(source, NODE), ...inner);
}

/** Ids never return: the same id is the same object. A clsact filter has none of its own. */
function pinnedIds(): Record<string, number> {
  const programs = readdirSync(join(world.pinDirectory, "programs")).map((name) => {
    using program = BpfProgram.openPinned(join(world.pinDirectory, "programs", name));
    return [`program ${name}`, program.id] as const;
  });
  const pins = readdirSync(join(world.pinDirectory, "links"));
  const links = pins
    .filter((name) => !name.startsWith("clsact"))
    .map((name) => {
      using link = BpfLink.openPinned(join(world.pinDirectory, "links", name));
      return [`link ${name}`, link.info().id] as const;
    });
  return Object.fromEntries([...programs, ...links]);
}

test("a member's packet is delivered and a stranger's is not", async () => {
  const link = await world.link();
  world.enter(() => world.guard.attach(link, "tc"));
  world.setMembers([MEMBER]);
  const delivered = await world.listen();
  await world.send(ipip(STRANGER), ipip(MEMBER));
  await waitFor(() => delivered().length > 0, { what: "a packet delivered", timeoutMs: 5000 });
  expect(delivered()).toEqual([MEMBER]);
  expect(world.verdicts()).toEqual({ member: 1, "not-member": 1 });
});

test("a stranger's packet is delivered in mode observe, and counted as observed", async () => {
  const link = await world.link();
  world.guard.setMode("observe");
  world.enter(() => world.guard.attach(link, "tc"));
  const delivered = await world.listen();
  await world.send(ipip(STRANGER));
  await waitFor(() => delivered().length > 0, { what: "a packet delivered", timeoutMs: 5000 });
  expect(delivered()).toEqual([STRANGER]);
  expect(world.verdicts()).toEqual({ "observed-not-member": 1 });
});

// In life the first tag is in the skb's metadata, which a test run cannot show.
test.each([
  ["no VLAN tag", []],
  ["a VLAN tag", [vlan(100)]],
  ["a service tag", [vlan(100, "serviceVlan")]],
  ["a service tag and a VLAN tag", [vlan(100, "serviceVlan"), vlan(200)]],
  ["two VLAN tags", [vlan(100), vlan(200)]],
])("tc judges packets behind %s", async (_, tags) => {
  const link = await world.link();
  world.enter(() => world.guard.attach(link, "tc"));
  world.setMembers([MEMBER]);
  await world.send(ipip(STRANGER, ...tags), ipip(MEMBER, ...tags));
  expect(await world.verdictsOf(2)).toEqual({ member: 1, "not-member": 1 });
});

test("tc judges packets that end in their outer header", async () => {
  const link = await world.link();
  world.enter(() => world.guard.attach(link, "tc"));
  world.setMembers([MEMBER]);
  const member = ipip(MEMBER);
  // From 24 bytes on the protocol is to be seen.
  await world.send(member.subarray(0, 23), member.subarray(0, 24), member.subarray(0, 33), member);
  expect(await world.verdictsOf(3)).toEqual({ malformed: 2, member: 1 });
});

test("tc judges packets of a link without Ethernet header", async () => {
  await world.node.ipBatch("tuntap add tun0 mode tun", "link set tun0 up");
  const link = await world.link("tun0");
  world.enter(() => world.guard.attach(link, "tc"));
  world.setMembers([MEMBER]);
  const packet = (source: string) => frame(ipv4(source, NODE), ...inner);
  const nested = frame(ipv4(MEMBER, NODE), ipv4(STRANGER, NODE), ...inner);
  const tcp = frame(ipv4(STRANGER, NODE, { protocol: 6 }), data(20));
  await world.receiveByTun("tun0", tcp, packet(STRANGER), nested, packet(MEMBER));
  expect(await world.verdictsOf(3)).toEqual({ "not-member": 1, nested: 1, member: 1 });
});

test("tc judges packets of a link without Ethernet header that end early", async () => {
  await world.node.ipBatch("tuntap add tun0 mode tun", "link set tun0 up");
  const link = await world.link("tun0");
  world.enter(() => world.guard.attach(link, "tc"));
  world.setMembers([MEMBER]);
  const member = frame(ipv4(MEMBER, NODE), ...inner);
  const tcp = frame(ipv4(STRANGER, NODE, { protocol: 6 }), data(20));
  // Who cannot see the protocol, up to 9 bytes, takes it for 4: where a link header is unknown the stack might.
  const ends = (packet: Buffer) => [1, 9, 10, 19].map((end) => packet.subarray(0, end));
  await world.receiveByTun("tun0", ...ends(tcp), ...ends(member), member);
  expect(await world.verdictsOf(7)).toEqual({ malformed: 6, member: 1 });
});

test("setLocals() protects the listed addresses also where the kernel would send them on", async () => {
  const link = await world.link();
  world.enter(() => world.guard.attach(link, "tc"));
  const packet = frame(eth(NODE_MAC), ipv4(STRANGER, "10.0.0.77"), ...inner);
  await world.send(packet);
  expect(await world.verdictsOf(1)).toEqual({ transit: 1 });
  world.guard.setLocals(["10.0.0.77"]);
  await world.send(packet);
  expect(await world.verdictsOf(2)).toEqual({ transit: 1, "not-member": 1 });
});

test("setOtherTunnels() lets exactly the listed pairs through", async () => {
  const link = await world.link();
  world.enter(() => world.guard.attach(link, "tc"));
  world.guard.setOtherTunnels([{ local: NODE, remote: STRANGER }]);
  await world.send(ipip(STRANGER));
  expect(await world.verdictsOf(1)).toEqual({ "other-tunnel": 1 });
  world.guard.setOtherTunnels([]);
  await world.send(ipip(STRANGER));
  expect(await world.verdictsOf(2)).toEqual({ "other-tunnel": 1, "not-member": 1 });
});

describe("attach()", () => {
  test("puts XDP on top of tc, and takes it off again", async () => {
    const link = await world.link();
    for (const [how, xdp] of [
      ["tc", undefined],
      ["xdp-native", "native"],
      ["xdp-generic", "generic"],
      ["xdp-native", "native"],
      ["tc", undefined],
    ] as const) {
      world.enter(() => world.guard.attach(link, how));
      expect(attachments()).toEqual(new Map([[link.index, { tc: tcHook, xdp }]]));
    }
  });

  test.each(["xdp-native", "xdp-generic"] as const)(
    "by %s drops a stranger's packet before tc counts it",
    async (how) => {
      const link = await world.link();
      world.enter(() => world.guard.attach(link, how));
      world.setMembers([MEMBER]);
      await world.send(ipip(STRANGER), ipip(MEMBER));
      expect(await world.verdictsOf(3)).toEqual({ "not-member": 1, member: 2 });
    },
  );

  test("by xdp-generic judges headers in page fragments, which the kernel makes linear for it", async () => {
    await setJumboFrames();
    const link = await world.link();
    world.enter(() => world.guard.attach(link, "xdp-generic"));
    world.setMembers([MEMBER]);
    const padding = data(4200, 0); // more than a page: the kernel keeps a smaller frame in one piece
    const nested = frame(eth(NODE_MAC), ipv4(MEMBER, NODE), ipv4(STRANGER, NODE), ...inner, padding);
    const frames = [STRANGER, MEMBER].map((source) => frame(eth(NODE_MAC), ipv4(source, NODE), ...inner, padding));
    await world.receiveInFragments("e0", { first: 14, last: 63 }, nested, ...frames);
    expect(await world.verdictsOf(200)).toEqual({ nested: 50, "not-member": 50, member: 100 });
  });

  test("keeps tc where a frame can be in several buffers, of which XDP would see the first alone", async () => {
    await setJumboFrames();
    const link = await world.link();
    expect(refusal(() => world.guard.attach(link, "xdp-native"))).toMatchObject({ reason: "refused" });
    expect(attachments()).toEqual(new Map([[link.index, { tc: tcHook, xdp: undefined }]]));
  });

  test("changes nothing when the link is guarded in this way", async () => {
    const link = await world.link();
    world.enter(() => world.guard.attach(link, "xdp-native"));
    const before = pinnedIds();
    world.enter(() => world.guard.attach(link, "xdp-native"));
    expect(pinnedIds()).toEqual(before);
  });

  test("keeps tc where somebody else has an XDP program, and leaves theirs", async () => {
    const link = await world.link();
    using foreign = await loadForeign();
    using theirs = world.enter(() => BpfLink.attachXdp(foreign.program("foreign_xdp"), link.index, "native"));
    expect(refusal(() => world.guard.attach(link, "xdp-native"))).toMatchObject({
      hook: "xdp-native",
      reason: "taken",
    });
    expect(attachments()).toEqual(new Map([[link.index, { tc: tcHook, xdp: undefined }]]));
    expect(theirs.info().ifindex).toBe(link.index);
  });

  test("keeps tc where the driver has no native XDP", async () => {
    await world.node.ipBatch("link add br0 type bridge", "link set br0 up");
    const link = await world.link("br0");
    expect(refusal(() => world.guard.attach(link, "xdp-native"))).toMatchObject({
      reason: "not-supported",
      message: expect.stringContaining('Cannot attach the guard to "br0" by xdp-native: '),
    });
    expect(attachments()).toEqual(new Map([[link.index, { tc: tcHook, xdp: undefined }]]));
  });

  test("keeps tc on a link without Ethernet header, where XDP would not find the packet", async () => {
    await world.node.ipBatch("tuntap add tun0 mode tun", "link set tun0 up");
    const link = await world.link("tun0");
    expect(refusal(() => world.guard.attach(link, "xdp-generic"))).toMatchObject({ reason: "not-ethernet" });
    expect(attachments()).toEqual(new Map([[link.index, { tc: tcHook, xdp: undefined }]]));
  });

  test("says that a link is gone", async () => {
    expect(() => world.enter(() => world.guard.attach({ index: 4711, name: "gone0", type: 1 }, "tc"))).toThrow(
      "ENODEV",
    );
    expect(attachments()).toEqual(new Map());
  });
});

test("detach() ends the check, and is content when there is none", async () => {
  const link = await world.link();
  world.enter(() => world.guard.attach(link, "xdp-native"));
  const delivered = await world.listen();
  for (const _ of [1, 2]) {
    world.enter(() => world.guard.detach(link));
    expect(attachments()).toEqual(new Map());
  }
  await world.send(ipip(STRANGER));
  await waitFor(() => delivered().length > 0, { what: "a packet delivered", timeoutMs: 5000 });
  expect(world.verdicts()).toEqual({});
});

test("detach() takes the program off at once, also while somebody else has the link open", async () => {
  const link = await world.link();
  world.enter(() => world.guard.attach(link, "xdp-native"));
  using held = BpfLink.openPinned(join(world.pinDirectory, "links", `xdp-native-${link.index}`));
  world.enter(() => world.guard.detach(link));
  expect(held.info().ifindex).toBe(0);
});

describe("a restart", () => {
  test("with the same version keeps programs, links, members, mode and counters", async () => {
    const link = await world.link();
    world.enter(() => world.guard.attach(link, "xdp-native"));
    world.setMembers([MEMBER]);
    world.guard.setMode("observe");
    await world.send(ipip(STRANGER));
    // Once by XDP, once by tc.
    const verdicts = await world.verdictsOf(2);
    const before = pinnedIds();

    world.open();
    world.enter(() => world.guard.attach(link, "xdp-native"));

    expect(pinnedIds()).toEqual(before);
    expect(world.guard.mode()).toBe("observe");
    expect(world.verdicts()).toEqual(verdicts);
    expect(new HostNetSet(world.guard.members).list().hosts).toEqual([MEMBER]);
  });

  test("with another version exchanges the programs and lets no packet through meanwhile", async () => {
    const other = await compileOtherGuard();
    const link = await world.link();
    world.enter(() => world.guard.attach(link, "xdp-native"));
    const delivered = await world.listen();
    const before = pinnedIds();
    const stop = await world.flood(ipip(STRANGER));
    for (let round = 0; round < 10; round++) {
      for (const image of [other, undefined]) {
        world.open(image ? { image } : {});
        world.enter(() => world.guard.attach(link, "xdp-native"));
      }
    }
    const sent = await stop();
    expect(sent).toBeGreaterThan(10);
    expect(await world.verdictsOf(sent)).toEqual({ "not-member": sent });
    expect(delivered()).toEqual([]);
    expect(linkIds(pinnedIds())).toEqual(linkIds(before));
    expect(attachedPrograms(link.index)).toEqual({
      tc: pinnedIds()["program guard_tc_ethernet"],
      xdp: pinnedIds()["program guard_xdp"],
    });
  });

  test("finishes an exchange of programs that a crash has cut off after their publication", async () => {
    const link = await world.link();
    world.enter(() => world.guard.attach(link, "tc"));
    const other = await compileOtherGuard();
    takeOver(world.pinDirectory, [other]);
    expect(attachedPrograms(link.index).tc).not.toBe(pinnedIds()["program guard_tc_ethernet"]);
    world.open({ image: other });
    world.enter(() => world.guard.attach(link, "tc"));
    expect(attachedPrograms(link.index).tc).toBe(pinnedIds()["program guard_tc_ethernet"]);
  });

  test("with a lost map leaves the attached programs alone until attach(), when the new map has its members", async () => {
    const link = await world.link();
    world.enter(() => world.guard.attach(link, "tc"));
    world.setMembers([MEMBER]);
    const before = attachedPrograms(link.index).tc;
    rmSync(join(world.pinDirectory, "maps/members_exact"));
    // A second start, as after a crash, finds the map that the first one made: still without members.
    for (const _ of ["first", "second"]) {
      world.open();
      expect(attachedPrograms(link.index).tc).toBe(before);
    }
    await world.send(ipip(MEMBER));
    expect(await world.verdictsOf(1)).toEqual({ member: 1 });
    world.setMembers([MEMBER]);
    world.enter(() => world.guard.attach(link, "tc"));
    expect(attachedPrograms(link.index).tc).not.toBe(before);
    await world.send(ipip(MEMBER), ipip(STRANGER));
    expect(await world.verdictsOf(3)).toEqual({ member: 2, "not-member": 1 });
  });

  test("refuses a pinned map of another shape by name, and leaves everything as it is", async () => {
    const link = await world.link();
    world.enter(() => world.guard.attach(link, "tc"));
    const path = join(world.pinDirectory, "maps/locals");
    rmSync(path);
    const shape = ["type", "hash", "key", "4", "value", "8", "entries", "1", "name", "locals"];
    await run({ file: "bpftool", args: ["map", "create", path, ...shape] });
    const before = pinnedIds();
    expect(() => world.open()).toThrow(/maps\/locals.*its valueSize is 8, it must be 4/);
    expect(pinnedIds()).toEqual(before);
  });

  test("of the machine finds no pins and starts to enforce with empty sets", () => {
    expect(world.guard.mode()).toBe("enforce");
    expect(world.verdicts()).toEqual({});
    expect(attachments()).toEqual(new Map());
  });
});

test("the check goes on when the process that made it is killed", async () => {
  const { index, type } = await world.link();
  let output = "";
  const holder = world.node.start({
    file: process.execPath,
    args: [join(import.meta.dirname, "holder.ts"), world.pinDirectory, String(index), String(type)],
    onOutput: (text) => {
      output += text;
    },
  });
  await waitFor(() => output.includes("guarded"), { what: "the link guarded", timeoutMs: 60_000 });
  holder.kill("SIGKILL");
  await expect(holder.ended).rejects.toThrow("SIGKILL");
  const before = pinnedIds();
  const delivered = await world.listen();
  await world.send(ipip(STRANGER), ipip(MEMBER));
  await waitFor(() => delivered().length > 0, { what: "a packet delivered", timeoutMs: 5000 });
  expect(delivered()).toEqual([MEMBER]);
  expect(world.verdicts()).toEqual({ member: 1, "not-member": 1 });
  expect(pinnedIds()).toEqual(before);
});

test("a removed link leaves nothing, and another one with its number is guarded anew", async () => {
  const link = await world.link();
  world.enter(() => world.guard.attach(link, "xdp-native"));
  await world.node.ipBatch("link delete e0");
  await world.plug({ index: link.index });
  expect(existsSync(join(world.pinDirectory, "links", `${tcHook}-${link.index}`))).toBe(true);

  expect(attachments()).toEqual(new Map());
  expect(readdirSync(join(world.pinDirectory, "links"))).toEqual([]);

  world.enter(() => world.guard.attach(link, "tc"));
  await world.send(ipip(STRANGER));
  expect(await world.verdictsOf(1)).toEqual({ "not-member": 1 });
});

test("attach() takes no pin of a removed link for the check of another one with its number", async () => {
  const link = await world.link();
  world.enter(() => world.guard.attach(link, "tc"));
  await world.node.ipBatch("link delete e0");
  await world.plug({ index: link.index });
  world.enter(() => world.guard.attach(link, "tc"));
  await world.send(ipip(STRANGER));
  expect(await world.verdictsOf(1)).toEqual({ "not-member": 1 });
});

function attachments() {
  return world.enter(() => world.guard.attachments());
}

function linkIds(ids: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(ids).filter(([name]) => name.startsWith("link ")));
}

function attachedPrograms(ifindex: number): { tc: number | undefined; xdp?: number } {
  const programId = (hook: string) => {
    using link = BpfLink.openPinned(join(world.pinDirectory, "links", `${hook}-${ifindex}`));
    return link.info().programId;
  };
  const filter = () => world.enter(() => queryClsact(ifindex, { priority: 1, handle: 1 }))?.programId;
  const hasXdp = existsSync(join(world.pinDirectory, "links", `xdp-native-${ifindex}`));
  return { tc: tcHook === "tcx" ? programId("tcx") : filter(), ...(hasXdp ? { xdp: programId("xdp-native") } : {}) };
}

async function loadForeign(): Promise<BpfObject> {
  const object = BpfObject.open(await compileForeign(), { name: "foreign" });
  object.load();
  return object;
}

async function setJumboFrames(): Promise<void> {
  await world.node.ip("link", "set", "e0", "mtu", "9000");
  await world.neighbour.ip("link", "set", "e1", "mtu", "9000");
}

function refusal(action: () => void): unknown {
  try {
    world.enter(action);
  } catch (error) {
    return error;
  }
  throw new Error("Cannot show the refusal: nothing was refused");
}
