import { parseEnvironment } from "@containernetworking/cni-types-ts";
import { expect, test } from "@jest/globals";

const add = {
  CNI_COMMAND: "ADD",
  CNI_CONTAINERID: "c1",
  CNI_NETNS: "/run/netns/pod",
  CNI_IFNAME: "eth0",
  CNI_ARGS: "A=1",
  CNI_PATH: "/opt/cni/bin:/usr/lib/cni",
};

test("parseEnvironment() reads a whole call", () => {
  expect(parseEnvironment(add)).toEqual({
    command: "ADD",
    containerId: "c1",
    networkNamespace: "/run/netns/pod",
    interfaceName: "eth0",
    arguments: "A=1",
    path: ["/opt/cni/bin", "/usr/lib/cni"],
  });
});

test.each([
  ["ADD", "CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME"],
  ["CHECK", "CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME"],
  ["DEL", "CNI_CONTAINERID, CNI_IFNAME"],
])("parseEnvironment() reports everything that %s misses at once", (command, missing) => {
  const empty = { CNI_COMMAND: command, CNI_CONTAINERID: "", CNI_NETNS: "", CNI_IFNAME: "", CNI_PATH: "" };
  for (const environment of [{ CNI_COMMAND: command }, empty]) {
    expect(() => parseEnvironment(environment)).toThrow(
      expect.objectContaining({
        code: 4,
        message: `Cannot run ${command}: missing ${missing}, needed are ${missing}`,
      }),
    );
  }
});

test("parseEnvironment() reports only what is missing", () => {
  expect(() => parseEnvironment({ ...add, CNI_NETNS: undefined })).toThrow(
    "Cannot run ADD: missing CNI_NETNS, needed are CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME",
  );
});

test("parseEnvironment() lets DEL come without a namespace", () => {
  expect(parseEnvironment({ ...add, CNI_COMMAND: "DEL", CNI_NETNS: "" })).toMatchObject({ networkNamespace: "" });
});

test.each(["ADD", "DEL", "CHECK"])("parseEnvironment() lets %s come without CNI_PATH", (command) => {
  expect(parseEnvironment({ ...add, CNI_COMMAND: command, CNI_PATH: undefined })).toMatchObject({ command, path: [] });
});

test.each(["GC", "STATUS"])("parseEnvironment() needs nothing more for %s and reads CNI_PATH", (command) => {
  expect(parseEnvironment({ CNI_COMMAND: command })).toEqual({ command, path: [] });
  expect(parseEnvironment({ ...add, CNI_COMMAND: command, CNI_PATH: ":/a::/b c:" })).toEqual({
    command,
    path: ["/a", "/b c"],
  });
});

test("parseEnvironment() gives VERSION nothing", () => {
  expect(parseEnvironment({ ...add, CNI_COMMAND: "VERSION" })).toEqual({ command: "VERSION" });
});

test.each([undefined, ""])("parseEnvironment() reports what is missing together with the command %p", (command) => {
  const allowed = "allowed as CNI_COMMAND are ADD, DEL, CHECK, GC, STATUS, VERSION";
  expect(() => parseEnvironment({ CNI_COMMAND: command })).toThrow(
    expect.objectContaining({
      code: 4,
      message: `Cannot run the plugin: missing CNI_COMMAND, CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME, ${allowed}`,
    }),
  );
  expect(() => parseEnvironment({ ...add, CNI_COMMAND: command })).toThrow(
    `Cannot run the plugin: missing CNI_COMMAND, ${allowed}`,
  );
});

test.each([
  ["add", '"add"'],
  ["ADD ", '"ADD "'],
  ["REMOVE", '"REMOVE"'],
  ["UPDATE", '"UPDATE"'],
  ["__proto__", '"__proto__"'],
  ["toString", '"toString"'],
  ["ADD\n", '"ADD\\n"'],
  ["ADD\0", '"ADD\\u0000"'],
  ["x".repeat(100_000), `"${"x".repeat(80)}…"`],
])("parseEnvironment() refuses the command in row %#", (command, shown) => {
  expect(() => parseEnvironment({ ...add, CNI_COMMAND: command })).toThrow(
    expect.objectContaining({
      code: 4,
      message: `Cannot use CNI_COMMAND: ${shown}, allowed are ADD, DEL, CHECK, GC, STATUS, VERSION`,
    }),
  );
});

test.each(["-c1", ".c1", "_c1", "c/1", "../c1", "c 1", "c1\n", "c:1", "ç1", "c1\0", "c\uFFFD1", "c\uD800"])(
  "parseEnvironment() refuses the container id %j",
  (containerId) => {
    expect(() => parseEnvironment({ ...add, CNI_CONTAINERID: containerId })).toThrow(
      expect.objectContaining({ code: 4, message: expect.stringContaining("Cannot use CNI_CONTAINERID: ") }),
    );
  },
);

test.each([
  ".",
  "..",
  "eth/0",
  "eth:0",
  "eth 0",
  "eth0\n",
  "eth0\t",
  "eth\u00A00",
  "eth\u20280",
  "eth\u30000",
  "eth\u00850",
  "eth0\0",
  "eth\u00010",
  "eth\u007F0",
  "eth\uFFFD0", // bytes that were not UTF-8
  "eth\uD8000", // half a character
  "à", // C3 A0, where the kernel sees white space
  "eth%d", // the kernel would make it eth0 or eth1
  "a-name-of-16-byt",
  "éééééééé",
  "x".repeat(100_000),
])("parseEnvironment() refuses the interface name in row %#, %j", (interfaceName) => {
  const shown = JSON.stringify(interfaceName.length > 80 ? `${interfaceName.slice(0, 80)}…` : interfaceName);
  expect(() => parseEnvironment({ ...add, CNI_IFNAME: interfaceName })).toThrow(
    expect.objectContaining({
      code: 4,
      message: `Cannot use CNI_IFNAME: ${shown}, allowed are 1 to 15 bytes without "/", ":", "%", white space and control characters, not "." or ".."`,
    }),
  );
});

test.each(["a", "a-name-of-15-by", "eth0.100", "ééééééé"])(
  "parseEnvironment() takes the interface name %j",
  (interfaceName) => {
    expect(parseEnvironment({ ...add, CNI_IFNAME: interfaceName })).toMatchObject({ interfaceName });
  },
);
