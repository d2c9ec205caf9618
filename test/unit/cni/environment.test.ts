import { parseArguments, parseEnvironment } from "@containernetworking/cni-types-ts";
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
  ["GC", "CNI_PATH"],
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

test("parseEnvironment() lets DEL come without a namespace, and VERSION and STATUS without anything", () => {
  expect(parseEnvironment({ ...add, CNI_COMMAND: "DEL", CNI_NETNS: "" })).toMatchObject({ networkNamespace: "" });
  expect(parseEnvironment({ CNI_COMMAND: "VERSION" })).toEqual({ command: "VERSION" });
  expect(parseEnvironment({ CNI_COMMAND: "STATUS" })).toEqual({ command: "STATUS", path: [] });
});

test.each([undefined, "", "add", "REMOVE", "__proto__", "toString"])(
  "parseEnvironment() refuses the command %p",
  (command) => {
    expect(() => parseEnvironment({ ...add, CNI_COMMAND: command })).toThrow(
      `Cannot use CNI_COMMAND: "${command ?? ""}", allowed are ADD, DEL, CHECK, GC, STATUS, VERSION`,
    );
  },
);

test.each(["-c1", ".c1", "_c1", "c/1", "../c1", "c 1", "c1\n", "c:1", "ç1"])(
  "parseEnvironment() refuses the container id %j",
  (containerId) => {
    expect(() => parseEnvironment({ ...add, CNI_CONTAINERID: containerId })).toThrow(
      expect.objectContaining({ code: 4, message: expect.stringContaining("Cannot use CNI_CONTAINERID: ") }),
    );
  },
);

test.each([".", "..", "eth/0", "eth:0", "eth 0", "eth0\n", "eth0\t", "a-name-of-16-byt", "éééééééé"])(
  "parseEnvironment() refuses the interface name %j",
  (interfaceName) => {
    expect(() => parseEnvironment({ ...add, CNI_IFNAME: interfaceName })).toThrow(
      expect.objectContaining({ code: 4, message: expect.stringContaining("Cannot use CNI_IFNAME: ") }),
    );
  },
);

test.each(["a", "a-name-of-15-by", "eth0.100", "ééééééé"])(
  "parseEnvironment() takes the interface name %j",
  (interfaceName) => {
    expect(parseEnvironment({ ...add, CNI_IFNAME: interfaceName })).toMatchObject({ interfaceName });
  },
);

test("parseArguments() gives the known keys and drops others when IgnoreUnknown allows them", () => {
  const known = ["POD", "EMPTY"];
  expect(parseArguments("IgnoreUnknown=1;POD=a=b;EMPTY=;OTHER=x;", known)).toEqual({ POD: "a=b", EMPTY: "" });
  expect(parseArguments("POD=a;ignored=1;IgnoreUnknown=TRUE", known)).toEqual({ POD: "a" });
  expect(parseArguments("", known)).toEqual({});
});

test.each(["POD=a;OTHER=x;MORE=y", "IgnoreUnknown=0;OTHER=x;MORE=y", "IgnoreUnknown=false;OTHER=x;MORE=y"])(
  "parseArguments() refuses unknown keys in %j by name",
  (text) => {
    expect(() => parseArguments(text, ["POD"])).toThrow(
      expect.objectContaining({
        code: 4,
        message: 'Cannot use CNI_ARGS: unknown keys "OTHER", "MORE", allowed are "POD", or any with IgnoreUnknown=1',
      }),
    );
  },
);

test.each(["POD", "=a", "POD=a;nonsense"])("parseArguments() refuses %j", (text) => {
  expect(() => parseArguments(text, ["POD"])).toThrow("allowed is KEY=VALUE;KEY=VALUE");
});
