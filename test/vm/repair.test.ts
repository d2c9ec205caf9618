/** What disturbs tunl0 or our routes is put right by the event that tells of it. */
import { afterAll, beforeAll, expect, jest, test } from "@jest/globals";
import { NetworkNamespace } from "../../src/linux/namespace.ts";
import { Netlink } from "../../src/netlink/netlink.ts";
import { mainTable, ownProtocol, type Route } from "../../src/netlink/route.ts";
import { Lab, NODE1, NODE2 } from "../lib/lab.ts";
import { waitFor } from "../lib/wait.ts";

// An emulated machine starts a program in a tenth of a second and Node.js in three.
jest.setTimeout(90_000);

/** Where code runs at its own speed; who runs these tests in an emulated machine gives another limit. */
const repairLimitMs = Number(process.env.CNI_IPIP_REPAIR_LIMIT_MS ?? 100);

let lab: Lab;
let namespace: NetworkNamespace;
/** Disturbs and looks without starting a program, which alone would take as long as a repair. */
let netlink: Netlink;

beforeAll(async () => {
  lab = await Lab.build();
  namespace = await NetworkNamespace.open(lab.node1.namespace.path);
  netlink = namespace.enter(() => Netlink.open());
  lab.node1.startSync();
  await waitFor(() => lab.node1.log.includes("ready for pods"), {
    what: `node1 ready: ${lab.node1.log}`,
    timeoutMs: 90_000,
  });
}, 120_000);

afterAll(async () => {
  netlink?.close();
  await namespace?.close();
  await lab?.remove();
}, 60_000);

async function tunnel(): Promise<{ index: number; up: boolean; mtu: number; addresses: string[] } | undefined> {
  const link = await netlink.linkByName("tunl0");
  const addresses = (await netlink.addresses()).filter(({ linkIndex }) => linkIndex === link?.index);
  return link && { index: link.index, up: link.up, mtu: link.mtu, addresses: addresses.map(({ address }) => address) };
}

async function ownRoutes(): Promise<Route[]> {
  return (await netlink.routes()).filter(({ protocol, table }) => protocol === ownProtocol && table === mainTable);
}

/** Everything sync keeps. */
async function state(): Promise<string> {
  return JSON.stringify([await tunnel(), await ownRoutes()]);
}

async function tunnelIndex(): Promise<number> {
  const found = await tunnel();
  if (!found) {
    throw new Error('Cannot find the link "tunl0"');
  }
  return found.index;
}

async function routeTo(destination: string): Promise<Route> {
  const route = (await netlink.routes()).find((each) => each.destination === destination);
  if (!route) {
    throw new Error(`Cannot find the route to ${destination}`);
  }
  return route;
}

/** Disturbs, and measures until everything is as it was. */
async function repairTime(disturb: () => Promise<void>): Promise<number> {
  const right = await state();
  await disturb();
  const isRight = async () => (await state()) === right;
  return (await waitFor(isRight, { what: `the repaired state ${right}`, timeoutMs: 10_000 })).elapsedMs;
}

async function rename(name: string): Promise<void> {
  const index = await tunnelIndex();
  await netlink.setLink(index, { up: false });
  await netlink.setLink(index, { name });
}

const disturbances: [string, () => Promise<void>][] = [
  ["set down", async () => netlink.setLink(await tunnelIndex(), { up: false })],
  ["given another address", async () => netlink.addAddress(await tunnelIndex(), "10.9.9.9", 32)],
  [
    "robbed of its address",
    async () => netlink.removeAddress({ linkIndex: await tunnelIndex(), address: "10.100.15.128", prefixLength: 32 }),
  ],
  [
    "given an address with a peer",
    async () => lab.node1.namespace.ipBatch("address add 10.9.9.9 peer 10.9.9.8/32 dev tunl0"),
  ],
  ["given another MTU", async () => netlink.setLink(await tunnelIndex(), { mtu: 1400 })],
  ["renamed", async () => rename("foo")],
  ["renamed like a pod's link", async () => rename("cali0")],
  ["robbed of a route", async () => netlink.removeRoute(await routeTo(NODE2.block))],
  ["robbed of its blackhole", async () => netlink.removeRoute(await routeTo(NODE1.block))],
  [
    "given a foreign route with several next hops to a wanted block",
    async () => {
      const hops = ["nexthop", "via", "172.31.112.8", "dev", "eth0", "nexthop", "via", "172.31.112.9", "dev", "eth0"];
      await lab.node1.namespace.ip("route", "replace", NODE2.block, ...hops);
    },
  ],
  [
    "given a foreign route to a wanted block",
    async () => {
      const eth0 = await netlink.linkByName("eth0");
      const { gateway: _, mtu: __, ...route } = await routeTo(NODE2.block);
      await netlink.replaceRoute({ ...route, linkIndex: eth0?.index ?? 0, onlink: false, scope: "link", protocol: 3 });
    },
  ],
];

test.each(disturbances)("tunl0 %s is right again at once", async (_, disturb) => {
  expect(await tunnel()).toMatchObject({ up: true, mtu: 1480, addresses: ["10.100.15.128"] });
  expect(await ownRoutes()).toHaveLength(2);
  expect(await repairTime(disturb)).toBeLessThan(repairLimitMs);
});

test("foreign routes elsewhere, also on tunl0, stay", async () => {
  await lab.node1.namespace.ip("route", "add", "192.0.2.0/24", "dev", "tunl0");
  await repairTime(async () => netlink.removeRoute(await routeTo(NODE2.block)));
  expect(await lab.node1.namespace.ipJson("route", "show", "192.0.2.0/24")).toHaveLength(1);
  await lab.node1.namespace.ip("route", "delete", "192.0.2.0/24");
});

test("an MTU of the node's link that changes is followed", async () => {
  const eth0 = await netlink.linkByName("eth0");
  const before = await state();
  await netlink.setLink(eth0?.index ?? 0, { mtu: 1400 });
  await waitFor(async () => (await tunnel())?.mtu === 1380, { what: "MTU 1380 on tunl0", timeoutMs: 10_000 });
  await waitFor(async () => (await routeTo(NODE2.block)).mtu === 1380, { what: "a route with it", timeoutMs: 10_000 });
  await netlink.setLink(eth0?.index ?? 0, { mtu: 1500 });
  await waitFor(async () => (await state()) === before, { what: "everything as before", timeoutMs: 10_000 });
});

test("documents that are wrong or contradict others change nothing and are named", async () => {
  const before = await state();
  const wrong: [string, unknown, string][] = [
    ["pools/other.json", { name: "other", cidr: "10.100.0.0/17" }, "pool/other"],
    ["nodes/inside.json", { name: "inside", address: "10.100.9.1/24" }, "node/inside"],
    ["nodes/double.json", { name: "double", address: NODE2.address }, "node/double"],
    ["blocks/10.200.0.0-26.json", { cidr: "10.200.0.0/26", node: "node2" }, "block/10.200.0.0-26"],
    ["nodes/node2.json", { name: "node2", address: "somewhere" }, "node/node2"],
    ["cluster.json", { kind: "ClusterSettings", externalNodesCidr: [] }, "settings/cluster"],
  ];
  for (const [file, document, object] of wrong) {
    await lab.datastore.write(file, document);
    const isNamed = () => lab.node1.log.includes(`"object":"${object}"`);
    await waitFor(isNamed, { what: `a condition of ${object}`, timeoutMs: 20_000 });
  }
  // What comes after is still obeyed, and by then everything before has been looked at.
  await lab.datastore.writeNode({ name: "node3", address: "172.31.112.7/20" });
  await lab.datastore.writeBlock({ cidr: "10.100.20.0/26", node: "node3" });
  const isThere = async () => (await ownRoutes()).some(({ gateway }) => gateway === "172.31.112.7");
  await waitFor(isThere, { what: "the route to a node that came later", timeoutMs: 20_000 });
  await lab.datastore.removeBlock("10.100.20.0/26");
  await waitFor(async () => (await state()) === before, { what: `the state as before: ${before}`, timeoutMs: 20_000 });
});
