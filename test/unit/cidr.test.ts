import { describe, expect, test } from "@jest/globals";
import {
  containsAddress,
  containsRange,
  formatAddress,
  overlaps,
  parseAddress,
  parseCidr,
  parseLinkAddress,
} from "../../src/cidr.ts";

describe("parseAddress()", () => {
  test.each([
    ["0.0.0.0", 0],
    ["10.0.0.1", 0x0a000001],
    ["128.0.0.0", 0x80000000],
    ["255.255.255.255", 0xffffffff],
  ])("reads %s as an unsigned number that formatAddress() writes back", (text, number) => {
    expect(parseAddress(text)).toBe(number);
    expect(formatAddress(number)).toBe(text);
  });

  test.each([
    "",
    "10.0.0",
    "10.0.0.256",
    "10.0.0.1/24",
    "010.0.0.1",
    "0x10.0.0.1",
    "1..2.3",
    "10.0.0.1 ",
    "10.0.0.1\n",
    "１０.0.0.1",
  ])("refuses %j by name", (text) => {
    expect(() => parseAddress(text)).toThrow(
      new SyntaxError(`Cannot use address: "${text}" is not an IPv4 address like "172.31.112.2"`),
    );
  });

  test.each(["::1", "fe80::1", "::ffff:10.0.0.1"])("says of %s that it is IPv6", (text) => {
    expect(() => parseAddress(text)).toThrow(`Cannot use address: "${text}" is IPv6, only IPv4 is supported`);
  });
});

describe("parseCidr()", () => {
  test.each([
    ["10.100.15.128/26", 0x0a640f80, 0x0a640fbf, 26],
    ["10.100.0.0/16", 0x0a640000, 0x0a64ffff, 16],
    ["10.0.0.7/32", 0x0a000007, 0x0a000007, 32],
    ["192.0.0.0/3", 0xc0000000, 0xdfffffff, 3],
    ["0.0.0.0/0", 0, 0xffffffff, 0],
  ])("reads the first and the last address of %s", (text, first, last, prefixLength) => {
    expect(parseCidr(text)).toEqual({ text, first, last, prefixLength });
  });

  test("names the network of a prefix with host bits set", () => {
    expect(() => parseCidr("10.100.15.130/26")).toThrow(
      'Cannot use CIDR: "10.100.15.130/26" has host bits set, its network is "10.100.15.128/26"',
    );
  });

  test.each([
    "10.0.0.0",
    "10.0.0.0/",
    "10.0.0.0/33",
    "10.0.0.0/08",
    "10.0.0.0/8/8",
    "10.0.0.0/-1",
    "10.0.0.0/+8",
    "10.0.0.0/1e1",
    "10.0.0.0/8 ",
    "10.0/8",
    "/8",
    "",
  ])("refuses %j by name", (text) => {
    expect(() => parseCidr(text)).toThrow(
      new SyntaxError(`Cannot use CIDR: "${text}" is not an IPv4 address and a prefix length like "10.100.0.0/16"`),
    );
  });

  test.each(["::/0", "fd00::/8", "::ffff:10.0.0.0/104"])("says of %s that it is IPv6", (text) => {
    expect(() => parseCidr(text)).toThrow(`Cannot use CIDR: "${text}" is IPv6, only IPv4 is supported`);
  });
});

test("parseLinkAddress() keeps the address and reads the prefix of its link", () => {
  expect(parseLinkAddress("172.31.112.2/20")).toEqual({
    text: "172.31.112.2/20",
    address: 0xac1f7002,
    network: { text: "172.31.112.0/20", first: 0xac1f7000, last: 0xac1f7fff, prefixLength: 20 },
  });
});

test("parseLinkAddress() refuses an address without the prefix length of its link", () => {
  expect(() => parseLinkAddress("172.31.112.2")).toThrow(
    'Cannot use address: "172.31.112.2" is not an IPv4 address and a prefix length like "172.31.112.2/20"',
  );
});

test.each([-1, 0.5, 2 ** 32, Number.NaN])("formatAddress() refuses %d", (number) => {
  expect(() => formatAddress(number)).toThrow(RangeError);
});

test("ranges contain and overlap up to their last address and no further", () => {
  const outer = parseCidr("10.0.0.0/24");
  expect(containsAddress(outer, parseAddress("10.0.0.255"))).toBe(true);
  expect(containsAddress(outer, parseAddress("10.0.1.0"))).toBe(false);
  expect(containsRange(outer, parseCidr("10.0.0.192/26"))).toBe(true);
  expect(containsRange(parseCidr("10.0.0.192/26"), outer)).toBe(false);
  expect(overlaps(parseCidr("10.0.0.192/26"), outer)).toBe(true);
  expect(overlaps(outer, parseCidr("10.0.0.192/26"))).toBe(true);
  expect(overlaps(outer, parseCidr("10.0.1.0/24"))).toBe(false);
});
