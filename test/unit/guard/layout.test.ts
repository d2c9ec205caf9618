import { expect, test } from "@jest/globals";
import {
  decodeAddress,
  decodeCidr,
  decodeConfig,
  decodeCounter,
  decodePodLink,
  encodeAddress,
  encodeCidr,
  encodeConfig,
  encodeContainerAddress,
  encodePodLink,
  encodeTunnelPair,
  encodeUint32,
  type PodLink,
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

const podLink: PodLink = {
  container: Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8),
  addresses: ["10.100.9.193", "10.100.9.194"],
  allowedSources: ["0.0.0.0/0", "192.0.2.8/29", "198.51.100.7/32"],
  flags: { "allow-ipip": true, "allow-ipv6": false, silent: true },
  drops: {
    ipip: { packets: 1n, bytes: 98n },
    ipv6: { packets: 2n, bytes: 3n },
    "other-ethertype": { packets: 4n, bytes: 5n },
    malformed: { packets: 6n, bytes: 7n },
    "unspecified-source": { packets: 8n, bytes: 9n },
    "spoofed-source": { packets: 2n ** 40n, bytes: 2n ** 63n },
    "spoofed-arp": { packets: 10n, bytes: 11n },
    loopback: { packets: 12n, bytes: 2n ** 64n - 1n },
  },
};

test("decodePodLink() reads what encodePodLink() wrote", () => {
  expect(decodePodLink(encodePodLink(podLink))).toEqual(podLink);
});

test("encodePodLink() writes addresses, networks and masks in network order, and zeros for what is not used", () => {
  const bytes = [...encodePodLink(podLink)];
  expect(bytes.slice(0, 8)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  expect(bytes.slice(8, 24)).toEqual([10, 100, 9, 193, 10, 100, 9, 194, 0, 0, 0, 0, 0, 0, 0, 0]);
  expect(bytes.slice(40, 48)).toEqual([5, 0, 0, 0, 3, 0, 0, 0]);
  expect(bytes.slice(48, 72)).toEqual([
    ...[0, 0, 0, 0, 0, 0, 0, 0],
    ...[192, 0, 2, 8, 255, 255, 255, 248],
    ...[198, 51, 100, 7, 255, 255, 255, 255],
  ]);
});

test.each([
  ["192.0.2.13/29", "192.0.2.8/29"],
  ["8.8.8.8/0", "0.0.0.0/0"],
  ["255.255.255.255/1", "128.0.0.0/1"],
])("encodePodLink() cuts off what lies behind the prefix of %s", (given, held) => {
  const decoded = decodePodLink(encodePodLink({ ...podLink, allowedSources: [given] }));
  expect(decoded.allowedSources).toEqual([held]);
});

test("encodeContainerAddress() writes the container's key, the address and zeros", () => {
  const bytes = encodeContainerAddress(podLink.container, "10.100.9.193");
  expect([...bytes]).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 10, 100, 9, 193, 0, 0, 0, 0]);
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
