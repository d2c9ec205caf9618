/** Where namespaces have no fallback tunnels, tunl0 is an ordinary device: it can be deleted, and comes back. */
import { afterAll, beforeAll, expect, jest, test } from "@jest/globals";
import { run } from "../../src/exec.ts";
import { Lab } from "../lib/lab.ts";
import { waitFor } from "../lib/wait.ts";

// An emulated machine starts a program in a tenth of a second and Node.js in three.
jest.setTimeout(90_000);

const setting = "net.core.fb_tunnels_only_for_init_net";
let before: string;
let lab: Lab;

beforeAll(async () => {
  before = (await run({ file: "sysctl", args: ["-n", setting] })).stdout;
  await run({ file: "sysctl", args: ["-w", `${setting}=1`] });
  lab = await Lab.build();
  await run({ file: "sysctl", args: ["-w", `${setting}=${before}`] });
}, 120_000);

afterAll(() => lab?.remove(), 60_000);

async function isRight(): Promise<boolean> {
  const [link] = await lab.node1.namespace.ipJson("address", "show", "to", "10.100.15.128/32");
  const routes = await lab.node1.namespace.ipJson("route", "show", "protocol", "80");
  return link?.ifname === "tunl0" && link.flags.includes("UP") && routes.length === 2;
}

test("a link of another kind named tunl0 is left alone and named, and the node is not ready", async () => {
  await lab.node1.namespace.ip("link", "add", "tunl0", "type", "bridge");
  lab.node1.startSync();
  const condition = 'Cannot use the link \\"tunl0\\": it is of kind \\"bridge\\"';
  await waitFor(() => lab.node1.log.includes(condition), {
    what: `the condition: ${lab.node1.log}`,
    timeoutMs: 60_000,
  });
  expect(lab.node1.log).not.toContain("ready for pods");
  await lab.node1.namespace.ip("link", "delete", "tunl0");
});

test("tunl0 is created, and created again when it is deleted, with everything that goes through it", async () => {
  await waitFor(isRight, { what: `tunl0 right: ${lab.node1.log}`, timeoutMs: 30_000 });
  await lab.node1.namespace.ip("link", "delete", "tunl0");
  await waitFor(isRight, { what: `tunl0 right again: ${lab.node1.log}`, timeoutMs: 30_000 });
});
