/** What others do to links and pins under a running `cni-ipip sync`, and what it makes of that. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, jest, test } from "@jest/globals";
import { assetPath } from "../../../src/assets.ts";
import { type Process, run } from "../../../src/exec.ts";
import { attachedPrograms } from "../../lib/guard-state.ts";
import { LabDatastore } from "../../lib/lab-datastore.ts";
import { Namespace } from "../../lib/namespace.ts";
import { waitFor } from "../../lib/wait.ts";

jest.setTimeout(60_000);

let node: Namespace;
let container: Namespace;
let directory: string;
let runDir: string;
let sync: Process;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sync-heal-"));
  runDir = join(directory, "run");
  [node, container] = await Namespace.create(`sync-heal-${process.pid}`, `sync-heal-container-${process.pid}`);
  await node.ip("link", "add", "eth0", "type", "veth", "peer", "name", "other");
  const datastore = new LabDatastore(join(directory, "cluster"));
  await datastore.writeSettings({ externalNodeCidrs: ["192.0.2.0/24"] });
  const stateDir = join(directory, "state");
  const config = { nodeName: "node1", datastore: { kind: "file", path: datastore.path }, runDir, stateDir };
  await writeFile(join(directory, "sync.json"), JSON.stringify(config));
  sync = node.start({ file: assetPath("cni-ipip"), args: ["sync", "--config", join(directory, "sync.json")] });
  await allGuarded();
});

afterEach(async () => {
  sync.kill("SIGKILL");
  await sync.ended.catch(() => undefined);
  await Namespace.remove([node, container]);
  await run({ file: "umount", args: [join(runDir, "bpf")], okExitCodes: [1, 32] });
  await rm(directory, { recursive: true });
});

/** Waits until the guard is on every link of the node but lo, and on no other. */
async function allGuarded(): Promise<void> {
  const isSo = async () => {
    const links = await node.ipJson("link");
    const wanted = links.filter(({ ifname }) => ifname !== "lo").map(({ ifindex }) => ifindex);
    const guarded = Object.keys(attachedPrograms({ runDir })).map((pin) => Number(pin.split("-").at(-1)));
    return JSON.stringify(wanted.sort()) === JSON.stringify(guarded.sort());
  };
  await waitFor(isSo, { what: "exactly the node's links guarded", timeoutMs: 20_000 });
}

test("a link that moves to a container's namespace does not take the guard with it", async () => {
  await node.ip("link", "add", "veth0", "type", "veth", "peer", "name", "inside");
  await allGuarded();
  await node.ip("link", "set", "inside", "netns", container.name);
  await allGuarded();
});

test("pins that somebody removed are made anew, and every link is guarded again", async () => {
  await rm(join(runDir, "bpf/guard"), { recursive: true, maxRetries: 10 }); // sync pins anew at any event
  await node.ip("link", "set", "eth0", "up");
  await allGuarded();
});

test("a bpffs that somebody unmounted is mounted anew, and every link is guarded again", async () => {
  await run({ file: "umount", args: [join(runDir, "bpf")] });
  await node.ip("link", "set", "eth0", "up");
  await allGuarded();
});
