import { expect, test } from "@jest/globals";
import {
  decodeAddress,
  decodeCidr,
  decodeConfig,
  decodeCounter,
  encodeAddress,
  encodeCidr,
  encodeConfig,
  encodeTunnelPair,
  encodeUint32,
} from "../../../src/guard/layout.ts";

// The examples are those of a little-endian machine, as all supported ones are.

test("encodeAddress() writes network order", () => {
  expect([...encodeAddress("172.31.127.252")]).toEqual([172, 31, 127, 252]);
  expect(decodeAddress(encodeAddress("172.31.127.252"))).toBe("172.31.127.252");
});

test("encodeCidr() writes the prefix length in host order, the address in network order", () => {
  expect([...encodeCidr("203.0.113.0/24")]).toEqual([24, 0, 0, 0, 203, 0, 113, 0]);
  expect(decodeCidr(encodeCidr("203.0.113.0/24"))).toBe("203.0.113.0/24");
});

test("encodeTunnelPair() writes local, then remote", () => {
  expect([...encodeTunnelPair({ local: "10.0.0.1", remote: "192.0.2.99" })]).toEqual([10, 0, 0, 1, 192, 0, 2, 99]);
});

test("decodeConfig() reads every number but that of observe as enforce", () => {
  expect(decodeConfig(encodeConfig("observe"))).toBe("observe");
  expect(decodeConfig(encodeConfig("enforce"))).toBe("enforce");
  expect(decodeConfig(encodeUint32(0))).toBe("enforce");
  expect(decodeConfig(encodeUint32(2))).toBe("enforce");
});

test("decodeCounter() reads numbers beyond 32 bits", () => {
  const bytes = Uint8Array.from([1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 128]);
  expect(decodeCounter(bytes)).toEqual({ packets: 2n ** 32n + 1n, bytes: 2n ** 63n + 2n });
});
