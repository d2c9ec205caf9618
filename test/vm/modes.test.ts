/** The mode of a pool changes while a ping runs between two nodes, and everything that depends on it follows. */
import { afterAll, beforeAll, expect, jest, test } from "@jest/globals";
import type { IpipMode } from "../../src/datastore/documents.ts";
import { Lab, NODE1, NODE2, POOL } from "../lib/lab.ts";
import type { Namespace } from "../lib/namespace.ts";
import { waitFor } from "../lib/wait.ts";

// An emulated machine starts a program in a tenth of a second and Node.js in three.
jest.setTimeout(120_000);

let lab: Lab;
let pod: Namespace;
let peerAddress: string;

beforeAll(async () => {
  lab = await Lab.build();
  for (const node of [lab.node1, lab.node2]) {
    node.startSync();
    await waitFor(() => node.log.includes("ready for pods"), { what: `${node.name} ready`, timeoutMs: 90_000 });
  }
  pod = await lab.createPod("one");
  const peer = await lab.createPod("two");
  expect(await lab.node1.cni("ADD", { pod, podName: "one" })).toMatchObject({ exitCode: 0 });
  const { stdout } = await lab.node2.cni("ADD", { pod: peer, podName: "two" });
  peerAddress = JSON.parse(stdout).ips[0].address.split("/")[0];
}, 240_000);

afterAll(() => lab?.remove(), 60_000);

async function routeOf(node: Namespace, block: string): Promise<{ dev: string; gateway: string }> {
  const [route] = await node.ipJson("route", "show", block);
  return route;
}

async function tunnelAddresses(node: Namespace): Promise<string[]> {
  const [link] = await node.ipJson("-4", "address", "show", "dev", "tunl0");
  return (link?.addr_info ?? []).map(({ local }: { local: string }) => local);
}

/** What each mode means where both nodes are on one subnet. */
const modes: readonly { ipipMode: IpipMode; dev: string; hasAddress: boolean }[] = [
  { ipipMode: "CrossSubnet", dev: "eth0", hasAddress: true },
  { ipipMode: "Never", dev: "eth0", hasAddress: false },
  { ipipMode: "Always", dev: "tunl0", hasAddress: true },
];

test("routes and the tunnel's address follow the mode of the pool, and the ping goes on", async () => {
  const before = await tunnelAddresses(lab.node1.namespace);
  expect(before).toHaveLength(1);
  const ping = pod.start({ file: "ping", args: ["-n", "-i", "0.05", peerAddress] });
  for (const { ipipMode, dev, hasAddress } of modes) {
    await lab.datastore.writePool({ ...POOL, ipipMode });
    for (const [node, other] of [
      [lab.node1, NODE2],
      [lab.node2, NODE1],
    ] as const) {
      const isAsWanted = async () =>
        (await routeOf(node.namespace, other.block))?.dev === dev &&
        (await tunnelAddresses(node.namespace)).length === (hasAddress ? 1 : 0);
      await waitFor(isAsWanted, { what: `${node.name} in mode ${ipipMode}`, timeoutMs: 30_000 });
    }
  }
  ping.kill("SIGINT");
  const { stdout } = await ping.ended;
  expect(stdout).toContain(" 0% packet loss");
  expect(await tunnelAddresses(lab.node1.namespace)).toEqual(before);
});

test("a disabled pool gives nothing new, and what it gave goes on", async () => {
  await lab.datastore.writePool({ ...POOL, disabled: true });
  const late = await lab.createPod("late");
  const isRefused = async () => (await lab.node1.cni("ADD", { pod: late, podName: "late" })).exitCode === 1;
  await waitFor(isRefused, { what: "an ADD refused", timeoutMs: 60_000 });
  await pod.run({ file: "ping", args: ["-n", "-c", "1", "-W", "5", peerAddress] });
  await lab.datastore.writePool(POOL);
  const isGiven = async () => (await lab.node1.cni("ADD", { pod: late, podName: "late" })).exitCode === 0;
  await waitFor(isGiven, { what: "an ADD that succeeds again", timeoutMs: 60_000 });
});
