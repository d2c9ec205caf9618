import { readFileSync } from "node:fs";
import { afterEach, expect, test } from "@jest/globals";
import { BpfObject } from "libbpf-ts";
import { assetPath } from "../../../src/assets.ts";
import { encodeAddress, encodeCidr, present } from "../../../src/guard/layout.ts";
import { MapSet } from "../../../src/guard/map-set.ts";
import { HostNetSet } from "../../../src/ipset/host-net-set.ts";

const objects: BpfObject[] = [];

function load(limits: { hosts?: number; cidrs?: number } = {}): BpfObject {
  const object = BpfObject.open(readFileSync(assetPath("bpf/host_net_guard.bpf.o")), { name: "host_net_guard" });
  objects.push(object);
  object.map("members_exact").setMaxEntries(limits.hosts ?? 1000);
  object.map("members_cidr").setMaxEntries(limits.cidrs ?? 1000);
  object.load();
  return object;
}

function setOf(object: BpfObject): HostNetSet {
  return new HostNetSet({ exact: object.map("members_exact"), cidr: object.map("members_cidr") });
}

afterEach(() => {
  for (const object of objects.splice(0)) {
    object.close();
  }
});

test("replace() makes the maps hold exactly the members", () => {
  const set = setOf(load());
  expect(set.replace({ hosts: ["10.0.0.2", "10.0.0.3"], cidrs: ["198.51.100.0/24"] })).toEqual({
    added: 3,
    removed: 0,
  });
  expect(set.replace({ hosts: ["10.0.0.3", "10.0.0.4"], cidrs: [] })).toEqual({ added: 1, removed: 2 });
  expect(set.list()).toEqual({ hosts: ["10.0.0.3", "10.0.0.4"], cidrs: [] });
});

test("replace() with the same members changes nothing", () => {
  const set = setOf(load());
  const members = { hosts: ["10.0.0.2"], cidrs: ["198.51.100.0/24", "198.51.0.0/16"] };
  set.replace(members);
  expect(set.replace(members)).toEqual({ added: 0, removed: 0 });
  expect(set.list()).toEqual({ hosts: ["10.0.0.2"], cidrs: ["198.51.0.0/16", "198.51.100.0/24"] });
});

test("replace() compares with what an earlier process left in the maps", () => {
  const object = load();
  object.map("members_exact").setBatch(["10.0.0.2", "10.0.0.66"].map((host) => [encodeAddress(host), present]));
  object.map("members_cidr").set(encodeCidr("192.0.2.0/24"), present);
  const set = setOf(object);
  expect(set.replace({ hosts: ["10.0.0.2", "10.0.0.3"], cidrs: [] })).toEqual({ added: 1, removed: 2 });
  expect(set.list()).toEqual({ hosts: ["10.0.0.2", "10.0.0.3"], cidrs: [] });
});

test.each([
  [
    "hosts",
    { hosts: ["10.0.0.3", "10.0.0.4", "10.0.0.5"], cidrs: [] },
    "Cannot hold 3 single addresses of nodes: the limit is 2",
  ],
  [
    "cidrs",
    { hosts: ["10.0.0.3"], cidrs: ["10.1.0.0/16", "10.2.0.0/16"] },
    "Cannot hold 2 CIDRs of nodes: the limit is 1",
  ],
])("replace() with too many %s names the limit and leaves the old members in force", (_, members, sentence) => {
  const set = setOf(load({ hosts: 2, cidrs: 1 }));
  const old = { hosts: ["10.0.0.2"], cidrs: ["192.0.2.0/24"] };
  set.replace(old);
  expect(() => set.replace(members)).toThrow(new RangeError(sentence));
  expect(set.list()).toEqual(old);
});

test("replace() exchanges all members of a full map", () => {
  const set = setOf(load({ hosts: 3, cidrs: 1 }));
  set.replace({ hosts: ["10.0.0.2", "10.0.0.3", "10.0.0.4"], cidrs: ["192.0.2.0/24"] });
  const members = { hosts: ["10.0.1.2", "10.0.1.3", "10.0.1.4"], cidrs: ["198.51.100.0/24"] };
  expect(set.replace(members)).toEqual({ added: 4, removed: 4 });
  expect(set.list()).toEqual(members);
});

test("a plan has added before anything is removed", () => {
  const object = load();
  const set = new MapSet(object.map("members_exact"), encodeAddress, "addresses");
  set.replace(["10.0.0.2"]);
  const plan = set.plan(["10.0.0.3"]);
  plan.add();
  expect(set.keys()).toHaveLength(2);
  plan.remove();
  expect(set.keys()).toEqual([encodeAddress("10.0.0.3")].map((key) => Uint8Array.from(key)));
});

test("replace() reads the maps again after the kernel has refused a change", () => {
  const object = load({ hosts: 2 });
  const set = setOf(object);
  set.replace({ hosts: ["10.0.0.2"], cidrs: [] });
  // Another writer, which there should not be, takes the room that the set believes to be free.
  object.map("members_exact").set(encodeAddress("10.0.0.66"), present);
  const members = { hosts: ["10.0.0.2", "10.0.0.3"], cidrs: [] };
  expect(() => set.replace(members)).toThrow("the map holds at most 2 entries");
  expect(set.replace(members)).toEqual({ added: 1, removed: 1 });
  expect(set.list()).toEqual(members);
});

test("replace() takes 100,000 hosts and 10,000 CIDRs", () => {
  const set = setOf(load({ hosts: 131072, cidrs: 16384 }));
  const hosts = Array.from({ length: 100_000 }, (_, n) => `10.${n >>> 16}.${(n >>> 8) & 255}.${n & 255}`);
  const cidrs = Array.from({ length: 10_000 }, (_, n) => `172.${n >>> 8}.${n & 255}.0/24`);
  expect(set.replace({ hosts, cidrs })).toEqual({ added: 110_000, removed: 0 });
  expect(set.replace({ hosts: hosts.slice(100), cidrs })).toEqual({ added: 0, removed: 100 });
  expect(set.list().hosts).toHaveLength(99_900);
});
