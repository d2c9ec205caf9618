/** The workload guard on real links: what it remembers and forgets, and what it does to real frames. */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { attachClsact, BpfLink, BpfMap, BpfObject, BpfProgram } from "libbpf-ts";
import type { Process } from "../../../src/exec.ts";
import { decodeUint32, encodeContainerAddress, encodeUint32 } from "../../../src/guard/layout.ts";
import { containerKey, WorkloadGuard } from "../../../src/guard/workload-guard.ts";
import { arp, data, eth, frame, ipv4, ipv6, udp, vlan } from "../../lib/packets.ts";
import { waitFor } from "../../lib/wait.ts";
import { compileForeign } from "./compile.ts";
import { type GuardedLink, type GuardedNode, MEMBER, NODE, NODE_MAC } from "./guarded-node.ts";
import { GuardedPod, OTHER_POD, POD, packetFrom, SECOND } from "./guarded-pod.ts";

let pod: GuardedPod;
let world: GuardedNode;
let link: GuardedLink;
let guard: WorkloadGuard;
let listener: Process | undefined;

beforeEach(async () => {
  pod = await GuardedPod.create();
  ({ world, link, guard } = pod);
});

afterEach(async () => {
  listener?.kill("SIGKILL");
  await listener?.ended.catch(() => undefined);
  listener = undefined;
  await pod.remove();
});

function openMap(name: "pod_links" | "container_addresses"): BpfMap {
  return BpfMap.openPinned(join(world.pinDirectory, "maps", name));
}

/** The links that have the addresses of containers, one for each address. */
function holders(): number[] {
  using addresses = openMap("container_addresses");
  return [...addresses.entries()].map(([, holder]) => decodeUint32(holder));
}

/** The id of the program that the kernel runs on the pod's link, by the pin of the attachment. */
function attachedProgram(): number {
  using attachment = BpfLink.openPinned(join(world.pinDirectory, "pod-links", `tcx-${link.index}`));
  return attachment.info().programId;
}

test("16 allowed sources are held, 17 are refused before anything is changed", () => {
  const sources = Array.from({ length: 17 }, (_, index) => `192.0.${index}.0/24`);
  pod.protect({ allowedSources: sources.slice(0, 16) });
  expect(() => pod.protect({ allowedSources: sources })).toThrow(
    "Cannot hold 17 allowed sources of one interface: the limit is 16",
  );
  expect(guard.policyOf(link.index)?.allowedSources).toEqual(sources.slice(0, 16));
});

test("9 addresses of one interface are refused", () => {
  const addresses = Array.from({ length: 9 }, (_, index) => `10.0.0.${index + 1}`);
  expect(() => pod.protect({ addresses })).toThrow("Cannot hold 9 addresses of one interface: the limit is 8");
  expect(guard.policyOf(link.index)).toBeUndefined();
});

describe("two links of one container", () => {
  let second: GuardedLink;

  beforeEach(async () => {
    await world.node.ipBatch("link add second type veth peer name second-peer");
    second = await world.link("second");
    pod.protect({ addresses: [POD] });
    pod.protect({ addresses: [SECOND] }, second);
  });

  test("each sends from the other's address, and nobody else does", async () => {
    expect(pod.judge(packetFrom(SECOND))).toBe("pass");
    expect(pod.judge(packetFrom(POD), { ifindex: second.index })).toBe("pass");
    await world.node.ipBatch("link add third type veth peer name third-peer");
    const third = await world.link("third");
    pod.protect({ containerId: "c2", addresses: [OTHER_POD] }, third);
    expect(pod.judge(packetFrom(POD), { ifindex: third.index })).toBe("drop");
    expect(pod.judge(packetFrom(OTHER_POD))).toBe("drop");
  });

  test("forgetting one ends its address everywhere and keeps the other's", () => {
    pod.forget(second.index);
    expect(pod.judge(packetFrom(SECOND))).toBe("drop");
    expect(pod.judge(packetFrom(POD))).toBe("pass");
    expect(guard.linkIndexes()).toEqual([link.index]);
  });

  test("an address that moved to the other link is not forgotten with the first", () => {
    pod.protect({ addresses: [SECOND, POD] }, second);
    pod.forget();
    expect(pod.judge(packetFrom(POD), { ifindex: second.index })).toBe("pass");
  });
});

test("protect() again changes what is allowed, forgets earlier addresses and keeps the counters", () => {
  pod.protect({ addresses: [POD, SECOND] });
  expect(pod.judge(packetFrom(OTHER_POD))).toBe("drop");
  pod.protect({ addresses: [POD], allowIpv6: true });
  expect(pod.judge(packetFrom(SECOND))).toBe("drop");
  expect(pod.drops()["spoofed-source"]?.packets).toBe(2n);
  expect(guard.policyOf(link.index)).toMatchObject({ addresses: [POD], flags: { "allow-ipv6": true } });
});

test("protect() for another container begins with nothing of the earlier one", () => {
  pod.protect();
  expect(pod.judge(packetFrom(OTHER_POD))).toBe("drop");
  pod.protect({ containerId: "c2", addresses: [SECOND] });
  expect(pod.drops()).toEqual({});
  expect(pod.judge(packetFrom(POD))).toBe("drop");
});

test("silence() stops everything, and is content with an unknown link", () => {
  pod.protect({ allowedSources: ["0.0.0.0/0"], allowIpv6: true, allowIpip: true });
  guard.silence(link.index);
  const packets = [packetFrom(POD), frame(eth(), arp(POD, NODE)), frame(eth(), ipv6(58), data(40))];
  expect(packets.map((packet) => pod.judge(packet))).toEqual(["drop", "drop", "drop"]);
  expect(pod.isAttached()).toBe(true);
  guard.silence(4711);
  expect(guard.policyOf(4711)).toBeUndefined();
});

test("forget() leaves nothing, and is content when there is nothing", () => {
  pod.protect({ addresses: [POD, SECOND] });
  pod.forget();
  pod.forget();
  expect(pod.isAttached()).toBe(false);
  expect(guard.linkIndexes()).toEqual([]);
  expect(holders()).toEqual([]);
});

describe("what a killed process left", () => {
  const index = () => encodeUint32(link.index);

  const leftovers: readonly [left: string, leave: () => void][] = [
    [
      "entry and addresses without program",
      () => {
        pod.protect({ addresses: [POD, SECOND] });
        using attachment = BpfLink.openPinned(join(world.pinDirectory, "pod-links", `tcx-${link.index}`));
        attachment.detach(); // by the pin alone it would go some time later
        attachment.unpin();
      },
    ],
    [
      "an entry without its addresses",
      () => {
        pod.protect({ addresses: [POD, SECOND] });
        using addresses = openMap("container_addresses");
        addresses.deleteBatch([...addresses.keys()]);
      },
    ],
    [
      "a program without entry",
      () => {
        pod.protect({ addresses: [] });
        using links = openMap("pod_links");
        links.delete(index());
      },
    ],
    [
      "an address without entry",
      () => {
        using addresses = openMap("container_addresses");
        addresses.set(encodeContainerAddress(containerKey("c1"), POD), index());
      },
    ],
  ];

  test.each(leftovers)("is found and forgotten: %s", (_, leave) => {
    leave();
    expect(guard.linkIndexes()).toEqual([link.index]);
    pod.forget();
    expect(guard.linkIndexes()).toEqual([]);
    expect(holders()).toEqual([]);
    expect(pod.isAttached()).toBe(false);
  });

  test.each(leftovers)("does not keep the next protect() from its work: %s", (_, leave) => {
    leave();
    pod.protect({ addresses: [SECOND] });
    expect(pod.isAttached()).toBe(true);
    expect(pod.judge(packetFrom(SECOND))).toBe("pass");
    expect(pod.judge(packetFrom(OTHER_POD))).toBe("drop");
  });
});

test("a link that got the number of one that is gone is protected as if there had been none", async () => {
  pod.protect({ addresses: [POD, SECOND] });
  await world.node.ip("link", "del", "e0");
  await world.plug({ index: link.index });
  expect(pod.isAttached()).toBe(false);
  pod.protect({ containerId: "c2", addresses: [OTHER_POD] });
  expect(pod.isAttached()).toBe(true);
  expect(pod.judge(packetFrom(POD))).toBe("drop");
  expect(holders()).toEqual([link.index]);
});

test("two processes see the same, and one may forget what the other made", () => {
  using other = pod.open();
  pod.protect();
  expect(other.policyOf(link.index)).toEqual(guard.policyOf(link.index));
  world.enter(() => other.forget(link.index));
  expect(pod.isAttached()).toBe(false);
  expect(guard.linkIndexes()).toEqual([]);
});

test("the links of several containers are told apart", async () => {
  await world.node.ipBatch("link add second type veth peer name second-peer");
  const second = await world.link("second");
  pod.protect();
  pod.protect({ containerId: "c2", addresses: [SECOND] }, second);
  expect(guard.linkIndexes().sort()).toEqual([link.index, second.index].sort());
  pod.forget(second.index);
  expect(pod.judge(packetFrom(POD))).toBe("pass");
  expect(holders()).toEqual([link.index]);
});

test("what is known of a link that went with its namespace is found and forgotten", async () => {
  pod.protect();
  await world.node.ip("link", "del", "e0");
  expect(pod.isAttached()).toBe(false);
  expect(guard.linkIndexes()).toEqual([link.index]);
  pod.forget();
  expect(guard.linkIndexes()).toEqual([]);
});

test("the host-net guard on other links goes on, and each forgets only its own", async () => {
  await world.node.ipBatch("link add uplink type veth peer name uplink-peer");
  const uplink = await world.link("uplink");
  world.enter(() => pod.host.attach(uplink, "tc"));
  pod.protect();
  expect([...world.enter(() => pod.host.attachments()).keys()]).toEqual([uplink.index]);
  pod.forget();
  expect([...world.enter(() => pod.host.attachments()).keys()]).toEqual([uplink.index]);
});

test("the guard is not there before sync has loaded it, and guards nothing new while it puts programs anew", () => {
  const elsewhere = join(world.pinDirectory, "elsewhere");
  expect(WorkloadGuard.openPinned(elsewhere)).toBeUndefined();
  mkdirSync(join(elsewhere, "maps"), { recursive: true });
  expect(WorkloadGuard.openPinned(elsewhere)).toBeUndefined();
  rmSync(join(world.pinDirectory, "programs"), { recursive: true });
  using without = WorkloadGuard.openPinned(world.pinDirectory);
  expect(without?.canProtect).toBe(false);
  expect(() => world.enter(() => without?.protect(pod.link, { ...pod.policy, containerId: "late" }))).toThrow(
    'Cannot guard a link: the program "guard_workload" is not pinned',
  );
  expect(without?.policyOf(pod.link.index)).toBeUndefined();
});

describe("with real frames", () => {
  // The neighbour's stack would send packets of its own.
  beforeEach(async () => {
    await world.neighbour.run({ file: "sysctl", args: ["-w", "net.ipv6.conf.e1.disable_ipv6=1"] });
  });

  const arpFrame = frame(eth("ff:ff:ff:ff:ff:ff"), arp(POD, "169.254.1.1"));
  const reasons = () =>
    Object.fromEntries(Object.entries(pod.drops()).map(([name, { packets }]) => [name, Number(packets)]));

  const dropped = () => Object.values(pod.drops()).reduce((sum, { packets }) => sum + Number(packets), 0);

  /** The link drops the last frame at least: until then all before it were judged, as they come in order. */
  async function sendUntilDropped(count: number, ...frames: readonly Buffer[]): Promise<void> {
    await world.send(...frames);
    await waitFor(() => dropped() >= count, { what: `${count} frames dropped`, timeoutMs: 5000 });
  }

  test("frames in a VLAN are dropped, those with a priority alone are judged as they are", async () => {
    pod.protect();
    await sendUntilDropped(
      4,
      frame(eth(NODE_MAC), vlan(7), ipv4(POD, NODE), udp(1, 2), data(20)),
      frame(eth(NODE_MAC), vlan(0), ipv4(OTHER_POD, NODE), udp(1, 2), data(20)),
      frame(eth(NODE_MAC), vlan(0), vlan(0), ipv4(POD, NODE), udp(1, 2), data(20)),
      frame(eth(NODE_MAC), vlan(0), ipv4(POD, NODE, { protocol: 4 }), data(40)),
    );
    expect(reasons()).toEqual({ "other-ethertype": 2, "spoofed-source": 1, ipip: 1 });
  });

  test("ARP with a priority tag is judged as without, in a VLAN it is dropped", async () => {
    pod.protect();
    await sendUntilDropped(
      3,
      frame(eth(NODE_MAC), vlan(0), arp(POD, NODE)),
      frame(eth(NODE_MAC), vlan(0), arp(OTHER_POD, NODE)),
      frame(eth(NODE_MAC), vlan(0), arp(POD, NODE)).subarray(0, -1),
      frame(eth(NODE_MAC), vlan(7), arp(POD, NODE)),
    );
    expect(reasons()).toEqual({ "spoofed-arp": 1, malformed: 1, "other-ethertype": 1 });
  });

  describe("headers that the pod's socket put into page fragments", () => {
    const padding = data(4200, 0); // more than a page: the kernel keeps a smaller frame in one piece
    const linear = { first: 14, last: 14 + 28 }; // from the Ethernet header alone to all of ARP
    const each = linear.last - linear.first + 1;

    beforeEach(async () => {
      await world.node.ip("link", "set", "e0", "mtu", "9000");
      await world.neighbour.ip("link", "set", "e1", "mtu", "9000");
    });

    test("are judged as all others", async () => {
      pod.protect();
      await world.receiveInFragments(
        "e0",
        linear,
        frame(eth(NODE_MAC), arp(POD, NODE), padding),
        frame(eth(NODE_MAC), arp(OTHER_POD, NODE), padding),
        frame(eth(NODE_MAC), ipv4(POD, NODE), udp(1, 2), padding),
        frame(eth(NODE_MAC), ipv4(POD, "127.0.0.1"), udp(1, 2), padding),
        frame(eth(NODE_MAC), ipv4(POD, NODE, { protocol: 4 }), padding),
        frame(eth(NODE_MAC), ipv4(OTHER_POD, NODE), udp(1, 2), padding),
      );
      await waitFor(() => dropped() >= 4 * each, { what: "four kinds of frames dropped", timeoutMs: 5000 });
      expect(reasons()).toEqual({ "spoofed-arp": each, loopback: each, ipip: each, "spoofed-source": each });
    });

    test("are judged as all others where the pod may send protocol 4", async () => {
      pod.protect({ allowIpip: true });
      const inner = [ipv4(OTHER_POD, POD), udp(1, 2), padding] as const;
      await world.receiveInFragments(
        "e0",
        linear,
        frame(eth(NODE_MAC), ipv4(POD, "10.0.0.99"), ...inner),
        frame(eth(NODE_MAC), vlan(0), ipv4(POD, "10.0.0.99", { optionBytes: 40 }), ...inner),
        frame(eth(NODE_MAC), ipv4(POD, NODE), ...inner),
        frame(eth(NODE_MAC), ipv4(OTHER_POD, NODE), ...inner),
      );
      await waitFor(() => dropped() >= each, { what: "the last kind of frames dropped", timeoutMs: 5000 });
      expect(world.verdicts()).toEqual({ transit: 2 * each, "not-member": each });
      expect(reasons()).toEqual({ "spoofed-source": each });
    });
  });

  test("200 invented senders of ARP do not get into the host's neighbour table, with the check off they would", async () => {
    const neighbours = async (): Promise<string[]> => {
      const entries: readonly { readonly dst: string }[] = await world.node.ipJson("-4", "neigh", "show", "dev", "e0");
      return entries.map(({ dst }) => dst);
    };
    const asking = (...senders: readonly string[]) => senders.map((sender) => frame(eth(NODE_MAC), arp(sender, NODE)));
    await world.node.ip("route", "add", "10.100.9.0/24", "dev", "e0");
    await world.send(...asking("10.100.9.1", "10.100.9.2"));
    const both = async () => (await neighbours()).length === 2;
    await waitFor(both, { what: "two unchecked senders in the table", timeoutMs: 5000 });

    await world.node.ip("neigh", "flush", "dev", "e0");
    pod.protect();
    const invented = Array.from({ length: 200 }, (_, index) => `10.100.9.${index < 190 ? index + 1 : index + 5}`);
    await world.send(...asking(...invented, POD));
    const own = async () => (await neighbours()).includes(POD);
    await waitFor(own, { what: "the pod's own address in the table", timeoutMs: 5000 });
    expect(await neighbours()).toEqual([POD]);
    expect(reasons()).toEqual({ "spoofed-arp": 200 });
  });

  test("a frame to 127.0.0.1 does not reach the host's socket where route_localnet is on", async () => {
    await world.node.run({ file: "sysctl", args: ["-w", "net.ipv4.conf.e0.route_localnet=1"] });
    const heard = await listenToUdp();
    const to = (address: string, text: string) =>
      frame(eth(NODE_MAC), ipv4(POD, address), udp(40000, 9999), { build: () => Buffer.from(text) });
    const isHeard = (text: string) =>
      waitFor(() => heard().includes(text), { what: `"${text}" heard`, timeoutMs: 5000 });

    await world.node.ip("route", "add", `${POD}/32`, "dev", "e0");
    await world.send(to("127.0.0.1", "unchecked"));
    await isHeard("unchecked");
    pod.protect();
    await world.send(to("127.0.0.1", "to loopback"), to("127.9.9.9", "to loopback too"), to(NODE, "to the host"));
    await isHeard("to the host");
    expect(heard()).toEqual(["unchecked", "to the host"]);
    expect(reasons()).toEqual({ loopback: 2 });
  });

  test("frames that end inside the IPv4 header are dropped", async () => {
    pod.protect();
    const whole = packetFrom(POD);
    await sendUntilDropped(3, ...[15, 20, 33].map((length) => whole.subarray(0, length)));
    expect(reasons()).toEqual({ malformed: 3 });
  });

  test("nothing reaches tunl0's handler, with the check off it would", async () => {
    const heard = await world.listen();
    const forged = frame(eth(NODE_MAC), ipv4(POD, NODE), ipv4(POD, OTHER_POD), udp(1, 2), data(8));
    await world.send(forged);
    await waitFor(() => heard().length === 1, { what: "an unchecked IPIP packet heard", timeoutMs: 5000 });
    pod.protect();
    await sendUntilDropped(2, forged, forged);
    expect(reasons()).toEqual({ ipip: 2 });
    expect(heard()).toEqual([POD]);
  });

  test("somebody else's program runs behind the guard, for what passes", async () => {
    pod.protect({ allowIpv6: true });
    using foreign = BpfObject.open(await compileForeign(), { name: "foreign" });
    foreign.load();
    world.enter(() => attachClsact(foreign.program("foreign_tc"), link.index, { priority: 7, handle: 7 }));
    const ipv6Frame = frame(eth(NODE_MAC), ipv6(58), data(40));
    const before = decodeUint32(foreign.map("seen").get(encodeUint32(0)) ?? new Uint8Array(4));
    await sendUntilDropped(2, packetFrom(MEMBER), packetFrom(POD), ipv6Frame, arpFrame, packetFrom(OTHER_POD));
    const seen = decodeUint32(foreign.map("seen").get(encodeUint32(0)) ?? new Uint8Array(4));
    expect(seen - before).toBe(3);
    expect(reasons()).toEqual({ "spoofed-source": 2 });
  });
});

test("upgrade() puts the pinned program in the place of another version, and keeps the entries", () => {
  pod.protect();
  attachOther();
  using pinned = BpfProgram.openPinned(join(world.pinDirectory, "programs/guard_workload"));
  expect(attachedProgram()).not.toBe(pinned.id);
  world.enter(() => guard.upgrade());
  expect(attachedProgram()).toBe(pinned.id);
  expect(guard.policyOf(link.index)?.addresses).toEqual([POD]);
});

test("upgrade() is content with a link that is gone, and goes on to the others", async () => {
  await world.node.ipBatch("link add second type veth peer name second-peer");
  pod.protect({ containerId: "c2", addresses: [SECOND] }, await world.link("second"));
  pod.protect();
  attachOther();
  await world.node.ip("link", "del", "second");
  world.enter(() => guard.upgrade());
  using pinned = BpfProgram.openPinned(join(world.pinDirectory, "programs/guard_workload"));
  expect(attachedProgram()).toBe(pinned.id);
});

/** @returns what the host hears on port 9999, on whatever address, from now on; it ends with the test */
async function listenToUdp(): Promise<() => string[]> {
  const script = `
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("0.0.0.0", 9999))
print("ready", flush=True)
while True:
    print(receiver.recv(100).decode(), flush=True)
`;
  let output = "";
  listener = world.node.start({
    file: "python3",
    args: ["-c", script],
    onOutput: (text) => {
      output += text;
    },
  });
  await waitFor(() => output.includes("ready"), { what: "a UDP socket on the host", timeoutMs: 60_000 });
  return () => output.split("\n").filter((line) => line !== "" && line !== "ready");
}

/** As an earlier version of the guard would have left it. */
function attachOther(): void {
  using other = BpfProgram.openPinned(join(world.pinDirectory, "programs/guard_tc_ethernet"));
  using attachment = BpfLink.openPinned(join(world.pinDirectory, "pod-links", `tcx-${link.index}`));
  attachment.update(other);
}
