import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { run } from "../../../src/exec.ts";
import { NetworkNamespace } from "../../../src/linux/namespace.ts";
import { type Monitor, monitor, type NetlinkEvent } from "../../../src/netlink/monitor.ts";
import { Netlink } from "../../../src/netlink/netlink.ts";
import { mainTable, ownProtocol, type Route } from "../../../src/netlink/route.ts";
import { waitFor } from "../../lib/wait.ts";

const home = `netlink-home-${process.pid}`;
const away = `netlink-away-${process.pid}`;
let homeNamespace: NetworkNamespace;
let awayNamespace: NetworkNamespace;
let netlink: Netlink;
let watch: Monitor | undefined;

beforeEach(async () => {
  for (const name of [home, away]) {
    await run({ file: "ip", args: ["netns", "add", name] });
  }
  homeNamespace = await NetworkNamespace.open(`/run/netns/${home}`);
  awayNamespace = await NetworkNamespace.open(`/run/netns/${away}`);
  netlink = homeNamespace.enter(() => Netlink.open());
});

afterEach(async () => {
  watch?.close();
  netlink.close();
  await homeNamespace.close();
  await awayNamespace.close();
  for (const name of [home, away]) {
    await run({ file: "ip", args: ["netns", "del", name] });
  }
});

async function ip(...args: string[]): Promise<unknown> {
  const { stdout } = await run({ file: "ip", args: ["-n", home, "-d", "-j", ...args] });
  return JSON.parse(stdout || "[]");
}

/** A veth pair with both ends up: not every kernel has dummy links. */
async function connected(address: string): Promise<number> {
  const peer = { name: "peer", mtu: 1500, namespaceFd: awayNamespace.fd };
  await netlink.createVeth({ name: "d0", mac: "ee:ee:ee:ee:ee:ee", mtu: 1500, peer });
  await run({ file: "ip", args: ["-n", away, "link", "set", "peer", "up"] });
  const link = await netlink.linkByName("d0");
  await netlink.setLink(link?.index ?? 0, { up: true });
  const [host = "", prefixLength] = address.split("/");
  await netlink.addAddress(link?.index ?? 0, host, Number(prefixLength));
  return link?.index ?? 0;
}

const route = (fields: Partial<Route>): Route => ({
  destination: "10.9.0.0/24",
  type: "unicast",
  scope: "universe",
  protocol: ownProtocol,
  table: mainTable,
  metric: 0,
  onlink: false,
  ...fields,
});

test("createVeth() makes both ends at once, the peer in the other namespace", async () => {
  await netlink.createVeth({
    name: "cali01234567890",
    mac: "ee:ee:ee:ee:ee:ee",
    mtu: 1400,
    peer: { name: "eth0", mtu: 1390, namespaceFd: awayNamespace.fd },
  });
  expect(await netlink.linkByName("cali01234567890")).toMatchObject({
    kind: "veth",
    mac: "ee:ee:ee:ee:ee:ee",
    mtu: 1400,
    up: false,
    type: 1,
  });
  const there = awayNamespace.enter(() => Netlink.open());
  expect(await there.linkByName("eth0")).toMatchObject({ kind: "veth", mtu: 1390 });
  there.close();
});

test("setLink() changes name, MTU, alias and state", async () => {
  const index = await connected("192.0.2.1/24");
  await netlink.setLink(index, { up: false });
  await netlink.setLink(index, { name: "renamed", mtu: 1300, alias: "cni-ipip:abc/eth0" });
  expect(await netlink.linkByName("d0")).toBeUndefined();
  expect(await netlink.linkByName("renamed")).toMatchObject({
    index,
    mtu: 1300,
    alias: "cni-ipip:abc/eth0",
    up: false,
    kind: "veth",
  });
});

test("addresses() and routes() read what ip(8) made", async () => {
  const index = await connected("192.0.2.1/24");
  await ip("route", "add", "10.1.0.0/16", "via", "203.0.113.9", "dev", "d0", "onlink", "proto", "80", "mtu", "1380");
  await ip("route", "add", "blackhole", "10.2.0.0/26", "proto", "80");
  expect(await netlink.addresses()).toEqual([{ linkIndex: index, address: "192.0.2.1", prefixLength: 24, scope: 0 }]);
  const ours = (await netlink.routes()).filter(({ protocol }) => protocol === ownProtocol);
  expect(ours).toEqual([
    route({ destination: "10.1.0.0/16", gateway: "203.0.113.9", linkIndex: index, onlink: true, mtu: 1380 }),
    route({ destination: "10.2.0.0/26", type: "blackhole" }),
  ]);
});

test("removeAddress() removes each address that addresses() lists, also one with a peer", async () => {
  const index = await connected("192.0.2.1/24");
  await ip("address", "add", "192.0.2.1/32", "dev", "d0");
  await ip("address", "add", "10.8.0.1", "peer", "10.8.0.2/32", "dev", "d0");
  const addresses = await netlink.addresses();
  expect(addresses).toContainEqual({
    linkIndex: index,
    address: "10.8.0.1",
    prefixLength: 32,
    peer: "10.8.0.2",
    scope: 0,
  });
  for (const address of addresses) {
    await netlink.removeAddress(address);
  }
  expect(await netlink.addresses()).toEqual([]);
});

test("monitor() tells of a route with several next hops that takes the place of another", async () => {
  const events: NetlinkEvent[] = [];
  watch = homeNamespace.enter(() => monitor((event) => events.push(event)));
  const index = await connected("192.0.2.1/24");
  await netlink.addRoute(route({ linkIndex: index, scope: "link" }));
  const hops = ["nexthop", "via", "192.0.2.8", "dev", "d0", "nexthop", "via", "192.0.2.9", "dev", "d0"];
  await ip("route", "replace", "10.9.0.0/24", ...hops);
  const isReplacement = (event: NetlinkEvent) =>
    event.kind === "route" && event.route.destination === "10.9.0.0/24" && event.route.protocol !== ownProtocol;
  await waitFor(() => events.some(isReplacement), { what: "the replacement", timeoutMs: 5000 });
  expect((await netlink.routes()).find(({ destination }) => destination === "10.9.0.0/24")).toEqual(
    route({ protocol: 3 }),
  );
});

test("replaceRoute() writes routes that ip(8) reads back as they were meant", async () => {
  const index = await connected("192.0.2.1/24");
  await netlink.replaceRoute(route({ gateway: "192.0.2.7", linkIndex: index }));
  await netlink.replaceRoute(route({ gateway: "203.0.113.9", linkIndex: index, onlink: true, mtu: 1380 }));
  await netlink.addRoute(route({ destination: "10.3.0.1/32", linkIndex: index, scope: "link" }));
  expect(await ip("route", "show", "proto", "80")).toMatchObject([
    { dst: "10.3.0.1", dev: "d0", scope: "link" },
    { dst: "10.9.0.0/24", gateway: "203.0.113.9", dev: "d0", flags: ["onlink"], metrics: [{ mtu: 1380 }] },
  ]);
  await netlink.removeRoute(route({ gateway: "203.0.113.9", linkIndex: index }));
  expect(await netlink.routes()).not.toContainEqual(expect.objectContaining({ destination: "10.9.0.0/24" }));
});

test("a refused request says what could not be done and why", async () => {
  const index = await connected("192.0.2.1/24");
  await netlink.addRoute(route({ linkIndex: index, scope: "link" }));
  await expect(netlink.addRoute(route({ linkIndex: index, scope: "link" }))).rejects.toMatchObject({
    name: "NetlinkError",
    code: "EEXIST",
    message: "Cannot add the route 10.9.0.0/24: file already exists",
  });
});

test("setNeighbour() makes a permanent entry", async () => {
  const index = await connected("192.0.2.1/24");
  await netlink.setNeighbour({ linkIndex: index, address: "192.0.2.9", mac: "ee:ee:ee:ee:ee:ee" });
  expect(await ip("neigh")).toMatchObject([{ dst: "192.0.2.9", lladdr: "ee:ee:ee:ee:ee:ee", state: ["PERMANENT"] }]);
});

test("dumps and requests may be asked for at the same time", async () => {
  const index = await connected("192.0.2.1/24");
  const adds = Array.from({ length: 200 }, (_, i) =>
    netlink.addRoute(route({ destination: `10.4.${i}.0/24`, linkIndex: index, scope: "link" })),
  );
  const dumps = Array.from({ length: 5 }, () => netlink.routes());
  await Promise.all(adds);
  await Promise.all(dumps);
  expect((await netlink.routes()).filter(({ protocol }) => protocol === ownProtocol)).toHaveLength(200);
});

test("monitor() tells of links, addresses and routes as they change", async () => {
  const events: NetlinkEvent[] = [];
  const seen = Promise.withResolvers<void>();
  watch = homeNamespace.enter(() =>
    monitor((event) => {
      events.push(event);
      if (event.kind === "link" && event.removed) {
        seen.resolve();
      }
    }),
  );
  const index = await connected("192.0.2.1/24");
  await netlink.removeLink(index);
  await seen.promise;
  expect(events).toContainEqual({
    kind: "address",
    removed: false,
    address: { linkIndex: index, address: "192.0.2.1", prefixLength: 24, scope: 0 },
  });
  const subnet = events.filter((event) => event.kind === "route" && event.route.destination === "192.0.2.0/24");
  expect(subnet.map((event) => event.kind === "route" && event.removed)).toEqual([false]);
});

test("monitor() says that events were lost and goes on with those that come later", async () => {
  const events: NetlinkEvent[] = [];
  watch = homeNamespace.enter(() => monitor((event) => events.push(event)));
  const index = await connected("192.0.2.1/24");
  // Sent without a turn of the event loop in between, so that nobody reads; 200 answers fit each sender's own buffer.
  const senders = Array.from({ length: 40 }, () => homeNamespace.enter(() => Netlink.open()));
  const adds = senders.flatMap((sender, high) =>
    Array.from({ length: 200 }, (_, low) =>
      sender.addRoute(route({ destination: `10.${high}.${low}.0/24`, linkIndex: index, scope: "link" })),
    ),
  );
  await Promise.all(adds);
  for (const sender of senders) {
    sender.close();
  }
  await waitFor(() => events.some(({ kind }) => kind === "overrun"), { what: "an overrun", timeoutMs: 5000 });
  await netlink.removeLink(index);
  const isRemoved = (event: NetlinkEvent) => event.kind === "link" && event.removed;
  await waitFor(() => events.some(isRemoved), { what: "the removal of the link", timeoutMs: 5000 });
});
