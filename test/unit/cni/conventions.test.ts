import { macAddress, runtimeConfigIps } from "@containernetworking/cni-types-ts";
import { expect, test } from "@jest/globals";

test.each([
  ["02:42:ac:11:00:02", "02:42:ac:11:00:02"],
  ["02:42:AC:11:00:02", "02:42:ac:11:00:02"],
  ["aA:Bb:cC:dD:Ee:Ff", "aa:bb:cc:dd:ee:ff"],
])("macAddress gives %s in lower case", (text, mac) => {
  expect(macAddress.parse(text)).toBe(mac);
});

test.each([
  "",
  "02-42-ac-11-00-02",
  "0242.ac11.0002",
  "0242ac110002",
  "2:42:ac:11:0:2",
  "02:42:ac:11:00",
  "02:42:ac:11:00:02:03:04",
  "02:42:ac:11:00:0g",
  " 02:42:ac:11:00:02",
  "02:42:ac:11:00:02\n",
  "０2:42:ac:11:00:02", // a full-width zero
  7,
  null,
])("macAddress refuses %j", (value) => {
  expect(macAddress.safeParse(value).success).toBe(false);
});

test("runtimeConfigIps takes addresses of either family, with and without prefix length", () => {
  const ips = ["10.1.2.3", "10.1.2.3/24", "2001:db8::5", "2001:db8::5/64"];
  expect(runtimeConfigIps.parse(ips)).toEqual(ips);
  expect(runtimeConfigIps.parse([])).toEqual([]);
});

test.each([
  "10.1.2",
  "10.1.2.3/33",
  "10.1.2.3/",
  "10.1.2.256",
  "0x0a.1.2.3",
  "01.1.1.1",
  "::g",
  "::1/129",
  "::1%1",
  "",
  7,
])("runtimeConfigIps refuses %j", (ip) => {
  expect(runtimeConfigIps.safeParse([ip]).success).toBe(false);
});

test("runtimeConfigIps refuses one address that is no list", () => {
  expect(runtimeConfigIps.safeParse("10.1.2.3").success).toBe(false);
});
