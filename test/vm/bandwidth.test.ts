/** The plugin `bandwidth` behind ours: it wants the qdisc that the workload guard has where the kernel has no tcx. */
import { afterAll, beforeAll, expect, jest, test } from "@jest/globals";
import { supportsTcx } from "libbpf-ts";
import { run } from "../../src/exec.ts";
import { Chain } from "../clients/chain.ts";
import { ClientNode, inside, ping } from "../clients/client-node.ts";
import { nothing } from "../kernel/cni/node.ts";

// An emulated machine starts a program in a tenth of a second and Node.js in three.
jest.setTimeout(90_000);

const stranger = "10.9.9.9";
const outside = "192.0.2.2";

let world: ClientNode;

beforeAll(async () => {
  world = await ClientNode.create();
}, 60_000);

afterAll(() => world?.[Symbol.asyncDispose](), 60_000);

/** Bits a second and bits; tc counts bytes. */
const bandwidth = { ingressRate: 8_000_000, ingressBurst: 1_000_000, egressRate: 4_000_000, egressBurst: 1_000_000 };
const limitOfIngress = { dev: expect.stringMatching(/^cali/), options: { rate: 1_000_000 } };
const limitOfEgress = { dev: expect.stringMatching(/^bwp/), options: { rate: 500_000 } };

/** For the egress rate it adds the qdisc `ingress`, which cannot be where `clsact` is. The other limit is there by then. */
const { answer, limits } = supportsTcx()
  ? { answer: "added", limits: [limitOfIngress, limitOfEgress] }
  : {
      answer: 'ADD of "bandwidth": {\n    "code": 999,\n    "msg": "create ingress qdisc: file exists"',
      limits: [limitOfIngress],
    };

test("limits both ways, or refuses an egress rate; the pod is checked all the time, and DEL leaves nothing", async () => {
  const netns = await world.node.createPod();
  const plugins = [world.ourPlugin, { type: "bandwidth", capabilities: { bandwidth: true } }];
  const chain = new Chain(world, { plugins });
  const call = { containerId: "c1", netns, runtimeConfig: { bandwidth } };
  const outcome = chain.add(call).then(
    () => "added",
    (error: Error) => error.message,
  );
  expect(await outcome).toContain(answer);
  expect(await limitsOf()).toMatchObject(limits);
  await ping(netns, outside);
  await sendSpoofed(netns);
  expect(await spoofedPackets()).toBe(1n);
  await chain.del(call);
  expect(await world.node.remains()).toEqual(nothing);
  const links: { readonly ifname: string }[] = await world.node.ip("link");
  expect(links.map(({ ifname }) => ifname).filter((name) => name.startsWith("bwp"))).toEqual([]);
});

async function limitsOf(): Promise<object[]> {
  const { stdout } = await world.run({ file: "tc", args: ["-j", "qdisc", "show"] });
  return JSON.parse(stdout).filter(({ kind }: { readonly kind: string }) => kind === "tbf");
}

/** An echo request from an address that is not the pod's; no answer comes. */
async function sendSpoofed(netns: string): Promise<void> {
  await run(inside(netns, { file: "ip", args: ["address", "add", `${stranger}/32`, "dev", "eth0"] }));
  const args = ["-n", "-c", "1", "-W", "1", "-I", stranger, outside];
  await run(inside(netns, { file: "ping", args, okExitCodes: [1] }));
}

async function spoofedPackets(): Promise<bigint | undefined> {
  const [name = ""] = await world.node.hostLinks();
  const [{ ifindex }] = await world.node.ip("link", "show", name);
  using guard = world.node.openGuard();
  return guard.drops(ifindex)?.["spoofed-source"].packets;
}
