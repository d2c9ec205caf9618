import { readdir, rm } from "node:fs/promises";
import { expect, jest, test } from "@jest/globals";
import { nodeStatePath } from "../../src/node-state.ts";
import { nothing } from "../kernel/cni/node.ts";
import { waitFor } from "../lib/wait.ts";
import { get, nodeAddress, page, ping, podAddresses } from "./client-node.ts";
import { imageName } from "./image.ts";
import { Podman } from "./podman.ts";

jest.setTimeout(60_000); // each call of podman is many processes, and two cores may be busy

const portmap = { type: "portmap", capabilities: { portMappings: true } };

test("containers have the addresses that podman shows, and reach each other and the machine outside", async () => {
  await Podman.with([], async (podman) => {
    await podman.start("one");
    await podman.start("two");
    expect([await podman.networks("one"), await podman.networks("two")]).toMatchObject([
      { pods: { IPAddress: podAddresses[0], IPPrefixLen: 32 } },
      { pods: { IPAddress: podAddresses[1], IPPrefixLen: 32 } },
    ]);
    await podman.exec("one", "ping", "-c", "1", podAddresses[1]);
    await podman.exec("two", "ping", "-c", "1", podAddresses[0]);
    await podman.exec("one", "ping", "-c", "1", "192.0.2.2");
    await ping(podman.world.outside, podAddresses[1]);
  });
});

test("a container has nothing left when it is removed, when it is stopped, and when it ends by itself", async () => {
  await Podman.with([], async (podman) => {
    const { node } = podman.world;
    await podman.start("removed");
    await podman.run("rm", "--force", "--time", "0", "removed");
    expect(await node.remains()).toEqual(nothing);
    await podman.start("stopped");
    await podman.run("stop", "--time", "0", "stopped");
    expect(await node.remains()).toEqual(nothing);
    await podman.run("run", "--entrypoint", "/bin/busybox", imageName, "true");
    // Podman does not wait for the process that cleans up. DEL forgets the endpoint last.
    const isForgotten = async () => (await node.remains()).endpoints === 0;
    await waitFor(isForgotten, { what: "the end of DEL", timeoutMs: 10_000 });
    expect(await node.remains()).toEqual(nothing);
    expect((await readdir("/run/netns")).filter((name) => name.startsWith("netns-"))).toEqual([]);
  });
});

test("a container that is started again has a network again", async () => {
  await Podman.with([], async (podman) => {
    await podman.start("one");
    await podman.run("restart", "--time", "0", "one");
    await podman.exec("one", "ping", "-c", "1", "192.0.2.2");
    const { pods } = await podman.networks("one");
    expect(await podman.world.node.leases()).toEqual([pods.IPAddress]);
  });
});

test("a published port leads to the container, until that is removed", async () => {
  await Podman.with([portmap], async (podman) => {
    const { world } = podman;
    await podman.start("web", "--publish", "8080:80");
    await podman.start("other");
    await podman.exec("web", "httpd", "-p", "80", "-h", "/");
    const url = `http://${nodeAddress}:8080/`;
    expect(await get(world.outside, url)).toBe(page);
    expect(await get(world.namespace, url)).toBe(page);
    expect(await get(world.namespace, "http://127.0.0.1:8080/")).toBe(page);
    expect(await podman.exec("other", "wget", "-q", "-O", "-", url)).toBe(page);
    expect(await podman.exec("web", "wget", "-q", "-O", "-", url)).toBe(page);
    await podman.run("rm", "--force", "--time", "0", "--all");
    expect((await world.run({ file: "iptables-save", args: [] })).stdout).not.toContain(podAddresses[0]);
    expect(await world.node.remains()).toEqual(nothing);
  });
});

test("a container has the address and the MAC that podman is asked for", async () => {
  await Podman.with([], async (podman) => {
    const address = "10.100.15.150";
    const mac = "02:11:22:33:44:55";
    await podman.start("one", "--ip", address, "--mac-address", mac);
    expect(await podman.networks("one")).toMatchObject({ pods: { IPAddress: address, MacAddress: mac } });
    const shown = await podman.exec("one", "ip", "address", "show", "eth0");
    expect(shown).toContain(`link/ether ${mac}`);
    expect(shown).toContain(`inet ${address}/32`);
    await expect(podman.start("two", "--ip", address)).rejects.toThrow(`Cannot reserve ${address} for`);
    await expect(podman.start("three", "--ip", "192.0.2.77")).rejects.toThrow("Cannot reserve 192.0.2.77 for");
    expect(await podman.world.node.leases()).toEqual([address]);
  });
});

test("a container in two networks is reached at either address, and leaves one alone", async () => {
  await Podman.with([], async (podman) => {
    const { node, outside } = podman.world;
    await podman.start("one", "--network", "pods:interface_name=eth0", "--network", "more:interface_name=eth1");
    await podman.start("two");
    const { pods, more } = await podman.networks("one");
    for (const { IPAddress } of [pods, more]) {
      await podman.exec("two", "ping", "-c", "1", IPAddress);
      await ping(outside, IPAddress);
    }
    await podman.run("network", "disconnect", "more", "one");
    expect(await node.leases()).not.toContain(more.IPAddress);
    await podman.exec("two", "ping", "-c", "1", pods.IPAddress);
    await podman.run("network", "connect", "more", "two");
    const again = await podman.networks("two");
    await podman.exec("one", "ping", "-c", "1", again.more.IPAddress);
    await podman.run("rm", "--force", "--time", "0", "--all");
    expect(await node.remains()).toEqual(nothing);
  });
});

test("a container waits for sync: podman passes our sentence on, and the next try succeeds", async () => {
  await Podman.with([], async (podman) => {
    const { node } = podman.world;
    const path = nodeStatePath(node.runDir);
    await rm(path);
    await expect(podman.start("one")).rejects.toThrow(`Cannot add to the network yet: "${path}" does not exist`);
    expect(await node.remains()).toEqual(nothing);
    await node.writeState();
    await podman.run("start", "one");
    expect(await podman.networks("one")).toMatchObject({ pods: { IPAddress: podAddresses[0] } });
  });
});
