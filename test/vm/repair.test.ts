/** What disturbs tunl0 or our routes is put right by the event that tells of it. */
import { afterAll, beforeAll, expect, jest, test } from "@jest/globals";
import { Lab, NODE2 } from "../lib/lab.ts";
import { waitFor } from "../lib/wait.ts";

/** In an emulated machine; a tenth of it on a real one. */
const repairLimitMs = 1_000;

// An emulated machine starts a program in a tenth of a second and Node.js in three.
jest.setTimeout(90_000);

let lab: Lab;

beforeAll(async () => {
  lab = await Lab.build();
  lab.node1.startSync();
  await waitFor(() => lab.node1.log.includes("ready for pods"), {
    what: `node1 ready: ${lab.node1.log}`,
    timeoutMs: 90_000,
  });
}, 120_000);

afterAll(() => lab?.remove(), 60_000);

async function tunnel(): Promise<{ up: boolean; mtu: number; addresses: string[] } | undefined> {
  const found = (await lab.node1.namespace.ipJson("address")).find(({ ifname }) => ifname === "tunl0");
  return (
    found && {
      up: found.flags.includes("UP"),
      mtu: found.mtu,
      addresses: found.addr_info.map((info: { local: string; prefixlen: number }) => `${info.local}/${info.prefixlen}`),
    }
  );
}

const right = { up: true, mtu: 1480, addresses: ["10.100.15.128/32"] };

/** Everything sync keeps. */
async function isRight(): Promise<boolean> {
  const routes = await lab.node1.namespace.ipJson("-4", "route", "show", "protocol", "80");
  const found = await tunnel();
  return JSON.stringify(found) === JSON.stringify(right) && routes.length === 2;
}

/** Disturbs, and measures until all is right again. */
async function repairTime(...disturbances: string[][]): Promise<number> {
  for (const args of disturbances) {
    await lab.node1.namespace.ip(...args);
  }
  const { elapsedMs } = await waitFor(isRight, { what: `${disturbances.join(", ")} repaired`, timeoutMs: 10_000 });
  return elapsedMs;
}

test.each([
  ["set down", [["link", "set", "tunl0", "down"]]],
  ["given another address", [["address", "add", "10.9.9.9/32", "dev", "tunl0"]]],
  ["robbed of its address", [["address", "delete", "10.100.15.128/32", "dev", "tunl0"]]],
  ["given another MTU", [["link", "set", "tunl0", "mtu", "1400"]]],
  [
    "renamed",
    [
      ["link", "set", "tunl0", "down"],
      ["link", "set", "tunl0", "name", "foo"],
    ],
  ],
  ["robbed of a route", [["route", "delete", NODE2.block]]],
  ["robbed of its blackhole", [["route", "delete", "blackhole", "10.100.15.128/26"]]],
  ["given a foreign route to a wanted block", [["route", "replace", NODE2.block, "dev", "eth0"]]],
])("tunl0 %s is right again at once", async (_, disturbances) => {
  expect(await repairTime(...disturbances)).toBeLessThan(repairLimitMs);
});

test("foreign routes elsewhere, also on tunl0, stay", async () => {
  await lab.node1.namespace.ip("route", "add", "192.0.2.0/24", "dev", "tunl0");
  await repairTime(["route", "delete", NODE2.block]);
  expect(await lab.node1.namespace.ipJson("route", "show", "192.0.2.0/24")).toHaveLength(1);
  await lab.node1.namespace.ip("route", "delete", "192.0.2.0/24");
});

test("an MTU of the node's link that changes is followed", async () => {
  await lab.node1.namespace.ip("link", "set", "eth0", "mtu", "1400");
  await waitFor(async () => (await tunnel())?.mtu === 1380, { what: "MTU 1380 on tunl0", timeoutMs: 10_000 });
  expect(await repairTime(["link", "set", "eth0", "mtu", "1500"])).toBeLessThan(repairLimitMs);
});
