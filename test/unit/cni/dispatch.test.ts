import { expect, test } from "@jest/globals";
import { dispatch } from "../../../cni/dispatch.ts";

const environment = {
  CNI_COMMAND: "ADD",
  CNI_CONTAINERID: "c1",
  CNI_NETNS: "/run/netns/pod",
  CNI_IFNAME: "eth0",
};
const config = { cniVersion: "1.0.0", name: "pods", type: "cni-ipip" };

const { signal } = new AbortController();

async function failure(configuration: string, call: object = environment): Promise<unknown> {
  const { exitCode, output } = await dispatch({ environment: { ...call }, configuration, signal });
  expect(exitCode).toBe(1);
  return JSON.parse(output);
}

const prefix = "Cannot use the network configuration: ";

test.each([
  [{ mtu: "big" }, 'field "mtu" is "big", allowed is a whole number of bytes from 68 to 65535'],
  [{ mtu: 1480.5 }, 'field "mtu" is 1480.5, allowed is a whole number of bytes from 68 to 65535'],
  [{ mtu: 67 }, 'field "mtu" is 67, allowed is a whole number of bytes from 68 to 65535'],
  [{ runDir: "run" }, 'field "runDir" is "run", allowed is an absolute path'],
  [{ stateDir: 7 }, 'field "stateDir" is 7, allowed is an absolute path'],
  [
    { runDir: "/run/\0x" },
    'field "runDir" is "/run/\\u0000x", allowed is an absolute path of at most 4095 bytes without NUL',
  ],
  [
    { log: { file: "/\0" } },
    'field "log.file" is "/\\u0000", allowed is an absolute path of at most 4095 bytes without NUL',
  ],
  [
    { name: "../pods" },
    'field "name" is "../pods", allowed is letters, digits, "_", "." and "-", a letter or digit first',
  ],
  [
    { name: undefined },
    'field "name" is missing, allowed is letters, digits, "_", "." and "-", a letter or digit first',
  ],
  [{ type: "" }, 'field "type" is "", allowed is a plugin\'s file name'],
  [{ dns: [] }, 'field "dns" is [], allowed is an object {nameservers, domain, search, options}'],
  [{ dns: { search: [1] } }, 'field "dns.search.0" is 1, allowed is an object {nameservers, domain, search, options}'],
  [{ prevResult: "x" }, 'field "prevResult" is "x", allowed is the result of the plugin before, an object'],
])("a configuration with %j is refused by field, value and what is allowed", async (change, problem) => {
  expect(await failure(JSON.stringify({ ...config, ...change }))).toMatchObject({
    code: 7,
    msg: `${prefix}${problem}`,
  });
});

test.each(["0.0.1", "1.2.0", "latest", 1, null])("the version %j is refused", async (cniVersion) => {
  expect(await failure(JSON.stringify({ ...config, cniVersion }))).toMatchObject({
    code: 1,
    msg: `Cannot speak cniVersion ${JSON.stringify(cniVersion)}: allowed are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0`,
  });
});

test("text that is not JSON is refused without repeating it, since it can hold tokens", async () => {
  expect(await failure('{"token": "secret"')).toEqual({
    cniVersion: "1.1.0",
    code: 6,
    msg: "Cannot decode the network configuration: 18 characters that are not JSON, allowed is a JSON object",
  });
  for (const text of ['["secret"]', '"secret"']) {
    expect(JSON.stringify(await failure(text))).not.toContain("secret");
  }
});

test("an error is told in the caller's version", async () => {
  const missing = { CNI_COMMAND: "ADD" };
  expect(await failure('{"cniVersion":"0.4.0"}', missing)).toEqual({
    cniVersion: "0.4.0",
    code: 4,
    msg: "Cannot run ADD: missing CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME, needed are CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME",
  });
});

test.each([{}, { cniVersion: "" }])("an error is told in the oldest version to a caller with %j", async (version) => {
  expect(await failure(JSON.stringify({ name: "pods", type: "cni-ipip", ...version, runDir: 7 }))).toMatchObject({
    cniVersion: "0.1.0",
    code: 7,
  });
});

test("DEL refuses a path that nothing can be at: it cannot do its work without", async () => {
  const call = { ...environment, CNI_COMMAND: "DEL" };
  for (const runDir of ["/run/\0", `/${"x".repeat(4095)}`, `/${"é".repeat(2048)}`]) {
    expect(await failure(JSON.stringify({ ...config, runDir }), call)).toMatchObject({
      code: 7,
      msg: expect.stringContaining('field "runDir"'),
    });
  }
});

test.each([
  ["CHECK", "0.3.1", "0.4.0"],
  ["GC", "1.0.0", "1.1.0"],
  ["STATUS", "1.0.0", "1.1.0"],
])("%s is refused in version %s, which is older than the verb", async (command, cniVersion, first) => {
  const call = { ...environment, CNI_PATH: "/opt/cni/bin", CNI_COMMAND: command };
  expect(await failure(JSON.stringify({ ...config, cniVersion }), call)).toEqual({
    cniVersion,
    code: 1,
    msg: `Cannot run ${command}: cniVersion is "${cniVersion}", allowed are versions from ${first} on`,
  });
});

test.each([
  ['{"cniVersion":"1.0.0"}', "1.0.0"],
  ['{"cniVersion":"0.9.9-a.later.one"}', "0.9.9-a.later.one"],
  [`{"cniVersion":"${"9".repeat(20)}"}`, "9".repeat(20)],
  [`{"cniVersion":"${"9".repeat(21)}"}`, "1.1.0"],
  ['{"cniVersion":7}', "1.1.0"],
  ['{"cniVersion":""}', "0.1.0"],
  ["{}", "0.1.0"],
  ["null", "1.1.0"],
  ["", "1.1.0"],
])("VERSION answers %j in %s", async (configuration, cniVersion) => {
  const { exitCode, output } = await dispatch({ environment: { CNI_COMMAND: "VERSION" }, configuration, signal });
  expect(exitCode).toBe(0);
  expect(JSON.parse(output)).toEqual({
    cniVersion,
    supportedVersions: ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"],
  });
});
