/** Addresses from another IPAM plugin: Debian's host-local and static, called by ours. */
import { access, mkdir, readdir, readFile, readlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, jest, test } from "@jest/globals";
import { type Process, run } from "../../../src/exec.ts";
import { waitFor } from "../../lib/wait.ts";
import { type Call, nothing, stateOf, TestNode } from "./node.ts";

jest.setTimeout(60_000);

let node: TestNode;
let netns: string;

beforeEach(async () => {
  node = await TestNode.create();
  await node.writeState();
  netns = await node.createPod();
});

afterEach(() => node.remove());

const env = { CNI_PATH: "/nonexistent:/usr/lib/cni" };

const call = (ipam: object, others: Call = {}): Call => {
  const { config, ...rest } = others;
  return { containerId: "c1", netns, env, ...rest, config: { cniVersion: "1.0.0", ...config, ipam } };
};

const hostLocal = (subnet = "10.77.0.0/29", others: object = {}) => ({
  type: "host-local",
  dataDir: join(node.runDir, "host-local"),
  ranges: [[{ subnet }]],
  ...others,
});

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Whether a process has a file of that name open just now. */
async function isOpening({ pid }: Process, name: string): Promise<boolean> {
  const descriptors = await readdir(`/proc/${pid}/fd`);
  const links = descriptors.map((each) => readlink(`/proc/${pid}/fd/${each}`).catch(() => ""));
  return (await Promise.all(links)).some((link) => basename(link) === name);
}

/** @returns whether each condition has been seen, one after the other */
function inTurn(conditions: (() => Promise<boolean>)[]): () => Promise<boolean> {
  return async () => {
    const [next] = conditions;
    if (next !== undefined && (await next())) {
      conditions.shift();
    }
    return conditions.length === 0;
  };
}

/** What host-local holds. */
async function held(): Promise<string[]> {
  const names = await readdir(join(node.runDir, "host-local/pods")).catch(() => []);
  return names.filter((name) => /^[0-9.]+$/.test(name));
}

describe("host-local", () => {
  test("gives the address, which the pod has as a /32, and takes it back", async () => {
    const { json } = await node.call("ADD", call(hostLocal()));
    expect(json).toMatchObject({
      ips: [{ address: "10.77.0.2/32", interface: 1 }],
      routes: [{ dst: "0.0.0.0/0", gw: "169.254.1.1" }],
    });
    expect(await node.ip("route")).toMatchObject([{ dst: "10.77.0.2", protocol: "80" }]);
    expect(await held()).toEqual(["10.77.0.2"]);
    expect(await node.call("CHECK", call(hostLocal(), { config: { prevResult: json } }))).toMatchObject({
      exitCode: 0,
    });
    expect(await node.call("DEL", call(hostLocal()))).toMatchObject({ exitCode: 0 });
    expect(await held()).toEqual([]);
    expect(await node.remains()).toMatchObject({ ...nothing, leases: [], strayFiles: [] });
  });

  test("gives the routes that lead to the pod's link, and the DNS", async () => {
    const ipam = hostLocal(undefined, { routes: [{ dst: "10.77.0.0/16" }, { dst: "192.0.2.0/24", gw: "10.77.0.1" }] });
    const { json } = await node.call("ADD", call(ipam));
    expect(json.routes).toEqual([
      { dst: "10.77.0.0/16", gw: "169.254.1.1" },
      { dst: "192.0.2.0/24", gw: "169.254.1.1" },
    ]);
    expect(await node.podIp(netns, "route", "show", "table", "main")).toMatchObject([
      { dst: "10.77.0.0/16", gateway: "169.254.1.1" },
      { dst: "169.254.1.1" },
      { dst: "192.0.2.0/24", gateway: "169.254.1.1" },
    ]);
  });

  test("may give several addresses", async () => {
    const ipam = { ...hostLocal(), ranges: [[{ subnet: "10.77.0.0/29" }], [{ subnet: "10.78.0.0/29" }]] };
    const { json } = await node.call("ADD", call(ipam));
    expect(json.ips.map(({ address }: { address: string }) => address)).toEqual(["10.77.0.2/32", "10.78.0.2/32"]);
    const other = await node.createPod();
    await node.call("ADD", { containerId: "c2", netns: other });
    for (const address of ["10.77.0.2", "10.78.0.2"]) {
      await run({ file: "nsenter", args: [`--net=${other}`, "ping", "-c1", "-W5", address] });
    }
  });

  test("is asked once for a repeated ADD, and again where the first one is broken", async () => {
    const first = await node.call("ADD", call(hostLocal()));
    expect((await node.call("ADD", call(hostLocal()))).json).toEqual(first.json);
    await node.podIp(netns, "link", "set", "eth0", "down");
    expect((await node.call("ADD", call(hostLocal()))).json.ips).toHaveLength(1);
    expect(await held()).toHaveLength(1);
  });

  test("is asked anew by a repeated ADD when it does not hold the address any more", async () => {
    const first = await node.call("ADD", call(hostLocal()));
    await run({ file: "rm", args: [join(node.runDir, "host-local/pods/10.77.0.2")] });
    const second = await node.call("ADD", call(hostLocal()));
    expect(second.json.ips).toHaveLength(1);
    expect(await held()).toEqual([second.json.ips[0].address.split("/")[0]]);
    expect(second.json.interfaces).toEqual(first.json.interfaces);
  });

  test("takes the place of the node's own pool while a pod lives: DEL still frees the pod's address", async () => {
    await node.call("ADD", { containerId: "c1", netns });
    expect(await node.leases()).toHaveLength(1);
    expect(await node.call("DEL", call(hostLocal()))).toMatchObject({ exitCode: 0 });
    expect(await node.remains()).toEqual(nothing);
  });

  test("hands its error through", async () => {
    const { exitCode, json } = await node.call("ADD", call(hostLocal("10.77.0.0/31")));
    expect(exitCode).toBe(1);
    expect(json).toMatchObject({
      cniVersion: "1.0.0",
      code: expect.any(Number),
      msg: expect.stringContaining("10.77.0.0"),
    });
    // It refuses DEL of such a range as well: until it has said that nothing is held, the endpoint tells of it.
    expect(await node.remains()).toEqual({ ...nothing, endpoints: 1 });
    await node.call("DEL", call(hostLocal()));
    expect(await node.remains()).toEqual(nothing);
  });

  test.each([
    ["IPv6", () => hostLocal("2001:db8::/64"), '"2001:db8::2", allowed is IPv4, the network has no IPv6'],
    [
      "the tunnel's address",
      () => ({
        ...hostLocal(),
        ranges: [[{ subnet: "10.100.15.128/26", rangeStart: "10.100.15.128", gateway: "10.100.15.190" }]],
      }),
      "10.100.15.128, which is the tunnel's on this node, allowed is any other address",
    ],
    ["an IPv6 route", () => hostLocal(undefined, { routes: [{ dst: "::/0" }] }), '"::/0", allowed is IPv4'],
  ])("is undone when it gives %s", async (_, ipam, problem) => {
    const { json } = await node.call("ADD", call(ipam()));
    expect(json).toMatchObject({ code: 7, msg: expect.stringContaining(`"host-local" gave: ${problem}`) });
    expect(await held()).toEqual([]);
    expect(await node.remains()).toMatchObject({ hostLinks: [], endpoints: 0, guarded: [] });
  });

  test("is undone when a later step fails", async () => {
    await node.podIp(netns, "link", "add", "bridge0", "type", "bridge");
    await node.podIp(netns, "link", "set", "bridge0", "up");
    await node.podIp(netns, "route", "add", "default", "dev", "bridge0", "metric", "4294967295");
    expect((await node.call("ADD", call(hostLocal()))).exitCode).toBe(1);
    expect(await held()).toEqual([]);
  });

  test("fails CHECK when it does not hold the address any more", async () => {
    const { json } = await node.call("ADD", call(hostLocal()));
    await run({ file: "rm", args: [join(node.runDir, "host-local/pods/10.77.0.2")] });
    const { exitCode } = await node.call("CHECK", call(hostLocal(), { config: { prevResult: json } }));
    expect(exitCode).toBe(1);
  });
});

test("static gives what the configuration says", async () => {
  const ipam = { type: "static", addresses: [{ address: "10.77.0.9/24" }], dns: { nameservers: ["10.96.0.10"] } };
  const { json } = await node.call("ADD", call(ipam));
  expect(json).toMatchObject({
    ips: [{ address: "10.77.0.9/32", interface: 1 }],
    dns: { nameservers: ["10.96.0.10"] },
  });
  expect(await node.call("DEL", call(ipam))).toMatchObject({ exitCode: 0 });
  expect(await node.remains()).toEqual(nothing);
});

/** A plugin of version 1.1.0, which Debian has none of: it notes what it is called for. */
async function noteTaker(): Promise<{ path: string; notes: () => Promise<string[]> }> {
  const directory = join(node.stateDir, "plugins");
  await mkdir(directory, { recursive: true });
  const notes = join(directory, "notes");
  const answer = `{"cniVersion":"1.1.0","ips":[{"address":"10.77.0.9/24"}]}`;
  const script = `#!/bin/sh
echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME" >> ${notes}
[ "$CNI_COMMAND" = STATUS ] && [ -e ${directory}/full ] && { echo '{"code":50,"msg":"full"}'; exit 1; }
[ "$CNI_COMMAND" != ADD ] || echo '${answer}'
`;
  await writeFile(join(directory, "note-taker"), script, { mode: 0o755 });
  return { path: directory, notes: async () => (await readFile(notes, "utf8")).trim().split("\n") };
}

test("GC releases each attachment that goes, then is told to the IPAM plugin", async () => {
  const { path, notes } = await noteTaker();
  const others = { env: { CNI_PATH: path }, config: { cniVersion: "1.1.0" } };
  await node.call("ADD", call({ type: "note-taker" }, others));
  expect(await node.call("GC", call({ type: "note-taker" }, { ...others, containerId: "", netns: "" }))).toMatchObject({
    exitCode: 0,
  });
  expect(await notes()).toEqual(["ADD c1 eth0", "DEL c1 eth0", "GC  eth0"]);
  expect(await node.remains()).toEqual(nothing);
});

test("an ADD that is told to stop releases what the IPAM plugin gave", async () => {
  const { path, notes } = await noteTaker();
  const stops = join(import.meta.dirname, "killable.ts");
  // Behind the step that reserves the addresses.
  const env = { CNI_PATH: path, CNI_TEST_STOP_AT: "3" };
  const add = node.start("ADD", call({ type: "note-taker" }, { env, config: { cniVersion: "1.1.0" }, program: stops }));
  await waitFor(async () => (await stateOf(add)) === "T", { what: "ADD stopped", timeoutMs: 20_000 });
  add.kill("SIGTERM");
  add.kill("SIGCONT");
  expect((await add.ended).exitCode).toBe(1);
  expect(await notes()).toEqual(["ADD c1 eth0", "DEL c1 eth0"]);
  expect(await node.remains()).toEqual(nothing);
});

test.each([
  ["the node's own", "172.31.1.1", "which is this node's own, allowed is any other address"],
  ["the gateway's", "169.254.1.1", "allowed are addresses outside 169.254.0.0/16"],
])("static is refused %s address", async (_, address, problem) => {
  await node.ip("link", "add", "up0", "type", "bridge");
  await node.ip("addr", "add", "172.31.1.1/24", "dev", "up0");
  const { json } = await node.call("ADD", call({ type: "static", addresses: [{ address: `${address}/32` }] }));
  expect(json).toMatchObject({
    code: 7,
    msg: `Cannot use what the IPAM plugin "static" gave: ${address}, ${problem}`,
  });
  expect(await node.remains()).toEqual(nothing);
});

test("static may say the same twice, and a route by one of its addresses", async () => {
  const addresses = ["10.77.0.9/24", "10.77.0.9/24"].map((address) => ({ address }));
  const routes = ["10.1.2.3/8", "0.0.0.0/0", "0.0.0.0/0"].map((dst) => ({ dst }));
  const { exitCode, json } = await node.call("ADD", call({ type: "static", addresses, routes }));
  expect({ exitCode, ips: json.ips, routes: json.routes }).toEqual({
    exitCode: 0,
    ips: [{ address: "10.77.0.9/32", interface: 1 }],
    routes: [
      { dst: "10.0.0.0/8", gw: "169.254.1.1" },
      { dst: "0.0.0.0/0", gw: "169.254.1.1" },
    ],
  });
});

test.each(["host-local", "static"])("GC and STATUS do without %s of a version before the verbs", async (type) => {
  const config = { cniVersion: "1.1.0", "cni.dev/valid-attachments": null };
  expect(await node.call("GC", call({ type }, { containerId: "", netns: "", config }))).toMatchObject({ exitCode: 0 });
  expect((await node.call("STATUS", call({ type }, { containerId: "", netns: "", config }))).json.code).toBe(51);
});

/** @param script what the plugin does, in its own directory, where "conf" is its configuration */
async function scripted(script: string): Promise<{ directory: string; ipam: object; others: Call }> {
  const directory = join(node.stateDir, "plugins");
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, "scripted"), `#!/bin/sh\ncd ${directory}\ncat > conf\n${script}\n`, { mode: 0o755 });
  return { directory, ipam: hostLocal(undefined, { type: "scripted" }), others: { env: { CNI_PATH: directory } } };
}

test.each([
  ["speaks the verbs", `echo '{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}'`],
  ["does not say what it speaks", "exit 1"],
  ["says nothing that can be read", "echo '{}'"],
])("GC reports the failure of a plugin that %s", async (_, version) => {
  const { ipam, others } = await scripted(
    `[ $CNI_COMMAND = VERSION ] && { ${version}; exit; }; echo '{"code":3,"msg":"no such container"}'; exit 1`,
  );
  const { exitCode, json } = await node.call("GC", call(ipam, { ...others, config: { cniVersion: "1.1.0" } }));
  expect({ exitCode, json }).toMatchObject({ exitCode: 1, json: { code: 3, msg: "no such container" } });
});

test("a plugin that is still at work when its ADD was killed is waited for by DEL, which releases what it took", async () => {
  const { directory, ipam, others } = await scripted(`
    if [ $CNI_COMMAND = ADD ]; then
      echo $$ > orphan; kill -9 $PPID
      while [ ! -e go ]; do sleep 0.05; done
    else
      touch overtaken
    fi
    exec /usr/lib/cni/host-local < conf`);
  const add = node.start("ADD", call(ipam, others));
  await expect(add.ended).rejects.toMatchObject({ cause: { signal: "SIGKILL" } });
  const del = node.start("DEL", call(ipam, others));
  // Who waits for the lock opens its file and closes it again; who has it keeps it open.
  const isWaiting = inTurn([
    async () => isOpening(del, "containers.lock"),
    async () => !(await isOpening(del, "containers.lock")),
  ]);
  await waitFor(async () => (await isWaiting()) || exists(join(directory, "overtaken")), {
    what: "DEL at the lock, or past it",
    timeoutMs: 20_000,
  });
  await writeFile(join(directory, "go"), "");
  const orphan = { ...add, pid: Number(await readFile(join(directory, "orphan"), "utf8")) };
  await waitFor(async () => ["Z", "gone"].includes(await stateOf(orphan)), { what: "the end", timeoutMs: 20_000 });
  expect((await del.ended).exitCode).toBe(0);
  expect(await held()).toEqual([]);
  expect(await node.remains()).toMatchObject({ ...nothing, leases: [], strayFiles: [] });
});

test("what a plugin leaves running keeps neither ADD nor DEL", async () => {
  const { directory, ipam, others } = await scripted(`
    [ $CNI_COMMAND = ADD ] && { sleep 600 & echo $! >> left; }
    /usr/lib/cni/host-local < conf`);
  expect(await node.call("ADD", call(ipam, others))).toMatchObject({ exitCode: 0 });
  expect(await node.call("DEL", call(ipam, others))).toMatchObject({ exitCode: 0 });
  process.kill(Number(await readFile(join(directory, "left"), "utf8"))); // it was still there, or this throws
  expect(await held()).toEqual([]);
});

test("STATUS asks the IPAM plugin, whose error is handed through", async () => {
  const { path } = await noteTaker();
  const status = () => node.call("STATUS", { env: { CNI_PATH: path }, config: { ipam: { type: "note-taker" } } });
  expect((await status()).json.code).toBe(51); // no tunnel here
  await writeFile(join(path, "full"), "");
  expect((await status()).json).toMatchObject({ code: 50, msg: "full" });
});

test.each(["0.3.1", "0.4.0", "1.0.0"])("host-local and ours speak version %s", async (cniVersion) => {
  const { json } = await node.call("ADD", call(hostLocal(), { config: { cniVersion } }));
  expect(json).toMatchObject({ cniVersion, ips: [{ address: "10.77.0.2/32", interface: 1 }] });
});

test("a plugin that is not there is named, with where it was looked for", async () => {
  const { json } = await node.call("ADD", call({ type: "no-such-ipam" }));
  expect(json).toMatchObject({ code: 7, msg: expect.stringContaining('Cannot find the plugin "no-such-ipam"') });
  expect(json.msg).toContain("/nonexistent:/usr/lib/cni");
});
