/** The gate of a start: what becomes of a stranger's packet before the first snapshot of the datastore, and after it. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { attachedPrograms, verdictPackets } from "../lib/guard-state.ts";
import { Lab, STRANGER } from "../lib/lab.ts";
import { sendForged, tunnelPackets } from "../lib/traffic.ts";
import { waitFor } from "../lib/wait.ts";

// An emulated machine starts a program in a tenth of a second and Node.js in three.
jest.setTimeout(120_000);

let lab: Lab;

/** A node whose datastore has no marker yet, so that there is no snapshot. */
beforeEach(async () => {
  lab = await Lab.build();
  await rm(join(lab.datastore.path, "cluster.json"));
}, 60_000);

afterEach(() => lab?.remove(), 60_000);

async function startWithoutSnapshot(): Promise<void> {
  lab.node1.startSync();
  await logged("no datastore is there yet");
}

async function logged(text: string): Promise<void> {
  await waitFor(() => lab.node1.log.includes(text), { what: `"${text}": ${lab.node1.log}`, timeoutMs: 60_000 });
}

async function tunnelIsUp(): Promise<boolean> {
  const links = await lab.node1.namespace.ipJson("link");
  return links.some(({ ifname, flags }) => ifname === "tunl0" && flags.includes("UP"));
}

function strangerSends(): Promise<void> {
  return sendForged({
    forger: lab.stranger,
    forgerAddress: STRANGER.address.replace("/20", ""),
    node: lab.node1,
    innerSource: "10.100.9.250",
    innerDestination: "10.100.15.128",
  });
}

test("a tunnel that is down stays down and takes nothing in until members and guard are in force", async () => {
  await startWithoutSnapshot();
  await strangerSends();
  expect(await tunnelIsUp()).toBe(false);
  await lab.datastore.writeSettings({ externalNodeCidrs: [] });
  await logged("ready for pods");
  expect(await tunnelIsUp()).toBe(true);
  const { received } = await tunnelPackets(lab.node1);
  expect(received).toBe(0);
  const refused = verdictPackets(lab.node1, "not-member");
  await strangerSends();
  expect(verdictPackets(lab.node1, "not-member") - refused).toBe(1);
  expect((await tunnelPackets(lab.node1)).received).toBe(0);
});

test("a tunnel that works already is observed, not dropped, until the first snapshot", async () => {
  // The first look at a link of this kind loads the module, which makes tunl0.
  await lab.node1.namespace.ipBatch(
    "link add probe type ipip local 192.0.2.1 remote 192.0.2.2",
    "link delete probe",
    "address add 10.100.15.128/32 dev tunl0",
    "link set tunl0 up",
  );
  await startWithoutSnapshot();
  expect(Object.keys(attachedPrograms(lab.node1))).toHaveLength(1);
  await strangerSends();
  expect(verdictPackets(lab.node1, "observed-not-member")).toBe(1);
  expect((await tunnelPackets(lab.node1)).received).toBe(1);
  await lab.datastore.writeSettings({ externalNodeCidrs: [] });
  await logged("ready for pods");
  await strangerSends();
  expect(verdictPackets(lab.node1, "not-member")).toBe(1);
  expect((await tunnelPackets(lab.node1)).received).toBe(1);
});
