/** CHECK: every way in which what there is can differ from what ADD answered. */
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { run } from "../../../src/exec.ts";
import { EndpointStore } from "../../../src/workload/endpoint-store.ts";
import { type Answer, TestNode } from "./node.ts";

const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=nginx";
const hostLink = "calic440f455693"; // of default.nginx
jest.setTimeout(60_000);

let node: TestNode;
let netns: string;
let prevResult: { interfaces: object[]; ips: object[] } & Record<string, unknown>;

beforeEach(async () => {
  node = await TestNode.create();
  await node.writeState();
  netns = await node.createPod();
  prevResult = (await node.call("ADD", { containerId: "c1", netns, args })).json;
});

afterEach(() => node.remove());

function check(config: object = {}): Promise<Answer> {
  return node.call("CHECK", { containerId: "c1", netns, args, config: { prevResult, ...config } });
}

test("CHECK has nothing to say when all is as ADD answered", async () => {
  expect(await check()).toEqual({ exitCode: 0, json: undefined, stderr: "" });
});

test.each(["0.4.0", "1.0.0"])("CHECK reads the result of version %s, which tells no MTU", async (cniVersion) => {
  await node.call("DEL", { containerId: "c1", netns, args });
  const { json } = await node.call("ADD", { containerId: "c1", netns, args, config: { cniVersion } });
  expect(await check({ cniVersion, prevResult: json })).toMatchObject({ exitCode: 0 });
  // A plugin behind may have changed the pod's end.
  await node.podIp(netns, "link", "set", "eth0", "mtu", "1400");
  expect(await check({ cniVersion, prevResult: json })).toMatchObject({ exitCode: 0 });
});

const onNode =
  (...command: string[]) =>
  () =>
    node.ip(...command);
const inPod =
  (...command: string[]) =>
  () =>
    node.podIp(netns, ...command);
const setSysctl = (key: string, value: number) => () =>
  run({ file: "nsenter", args: [`--net=/run/netns/${node.namespace}`, "sysctl", "-w", `${key}=${value}`] });

const differences: readonly [break_: () => Promise<unknown>, difference: string][] = [
  [onNode("link", "del", hostLink), `the host link "${hostLink}" is gone`],
  [
    onNode("link", "set", hostLink, "alias", "mine"),
    `the alias of the host link "${hostLink}" is "mine", not "cni-ipip:pods/c1/eth0"`,
  ],
  [
    onNode("link", "set", hostLink, "address", "02:00:00:00:00:01"),
    `the MAC of the host link "${hostLink}" is "02:00:00:00:00:01", not "ee:ee:ee:ee:ee:ee"`,
  ],
  [onNode("link", "set", hostLink, "mtu", "1400"), `the MTU of the host link "${hostLink}" is 1400, not 1480`],
  [onNode("link", "set", hostLink, "down"), `the host link "${hostLink}" is down`],
  [setSysctl(`net.ipv4.conf.${hostLink}.proxy_arp`, 0), `the setting ipv4/conf/${hostLink}/proxy_arp is "0", not "1"`],
  [
    setSysctl(`net.ipv4.conf.${hostLink}.forwarding`, 0),
    `the setting ipv4/conf/${hostLink}/forwarding is "0", not "1"`,
  ],
  [setSysctl(`net.ipv4.conf.${hostLink}.rp_filter`, 1), `the setting ipv4/conf/${hostLink}/rp_filter is "1", not "0"`],
  [
    async () => {
      await node.ip("link", "add", "bridge0", "type", "bridge");
      await node.ip("link", "set", hostLink, "master", "bridge0");
    },
    `the host link "${hostLink}" is a port of another link, such as a bridge`,
  ],
  [onNode("route", "del", "10.100.15.129"), "the route 10.100.15.129/32 on the host is gone, or leads elsewhere"],
  [
    onNode("route", "replace", "10.100.15.129", "dev", "lo"),
    "the route 10.100.15.129/32 on the host is gone, or leads elsewhere",
  ],
  [inPod("link", "set", "eth0", "mtu", "1400"), 'the MTU of "eth0" in the pod is 1400, not 1480'],
  [inPod("link", "set", "eth0", "address", "02:00:00:00:00:01"), 'the MAC of "eth0" in the pod is "02:00:00:00:00:01"'],
  [inPod("link", "set", "eth0", "name", "eth7"), '"eth0" in the pod is gone'],
  [inPod("address", "flush", "dev", "eth0"), 'the address 10.100.15.129/32 of "eth0" in the pod is gone'],
  [inPod("route", "del", "default"), "the route 0.0.0.0/0 in the pod is gone, or leads elsewhere"],
  [inPod("neigh", "del", "169.254.1.1", "dev", "eth0"), "the permanent neighbour 169.254.1.1 of"],
  [() => node.forgetLeases(), "the address 10.100.15.129 is leased to nobody"],
  [
    async () => {
      using guard = node.openGuard();
      node.enter(() => guard.forget(guard.linkIndexes()[0] ?? 0));
    },
    `the workload guard is not attached to the host link "${hostLink}"`,
  ],
  [
    async () => {
      using guard = node.openGuard();
      guard.silence(guard.linkIndexes()[0] ?? 0);
    },
    `the workload guard lets nothing of the pod pass on "${hostLink}"`,
  ],
];

test.each(differences)("CHECK names the difference after %s", async (breakIt, difference) => {
  await node.ip("link", "set", "lo", "up");
  await breakIt();
  const { exitCode, json } = await check();
  expect(exitCode).toBe(1);
  expect(json).toMatchObject({
    cniVersion: "1.1.0",
    code: 102,
    msg: expect.stringContaining(`Cannot confirm "eth0" of "c1": ${difference}`),
  });
});

test.each([
  [{ allowIpip: true }, `whether it may send IPIP on "${hostLink}" is false, not true`],
  [{ allowIpv6: true }, `whether it may send IPv6 on "${hostLink}" is false, not true`],
  [{ allowedSources: ["192.0.2.9/24"] }, `what it may send from besides on "${hostLink}" is "", not "192.0.2.0/24"`],
])("CHECK says that the guard does not know what %j allows", async (guard, difference) => {
  expect((await check({ guard })).json).toMatchObject({ code: 102, msg: expect.stringContaining(difference) });
});

test("CHECK names who has the address now", async () => {
  await node.forgetLeases();
  const other = await node.createPod();
  await node.ip("route", "del", "10.100.15.129");
  await node.call("ADD", { containerId: "c2", netns: other });
  expect((await check()).json).toMatchObject({
    code: 102,
    msg: 'Cannot confirm "eth0" of "c1": the address 10.100.15.129 is leased to "eth0" of the container "c2"',
  });
});

test("CHECK needs the previous result, with the attachment in it", async () => {
  expect((await check({ prevResult: undefined })).json).toEqual({
    cniVersion: "1.1.0",
    code: 7,
    msg: 'Cannot use the network configuration: field "prevResult" is missing, CHECK needs what ADD answered',
  });
  const without = { ...prevResult, interfaces: [], ips: [] };
  expect((await check({ prevResult: without })).json).toMatchObject({
    code: 102,
    msg: `Cannot confirm "eth0" of "c1": the previous result has no host link "${hostLink}"`,
  });
  const noPod = { ...prevResult, interfaces: prevResult.interfaces.slice(0, 1), ips: [] };
  expect((await check({ prevResult: noPod })).json).toMatchObject({
    code: 102,
    msg: 'Cannot confirm "eth0" of "c1": the previous result has no "eth0" in the pod',
  });
});

test("CHECK says that the namespace is gone", async () => {
  await node.removeNamespace(netns);
  expect((await check()).json).toMatchObject({ code: 4, msg: expect.stringContaining(`"${netns}"`) });
});

test("a repeated ADD gives the same answer and leaves the links as they are; a broken one is made anew, with the same MAC", async () => {
  const [before] = await node.ip("link", "show", hostLink);
  expect((await node.call("ADD", { containerId: "c1", netns, args })).json).toEqual(prevResult);
  expect(await node.ip("link", "show", hostLink)).toMatchObject([{ ifindex: before.ifindex }]);

  await node.podIp(netns, "address", "flush", "dev", "eth0");
  expect((await node.call("ADD", { containerId: "c1", netns, args })).json).toEqual(prevResult);
  expect(await check()).toMatchObject({ exitCode: 0 });
  expect(await node.remains()).toMatchObject({ leases: ["10.100.15.129"], endpoints: 1, guarded: [expect.anything()] });
});

test("a repeated ADD with an unknown option of the guard leaves the links as they are", async () => {
  const call = { containerId: "c2", netns: await node.createPod(), config: { guard: { allowIpv6: true, later: 1 } } };
  const { json } = await node.call("ADD", call);
  const [before] = await node.ip("link", "show", json.interfaces[0].name);
  expect((await node.call("ADD", call)).json).toEqual(json);
  expect(await node.ip("link", "show", before.ifname)).toMatchObject([{ ifindex: before.ifindex }]);
});

test("a damaged endpoint file costs nothing but the knowledge in it", async () => {
  const store = new EndpointStore(node.runDir);
  const [endpoint] = await store.list();
  await node.damageEndpoints();
  expect(await store.list()).toEqual([]);
  expect((await node.call("ADD", { containerId: "c1", netns, args })).json.ips).toEqual(prevResult.ips);
  expect((await store.list()).map(({ owner }) => owner)).toEqual([endpoint?.owner]);
});
