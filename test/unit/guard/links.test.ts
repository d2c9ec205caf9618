import { expect, test } from "@jest/globals";
import { shouldGuard } from "../../../src/guard/links.ts";
import type { Link } from "../../../src/netlink/link.ts";

const arphrd = { ether: 1, none: 0xfffe, loopback: 772, tunnel: 768, ipgre: 778 };

function link(name: string, changes: Partial<Link> = {}): Link {
  return { index: 7, name, type: arphrd.ether, mtu: 1500, up: true, isLoopback: false, ...changes };
}

function withMaster(kind: string): { slave: Link; links: Link[] } {
  const slave = link("eth0", { masterIndex: 20 });
  return { slave, links: [slave, link("master0", { index: 20, kind })] };
}

test.each([
  ["a physical link", link("eth0")],
  ["a link that is down", link("eth0", { up: false })],
  ["a VLAN", link("eth0.100", { kind: "vlan" })],
  ["a macvlan", link("mac0", { kind: "macvlan" })],
  ["a bridge", link("docker0", { kind: "bridge" })],
  ["a bond", link("bond0", { kind: "bond" })],
  ["a VRF", link("blue", { kind: "vrf" })],
  ["a vxlan", link("vxlan0", { kind: "vxlan" })],
  ["a wireguard link", link("wg0", { kind: "wireguard", type: arphrd.none })],
  ["a tun link", link("tun0", { kind: "tun", type: arphrd.none })],
  ["a gre link", link("gre1", { kind: "gre", type: arphrd.ipgre })],
  ["another network's veth", link("veth1234", { kind: "veth" })],
  ["a link that only has a pod link's name", link("cali1234567890a", { kind: "vlan" })],
])("%s is guarded", (_, guarded) => {
  expect(shouldGuard(guarded, [guarded])).toBe(true);
});

test.each([
  ["the loopback link", link("lo", { isLoopback: true, type: arphrd.loopback })],
  ["a pod's link", link("cali1234567890a", { kind: "veth" })],
  ["tunl0", link("tunl0", { kind: "ipip", type: arphrd.tunnel })],
  ["another ipip link", link("to-office", { kind: "ipip", type: arphrd.tunnel })],
])("%s is not guarded", (_, unguarded) => {
  expect(shouldGuard(unguarded, [unguarded])).toBe(false);
});

test.each(["bridge", "bond", "team", "openvswitch"])("a slave of a %s is left to its master", (kind) => {
  const { slave, links } = withMaster(kind);
  expect(shouldGuard(slave, links)).toBe(false);
});

test("a slave of a VRF is guarded itself", () => {
  const { slave, links } = withMaster("vrf");
  expect(shouldGuard(slave, links)).toBe(true);
});

test("a link whose master is not listed is guarded", () => {
  const { slave } = withMaster("bridge");
  expect(shouldGuard(slave, [slave])).toBe(true);
});
