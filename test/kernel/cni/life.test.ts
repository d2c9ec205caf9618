import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { run } from "../../../src/exec.ts";
import { TestNode } from "./node.ts";

const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=nginx;K8S_POD_UID=1;SOMETHING=else";
const hostLink = "calic440f455693"; // of default.nginx
jest.setTimeout(60_000); // each call of the plugin is a process, and two cores may be busy

let node: TestNode;

beforeEach(async () => {
  node = await TestNode.create();
});

afterEach(() => node.remove());

async function ping(netns: string, address: string): Promise<string> {
  const { stdout } = await run({ file: "nsenter", args: [`--net=${netns}`, "ping", "-c1", "-W5", address] });
  return stdout;
}

test("ADD makes the link, its addresses and routes as promised, and DEL takes everything back", async () => {
  await node.writeState();
  const netns = await node.createPod();

  const { exitCode, json, stderr } = await node.call("ADD", { containerId: "c1", netns, args });
  expect(stderr).toBe("");
  expect(exitCode).toBe(0);
  const [hostEnd] = await node.ip("link", "show", hostLink);
  const [podEnd] = await node.podIp(netns, "link", "show", "eth0");
  expect(json).toEqual({
    cniVersion: "1.1.0",
    interfaces: [
      { name: hostLink, mac: "ee:ee:ee:ee:ee:ee" },
      { name: "eth0", mac: podEnd.address, mtu: 1480, sandbox: netns },
    ],
    ips: [{ address: "10.100.15.129/32", interface: 1 }],
    routes: [{ dst: "0.0.0.0/0", gw: "169.254.1.1" }],
  });

  expect(hostEnd).toMatchObject({
    address: "ee:ee:ee:ee:ee:ee",
    mtu: 1480,
    ifalias: "cni-ipip:pods/c1/eth0",
    linkinfo: { info_kind: "veth" },
    link_index: podEnd.ifindex,
    operstate: "UP",
  });
  expect(await node.ip("route", "show", "table", "main")).toEqual([
    { type: "unicast", dst: "10.100.15.129", dev: hostLink, protocol: "80", scope: "link", flags: [] },
  ]);
  expect({
    proxyArp: await node.sysctl(`ipv4/conf/${hostLink}/proxy_arp`),
    proxyDelay: await node.sysctl(`ipv4/neigh/${hostLink}/proxy_delay`),
    forwarding: await node.sysctl(`ipv4/conf/${hostLink}/forwarding`),
    routeLocalnet: await node.sysctl(`ipv4/conf/${hostLink}/route_localnet`),
    acceptRa: await node.sysctl(`ipv6/conf/${hostLink}/accept_ra`),
  }).toEqual({ proxyArp: "1", proxyDelay: "0", forwarding: "1", routeLocalnet: "0", acceptRa: "0" });

  expect(podEnd).toMatchObject({ mtu: 1480, operstate: "UP", linkinfo: { info_kind: "veth" } });
  const [{ addr_info: addresses }] = await node.podIp(netns, "-4", "address", "show", "eth0");
  expect(addresses).toMatchObject([{ local: "10.100.15.129", prefixlen: 32, scope: "global" }]);
  expect(await node.podIp(netns, "route", "show", "table", "main")).toMatchObject([
    { dst: "default", gateway: "169.254.1.1", dev: "eth0" },
    { dst: "169.254.1.1", dev: "eth0", scope: "link" },
  ]);
  expect(await node.podIp(netns, "neigh", "show", "169.254.1.1")).toMatchObject([
    { dst: "169.254.1.1", dev: "eth0", lladdr: "ee:ee:ee:ee:ee:ee", state: ["PERMANENT"] },
  ]);
  expect(await node.leases()).toEqual(["10.100.15.129"]);

  expect(await node.call("DEL", { containerId: "c1", netns, args })).toEqual({
    exitCode: 0,
    json: undefined,
    stderr: "",
  });
  expect(await node.hostLinks()).toEqual([]);
  expect(await node.ip("route")).toEqual([]);
  expect(await node.podIp(netns, "link")).toMatchObject([{ ifname: "lo" }]);
  expect(await node.leases()).toEqual([]);
});

test("two pods on one node reach each other, and the node reaches them, though it has no default route", async () => {
  await node.writeState();
  const [one, two] = [await node.createPod(), await node.createPod()];
  await node.call("ADD", { containerId: "c1", netns: one });
  await node.call("ADD", { containerId: "c2", netns: two });
  expect(await node.hostLinks()).toHaveLength(2);
  expect(await ping(one, "10.100.15.130")).toContain("1 received");
  expect(await ping(two, "10.100.15.129")).toContain("1 received");
  await node.ip("address", "add", "192.0.2.1/32", "dev", "lo");
  await node.ip("link", "set", "lo", "up");
  expect(await ping(`/run/netns/${node.namespace}`, "10.100.15.129")).toContain("1 received");
});

test("a pod without names in CNI_ARGS gets its host link's name from container and interface", async () => {
  await node.writeState();
  const netns = await node.createPod();
  const { json } = await node.call("ADD", { containerId: "c1", netns, interfaceName: "net0" });
  // printf pods/c1/net0 | sha1sum
  expect(json.interfaces).toMatchObject([{ name: "calia58892321c9" }, { name: "net0" }]);
});

test("ADD takes a smaller MTU from the configuration, for both ends", async () => {
  await node.writeState();
  const netns = await node.createPod();
  const { json } = await node.call("ADD", { containerId: "c1", netns, args, config: { mtu: 1400 } });
  expect(json.interfaces[1].mtu).toBe(1400);
  expect(await node.ip("link", "show", hostLink)).toMatchObject([{ mtu: 1400 }]);
  expect(await node.podIp(netns, "link", "show", "eth0")).toMatchObject([{ mtu: 1400 }]);
});

test.each(["0.3.0", "0.3.1", "0.4.0", "1.0.0"])("ADD answers a runtime of version %s in its shape", async (version) => {
  await node.writeState();
  const netns = await node.createPod();
  const { json } = await node.call("ADD", { containerId: "c1", netns, args, config: { cniVersion: version } });
  const older = version.startsWith("0.");
  expect(json).toEqual({
    cniVersion: version,
    interfaces: [
      { name: hostLink, mac: "ee:ee:ee:ee:ee:ee" },
      { name: "eth0", mac: expect.stringMatching(/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/), sandbox: netns },
    ],
    ips: [{ ...(older ? { version: "4" } : {}), address: "10.100.15.129/32", interface: 1 }],
    routes: [{ dst: "0.0.0.0/0", gw: "169.254.1.1" }],
  });
});

test("ADD carries on what the plugin before answered, and passes the configured DNS through", async () => {
  await node.writeState();
  const netns = await node.createPod();
  const prevResult = {
    cniVersion: "0.4.0",
    interfaces: [{ name: "net9", sandbox: netns }],
    ips: [{ version: "4", address: "192.0.2.9/24", interface: 0 }],
    routes: [{ dst: "198.51.100.0/24" }],
  };
  const dns = { nameservers: ["10.96.0.10"], search: ["svc.cluster.local"] };
  const config = { cniVersion: "0.4.0", prevResult, dns };
  const { json } = await node.call("ADD", { containerId: "c1", netns, args, config });
  expect(json).toEqual({
    cniVersion: "0.4.0",
    interfaces: [
      ...prevResult.interfaces,
      expect.objectContaining({ name: hostLink }),
      expect.objectContaining({ name: "eth0" }),
    ],
    ips: [...prevResult.ips, { version: "4", address: "10.100.15.129/32", interface: 2 }],
    routes: [...prevResult.routes, { dst: "0.0.0.0/0", gw: "169.254.1.1" }],
    dns,
  });
});

test("ADD twice for one container and interface gives the same address and works", async () => {
  await node.writeState();
  const [netns, other] = [await node.createPod(), await node.createPod()];
  await node.call("ADD", { containerId: "other", netns: other });
  const first = await node.call("ADD", { containerId: "c1", netns, args });
  const second = await node.call("ADD", { containerId: "c1", netns, args });
  expect(second.json.ips).toEqual(first.json.ips);
  expect(await node.leases()).toHaveLength(2);
  expect(await ping(netns, "10.100.15.129")).toContain("1 received");
});

test("VERSION lists what the plugin speaks, without any other variable", async () => {
  const { exitCode, stdout } = await run({
    file: process.execPath,
    args: ["cni/main.ts"],
    cwd: `${import.meta.dirname}/../../..`,
    env: { CNI_COMMAND: "VERSION" },
    input: '{"cniVersion":"1.0.0"}',
  });
  expect(exitCode).toBe(0);
  expect(JSON.parse(stdout)).toEqual({
    cniVersion: "1.0.0",
    supportedVersions: ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"],
  });
});
