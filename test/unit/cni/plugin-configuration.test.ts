import { expect, test } from "@jest/globals";
import { parseConfiguration, parseRemovalConfiguration } from "../../../cni/config.ts";

const text = (fields: object) => JSON.stringify({ cniVersion: "1.1.0", name: "pods", type: "cni-ipip", ...fields });

test("null in a field of our own means its default", () => {
  const fields = { runDir: null, stateDir: null, mtu: null, guard: null, log: null };
  expect(parseConfiguration(text(fields))).toEqual(parseConfiguration(text({})));
  const guard = { allowIpip: null, allowIpv6: null, allowedSources: null };
  expect(parseConfiguration(text({ guard }))).toEqual(parseConfiguration(text({})));
});

test.each([undefined, null, {}, { type: "" }, { type: null }, { type: "cni-ipip" }, { ranges: [[]] }])(
  "DEL takes the IPAM %j for ours",
  (ipam) => {
    expect(parseRemovalConfiguration(text({ ipam })).ipam?.type ?? "cni-ipip").toBe("cni-ipip");
  },
);

test.each([{ type: 7 }, { type: "a/b" }, { type: ".." }, "host-local", []])("DEL refuses the IPAM %j", (ipam) => {
  expect(() => parseRemovalConfiguration(text({ ipam }))).toThrow(
    expect.objectContaining({ code: 7, message: expect.stringContaining('field "ipam') }),
  );
});

test.each([{}, { type: "" }, { type: null }])("others refuse the IPAM %j", (ipam) => {
  expect(() => parseConfiguration(text({ ipam }))).toThrow(
    expect.objectContaining({ code: 7, message: expect.stringContaining('field "ipam.type"') }),
  );
});

test("DEL leaves the log alone where its part cannot be used", () => {
  expect(parseRemovalConfiguration(text({ log: { file: "/\0" } })).log).toEqual(parseConfiguration(text({})).log);
});
