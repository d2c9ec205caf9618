/** Delegation to the CNI project's own IPAM plugins, of the Debian package containernetworking-plugins. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { CniError, parseResult } from "@containernetworking/cni-types-ts";
import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { delegate } from "../../../cni/delegate.ts";
import { Scratch } from "../../lib/scratch.ts";

jest.setTimeout(30_000);

let scratch: Scratch;

beforeEach(() => {
  scratch = new Scratch("delegate");
});

afterEach(() => scratch[Symbol.dispose]());

interface Call {
  readonly containerId: string;
  readonly ipam?: object;
  readonly cniVersion?: string;
  readonly args?: string;
}

/** Two addresses. */
function hostLocal(ipam: object = {}): object {
  const ranges = [[{ subnet: "10.9.8.0/29", rangeStart: "10.9.8.2", rangeEnd: "10.9.8.3" }]];
  return { type: "host-local", dataDir: scratch.path, ranges, routes: [{ dst: "0.0.0.0/0" }], ...ipam };
}

const fixed = { type: "static", addresses: [{ address: "10.9.8.7/24", gateway: "10.9.8.1" }] };

async function call(command: "ADD" | "DEL" | "CHECK", options: Call): Promise<unknown> {
  const { containerId, ipam = hostLocal(), cniVersion = "1.0.0", args = "" } = options;
  return delegate(command, {
    type: (ipam as typeof fixed).type,
    environment: {
      ...{ CNI_COMMAND: "ADD", CNI_CONTAINERID: containerId, CNI_IFNAME: "eth0", CNI_NETNS: "/run/netns/pod" },
      ...{ CNI_PATH: "/usr/lib/cni", CNI_ARGS: args },
    },
    path: ["/does/not/exist", "/usr/lib/cni"],
    configuration: JSON.stringify({ cniVersion, name: "pods", type: "cni-ipip", ipam }),
    signal: new AbortController().signal,
  });
}

async function addressOf(containerId: string): Promise<string | undefined> {
  return parseResult(await call("ADD", { containerId })).ips[0]?.address;
}

const leases = async () => (await readdir(join(scratch.path, "pods"))).filter((name) => name.startsWith("10."));

async function failureOf(work: Promise<unknown>): Promise<object> {
  const error = await work.then(
    () => undefined,
    (thrown) => thrown,
  );
  expect(error).toBeInstanceOf(CniError);
  const { code, message, details } = error as CniError;
  return { code, message, ...(details === undefined ? {} : { details }) };
}

test("host-local gives an address, confirms it and takes it back, also twice", async () => {
  expect(await call("ADD", { containerId: "a" })).toEqual({
    cniVersion: "1.0.0",
    ips: [{ address: "10.9.8.2/29", gateway: "10.9.8.1" }],
    routes: [{ dst: "0.0.0.0/0" }],
    dns: {},
  });
  expect(await leases()).toEqual(["10.9.8.2"]);
  expect(await call("CHECK", { containerId: "a" })).toBeUndefined();
  expect(await call("DEL", { containerId: "a" })).toBeUndefined();
  expect(await call("DEL", { containerId: "a" })).toBeUndefined();
  expect(await leases()).toEqual([]);
});

test("host-local takes the address that CNI_ARGS asks for", async () => {
  expect(await call("ADD", { containerId: "a", args: "IP=10.9.8.3" })).toMatchObject({
    ips: [{ address: "10.9.8.3/29" }],
  });
});

test("host-local refuses a second ADD of the same container in its own words, and keeps the first", async () => {
  await call("ADD", { containerId: "a" });
  expect(await failureOf(call("ADD", { containerId: "a" }))).toEqual({
    code: 999,
    message: "failed to allocate for range 0: 10.9.8.2 has been allocated to a, duplicate allocation is not allowed",
  });
  expect(await leases()).toEqual(["10.9.8.2"]);
});

test("host-local gives each container another address until none is left, and a returned one again", async () => {
  const addresses = await Promise.all(["a", "b"].map(addressOf));
  expect(addresses.sort()).toEqual(["10.9.8.2/29", "10.9.8.3/29"]);
  expect(await failureOf(call("ADD", { containerId: "c" }))).toEqual({
    code: 999,
    message: "failed to allocate for range 0: no IP addresses available in range set: 10.9.8.2-10.9.8.3",
  });
  await call("DEL", { containerId: "a" });
  expect(addresses).toContain(await addressOf("c"));
});

test.each([
  ["without ranges", { ranges: [] }, { code: 999, message: "no IP ranges specified" }],
  [
    "with a wrong subnet",
    { ranges: [[{ subnet: "10.9.8.0/64" }]] },
    { code: 999, message: "invalid CIDR address: 10.9.8.0/64" },
  ],
])("host-local refuses a configuration %s in its own words", async (_, ipam, failure) => {
  expect(await failureOf(call("ADD", { containerId: "a", ipam: hostLocal(ipam) }))).toEqual(failure);
});

test("host-local reports a version that it does not speak with the code and the details of the specification", async () => {
  expect(await failureOf(call("ADD", { containerId: "a", cniVersion: "9.9.9" }))).toEqual({
    code: 1,
    message: "incompatible CNI versions",
    details: expect.stringContaining("9.9.9"),
  });
});

test("host-local does not confirm a container that it does not know", async () => {
  await call("ADD", { containerId: "a" });
  expect(await failureOf(call("CHECK", { containerId: "b" }))).toMatchObject({
    message: expect.stringContaining("Failed to find address added by container b"),
  });
});

test("static gives what the configuration says, in every shape of a result that parseResult() takes", async () => {
  for (const cniVersion of ["0.2.0", "0.3.1", "0.4.0", "1.0.0"] as const) {
    const result = parseResult(await call("ADD", { containerId: "a", ipam: fixed, cniVersion }), cniVersion);
    expect(result.ips).toMatchObject([{ address: "10.9.8.7/24", gateway: "10.9.8.1" }]);
  }
  expect(await call("DEL", { containerId: "a", ipam: fixed })).toBeUndefined();
});

test("static refuses what is not an address in its own words", async () => {
  const ipam = { ...fixed, addresses: [{ address: "nonsense" }] };
  expect(await failureOf(call("ADD", { containerId: "a", ipam }))).toEqual({
    code: 999,
    message: "the 'address' field is expected to be in CIDR notation, got: 'nonsense'",
  });
});
