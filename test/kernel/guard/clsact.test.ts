/** The hook of kernels before 6.6, which this kernel has as well. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { attachClsact, BpfObject, BpfProgram, queryClsact } from "libbpf-ts";
import { assetPath } from "../../../src/assets.ts";
import { Attachments } from "../../../src/guard/attachments.ts";
import { type HostNetPinned, openHostNetPinned } from "../../../src/guard/guard.ts";
import { closePinned, takeOver } from "../../../src/guard/pins.ts";
import { data, eth, frame, ipv4 } from "../../lib/packets.ts";
import { compileForeign, compileOtherGuard } from "./compile.ts";
import { type GuardedLink, GuardedNode, image, NODE, NODE_MAC, STRANGER } from "./guarded-node.ts";

const workloadImage = readFileSync(assetPath("bpf/workload_guard.bpf.o"));

let world: GuardedNode;
let link: GuardedLink;
let attachments: Attachments;
let pinned: HostNetPinned;

beforeEach(async () => {
  world = await GuardedNode.create();
  link = await world.link();
  pinned = takeOverHostNet(image);
  attachments = new Attachments(join(world.pinDirectory, "links"), "guard_tc_");
});

afterEach(() => {
  closePinned(pinned);
  return world.remove();
});

const place = { priority: 1, handle: 1 };
const stranger = frame(
  eth(NODE_MAC),
  ipv4(STRANGER, NODE),
  ipv4("10.100.9.193", "10.100.15.129", { protocol: 17 }),
  data(8),
);

function attach(program: BpfProgram): void {
  world.enter(() => attachments.attach("clsact", link, program));
}

function attachedId(): number | undefined {
  return world.enter(() => queryClsact(link.index, place))?.programId;
}

function list(): Map<number, string[]> {
  return world.enter(() => attachments.list());
}

function takeOverHostNet(object: Uint8Array): HostNetPinned {
  takeOver(world.pinDirectory, [object]);
  return openHostNetPinned(world.pinDirectory);
}

test("a filter drops a stranger's packet", async () => {
  attach(pinned.programs.guard_tc_ethernet);
  await world.send(stranger);
  expect(await world.verdictsOf(1)).toEqual({ "not-member": 1 });
});

test("attach() twice leaves one filter, known by the link's number", () => {
  attach(pinned.programs.guard_tc_ethernet);
  attach(pinned.programs.guard_tc_ethernet);
  expect(attachedId()).toBe(pinned.programs.guard_tc_ethernet.id);
  expect(list()).toEqual(new Map([[link.index, ["clsact"]]]));
});

test("attach() puts another version in the place of the filter", async () => {
  attach(pinned.programs.guard_tc_ethernet);
  const other = takeOverHostNet(await compileOtherGuard());
  attach(other.programs.guard_tc_ethernet);
  expect(attachedId()).toBe(other.programs.guard_tc_ethernet.id);
  expect(attachedId()).not.toBe(pinned.programs.guard_tc_ethernet.id);
  closePinned(other);
});

test("attach() takes over a filter of the guard whose pins are lost", () => {
  using lost = BpfObject.open(image, { name: "host_net_guard" });
  lost.load();
  world.enter(() => attachClsact(lost.program("guard_tc_ethernet"), link.index, place));
  expect(list()).toEqual(new Map());
  attach(pinned.programs.guard_tc_ethernet);
  expect(attachedId()).toBe(pinned.programs.guard_tc_ethernet.id);
  expect(list()).toEqual(new Map([[link.index, ["clsact"]]]));
});

test("attach() refuses to take the place of somebody else's filter", async () => {
  using foreign = BpfObject.open(await compileForeign(), { name: "foreign" });
  foreign.load();
  const theirs = foreign.program("foreign_tc");
  world.enter(() => attachClsact(theirs, link.index, place));
  expect(() => attach(pinned.programs.guard_tc_ethernet)).toThrow(
    'Cannot attach the guard to "e0" by clsact: priority 1 is taken by program "foreign_tc"',
  );
  world.enter(() => attachments.detach("clsact", link.index));
  expect(attachedId()).toBe(theirs.id);
});

test("the workload guard's filter is not the host-net guard's, and neither takes the other's place", () => {
  takeOver(world.pinDirectory, [image, workloadImage]);
  using theirs = BpfProgram.openPinned(join(world.pinDirectory, "programs/guard_workload"));
  const workloads = new Attachments(join(world.pinDirectory, "pod-links"), "guard_workload");
  // The note of an earlier link of this number.
  pinned.programs.guard_tc_ethernet.pin(join(world.pinDirectory, "links", `clsact-${link.index}`));
  world.enter(() => workloads.attach("clsact", link, theirs));

  expect(list()).toEqual(new Map());
  expect(() => attach(pinned.programs.guard_tc_ethernet)).toThrow('is taken by program "guard_workload"');
  world.enter(() => attachments.detach("clsact", link.index));
  expect(attachedId()).toBe(theirs.id);

  world.enter(() => workloads.detach("clsact", link.index));
  attach(pinned.programs.guard_tc_ethernet);
  expect(() => world.enter(() => workloads.attach("clsact", link, theirs))).toThrow('is taken by program "guard_tc_');
  world.enter(() => workloads.detach("clsact", link.index));
  expect(attachedId()).toBe(pinned.programs.guard_tc_ethernet.id);
});

test("list() forgets a filter that somebody removed with its qdisc", async () => {
  attach(pinned.programs.guard_tc_ethernet);
  await world.node.run({ file: "tc", args: ["qdisc", "del", "dev", "e0", "clsact"] });
  expect(list()).toEqual(new Map());
  attach(pinned.programs.guard_tc_ethernet);
  expect(list()).toEqual(new Map([[link.index, ["clsact"]]]));
});

test("list() forgets a link that is gone, also when another one has its number", async () => {
  attach(pinned.programs.guard_tc_ethernet);
  await world.node.ipBatch("link delete e0");
  await world.plug({ index: link.index });
  expect(list()).toEqual(new Map());
});

test("list() is content with a link that is gone", async () => {
  attach(pinned.programs.guard_tc_ethernet);
  await world.node.ipBatch("link delete e0");
  expect(list()).toEqual(new Map());
});

test("detach() removes the filter, and is content when there is none", () => {
  attach(pinned.programs.guard_tc_ethernet);
  for (const _ of [1, 2]) {
    world.enter(() => attachments.detach("clsact", link.index));
    expect(attachedId()).toBeUndefined();
    expect(list()).toEqual(new Map());
  }
});
