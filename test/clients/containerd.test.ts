import { readdir, rm } from "node:fs/promises";
import { expect, jest, test } from "@jest/globals";
import { run } from "../../src/exec.ts";
import { nodeStatePath } from "../../src/node-state.ts";
import { nothing } from "../kernel/cni/node.ts";
import { waitFor } from "../lib/wait.ts";
import { get, nodeAddress, page, ping, podAddresses } from "./client-node.ts";
import { Containerd } from "./containerd.ts";

jest.setTimeout(60_000); // containerd and its helpers are many processes, and two cores may be busy

const portmap = { type: "portmap", capabilities: { portMappings: true } };
const bandwidth = { type: "bandwidth", capabilities: { bandwidth: true } };

interface Link {
  readonly ifname: string;
}

async function podNamespaces(): Promise<string[]> {
  return (await readdir("/run/netns")).filter((name) => /^cni-[0-9a-f]{8}-/.test(name));
}

test("pods have the addresses that containerd shows, and reach each other and the machine outside", async () => {
  await Containerd.with([], async (containerd) => {
    const { node, outside } = containerd.world;
    const one = await containerd.runPod({ name: "one" });
    const two = await containerd.runPod({ name: "two" });
    expect([one, two]).toMatchObject([
      { isReady: true, address: podAddresses[0] },
      { isReady: true, address: podAddresses[1] },
    ]);
    // printf default.two | sha1sum, and of default.one
    expect((await node.hostLinks()).toSorted()).toEqual(["cali46a553c7aae", "calid65259db43f"]);
    await ping(one.namespace, two.address);
    await ping(two.namespace, one.address);
    await ping(one.namespace, "192.0.2.2");
    await ping(outside, two.address);
  });
});

test("a pod that is stopped, even twice, has nothing left, and its address is the next one's last choice", async () => {
  await Containerd.with([], async (containerd) => {
    const { node } = containerd.world;
    const { id } = await containerd.runPod({ name: "one" });
    await containerd.stopPod(id);
    expect(await node.remains()).toEqual(nothing);
    expect(await podNamespaces()).toEqual([]);
    await containerd.stopPod(id);
    expect(await containerd.pod(id)).toMatchObject({ isReady: false });
    await containerd.removePod(id);
    expect(await containerd.runPod({ name: "two" })).toMatchObject({ address: podAddresses[1] });
  });
});

test("a port of the node leads to the pod, until the pod is stopped", async () => {
  await Containerd.with([portmap], async (containerd) => {
    const { world } = containerd;
    const pod = await containerd.runPod({ name: "web", ports: [{ hostPort: 8080, containerPort: 80 }] });
    using _server = world.serve(pod.namespace);
    expect(await get(world.outside, `http://${nodeAddress}:8080/`)).toBe(page);
    expect(await get(world.namespace, `http://${nodeAddress}:8080/`)).toBe(page);
    expect(await get(world.namespace, "http://127.0.0.1:8080/")).toBe(page);
    await containerd.stopPod(pod.id);
    expect((await world.run({ file: "iptables-save", args: [] })).stdout).not.toContain(pod.address);
    expect(await world.node.remains()).toEqual(nothing);
  });
});

test("a pod's annotation limits what its link carries", async () => {
  await Containerd.with([bandwidth], async (containerd) => {
    const { world } = containerd;
    const annotations = { "kubernetes.io/ingress-bandwidth": "8M", "kubernetes.io/egress-bandwidth": "4M" };
    const { id } = await containerd.runPod({ name: "slow", annotations });
    const [link] = await world.node.hostLinks();
    const { stdout } = await world.run({ file: "tc", args: ["-j", "qdisc", "show"] });
    // tc counts bytes. What the pod sends is limited on a link of bandwidth's own, where it is led on its way in.
    const limits = JSON.parse(stdout).filter(({ kind }: { kind: string }) => kind === "tbf");
    expect(limits).toMatchObject([
      { dev: link, options: { rate: 1_000_000 } },
      { dev: expect.stringMatching(/^bwp/), options: { rate: 500_000 } },
    ]);
    await containerd.stopPod(id);
    expect(await world.node.remains()).toEqual(nothing);
    expect((await world.node.ip("link")).map(({ ifname }: Link) => ifname)).toEqual(["lo", "uplink"]);
  });
});

test("a pod waits for sync: containerd passes our sentence on, and the next try succeeds", async () => {
  await Containerd.with([], async (containerd) => {
    const { node } = containerd.world;
    await rm(nodeStatePath(node.runDir));
    await expect(containerd.runPod({ name: "early" })).rejects.toThrow(
      `plugin type="cni-ipip" failed (add): Cannot add to the network yet: "${nodeStatePath(node.runDir)}" does not exist`,
    );
    expect(await node.remains()).toEqual(nothing);
    await node.writeState();
    expect(await containerd.runPod({ name: "early" })).toMatchObject({ isReady: true });
  });
});

test("pods outlive containerd, and the next one stops them", async () => {
  await Containerd.with([], async (containerd) => {
    const { node } = containerd.world;
    const one = await containerd.runPod({ name: "one" });
    const two = await containerd.runPod({ name: "two" });
    await containerd.kill();
    await ping(one.namespace, two.address);
    await containerd.launch();
    expect(await containerd.pod(one.id)).toEqual(one);
    await containerd.stopPod(one.id);
    await containerd.stopPod(two.id);
    expect(await node.remains()).toEqual(nothing);
  });
});

test("a pod whose network namespace is gone leaves nothing when it is stopped", async () => {
  await Containerd.with([], async (containerd) => {
    const { id, processId } = await containerd.runPod({ name: "one" });
    const [namespace = ""] = await podNamespaces();
    process.kill(processId, "SIGKILL");
    const isNoticed = async () => !(await containerd.pod(id)).isReady;
    await waitFor(isNoticed, { what: "a pod that is not ready", timeoutMs: 10_000 });
    await run({ file: "ip", args: ["netns", "delete", namespace] });
    await containerd.stopPod(id);
    expect(await containerd.world.node.remains()).toEqual(nothing);
  });
});
