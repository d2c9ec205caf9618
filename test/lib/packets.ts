/** Builds frames from layers, outermost first, with lengths and checksums as a real stack would fill them in. */
import { toBytes } from "../../src/netlink/ipv4.ts";

export interface Layer {
  /** How an Ethernet header or VLAN tag in front of this layer announces it. */
  readonly ethertype?: number;
  /** How an IPv4 header in front of this layer announces it. */
  readonly protocol?: number;
  build(payload: Buffer, next: Layer | undefined): Buffer;
  /** Fills the checksum that covers the addresses of the IPv4 header in front. */
  seal?(segment: Buffer, source: string, destination: string): void;
}

export interface Ipv4Fields {
  readonly protocol?: number;
  readonly version?: number;
  /** Bytes of options behind the 20 of the header, a multiple of 4, at most 40; filled with "no operation". */
  readonly optionBytes?: number;
  /** Header length in units of 4 bytes, as claimed; by default the true one. */
  readonly headerWords?: number;
  /** Bytes of header and payload, as claimed; by default the true number. */
  readonly totalLength?: number;
  readonly identification?: number;
  /** Where the fragment lies in the payload, in bytes, a multiple of 8. */
  readonly fragmentOffset?: number;
  readonly moreFragments?: boolean;
}

/** RFC 826. Lengths are those that are claimed, in bytes: the addresses are those of IPv4 on Ethernet all the same. */
export interface ArpFields {
  readonly hardwareType?: number;
  readonly protocolType?: number;
  readonly hardwareLength?: number;
  readonly protocolLength?: number;
  /** 1 asks, 2 answers. */
  readonly operation?: number;
}

export const protocolNumbers = { icmp: 1, ipip: 4, tcp: 6, udp: 17 } as const;

const ethertypes = { ipv4: 0x0800, arp: 0x0806, vlan: 0x8100, serviceVlan: 0x88a8, ipv6: 0x86dd } as const;

export function frame(...layers: readonly Layer[]): Buffer {
  return layers.reduceRight<Buffer>(
    (payload, layer, index) => layer.build(payload, layers[index + 1]),
    Buffer.alloc(0),
  );
}

export function eth(destination = "02:00:00:00:00:01", source = "02:00:00:00:00:02"): Layer {
  return {
    build(payload, next) {
      const addresses = Buffer.from((destination + source).replaceAll(":", ""), "hex");
      return Buffer.concat([addresses, uint16(next?.ethertype ?? 0), payload]);
    },
  };
}

/** @param id VLAN identifier, 1 to 4094 */
export function vlan(id: number, ethertype: "vlan" | "serviceVlan" = "vlan"): Layer {
  return {
    ethertype: ethertypes[ethertype],
    build: (payload, next) => Buffer.concat([uint16(id), uint16(next?.ethertype ?? 0), payload]),
  };
}

export function ipv4(source: string, destination: string, fields: Ipv4Fields = {}): Layer {
  return {
    ethertype: ethertypes.ipv4,
    protocol: protocolNumbers.ipip,
    build(payload, next) {
      next?.seal?.(payload, source, destination);
      const header = Buffer.alloc(20 + (fields.optionBytes ?? 0), 0x01);
      header.fill(0, 0, 20);
      header.writeUInt8(((fields.version ?? 4) << 4) | (fields.headerWords ?? header.length / 4), 0);
      header.writeUInt16BE(fields.totalLength ?? header.length + payload.length, 2);
      header.writeUInt16BE(fields.identification ?? 1, 4);
      header.writeUInt16BE((fields.moreFragments ? 0x2000 : 0) | ((fields.fragmentOffset ?? 0) / 8), 6);
      header.writeUInt8(64, 8);
      header.writeUInt8(fields.protocol ?? next?.protocol ?? 0, 9);
      toBytes(source).copy(header, 12);
      toBytes(destination).copy(header, 16);
      header.writeUInt16BE(checksum(header), 10);
      return Buffer.concat([header, payload]);
    },
  };
}

export function udp(sourcePort: number, destinationPort: number): Layer {
  return {
    protocol: protocolNumbers.udp,
    build(payload) {
      const length = 8 + payload.length;
      return Buffer.concat([uint16(sourcePort), uint16(destinationPort), uint16(length), uint16(0), payload]);
    },
    seal: (segment, source, destination) => sealTransport(segment, source, destination, protocolNumbers.udp, 6),
  };
}

/** A SYN. */
export function tcp(sourcePort: number, destinationPort: number): Layer {
  return {
    protocol: protocolNumbers.tcp,
    build(payload) {
      const header = Buffer.alloc(20);
      header.writeUInt16BE(sourcePort, 0);
      header.writeUInt16BE(destinationPort, 2);
      header.writeUInt8(5 << 4, 12);
      header.writeUInt8(0x02, 13);
      header.writeUInt16BE(65535, 14);
      return Buffer.concat([header, payload]);
    },
    seal: (segment, source, destination) => sealTransport(segment, source, destination, protocolNumbers.tcp, 16),
  };
}

/** An error about the packet in the layers behind it. @param type of RFC 792 */
export function icmpError(type: number, code = 0): Layer {
  return {
    protocol: protocolNumbers.icmp,
    build: (payload) => {
      const header = Buffer.from([type, code, 0, 0, 0, 0, 600 >> 8, 600 & 255]); // "fragmentation needed": an MTU of 600
      const message = Buffer.concat([header, payload]);
      message.writeUInt16BE(checksum(message), 2);
      return message;
    },
  };
}

export function icmpEcho(): Layer {
  return {
    protocol: protocolNumbers.icmp,
    build(payload) {
      const message = Buffer.concat([Buffer.from([8, 0, 0, 0, 0, 1, 0, 1]), payload]);
      message.writeUInt16BE(checksum(message), 2);
      return message;
    },
  };
}

/** By default "who has `target`? Tell `sender`", with the addresses that `eth()` has. */
export function arp(sender: string, target: string, fields: ArpFields = {}): Layer {
  return {
    ethertype: ethertypes.arp,
    build(payload) {
      const fixed = Buffer.alloc(8);
      fixed.writeUInt16BE(fields.hardwareType ?? 1, 0);
      fixed.writeUInt16BE(fields.protocolType ?? ethertypes.ipv4, 2);
      fixed.writeUInt8(fields.hardwareLength ?? 6, 4);
      fixed.writeUInt8(fields.protocolLength ?? 4, 5);
      fixed.writeUInt16BE(fields.operation ?? 1, 6);
      const senderMac = Buffer.from("020000000002", "hex");
      return Buffer.concat([fixed, senderMac, toBytes(sender), Buffer.alloc(6), toBytes(target), payload]);
    },
  };
}

/** @param nextHeader 4 is IPv4 in IPv6 (RFC 2473) */
export function ipv6(nextHeader: number): Layer {
  return {
    ethertype: ethertypes.ipv6,
    build(payload) {
      const header = Buffer.alloc(40);
      header.writeUInt8(6 << 4, 0);
      header.writeUInt16BE(payload.length, 4);
      header.writeUInt8(nextHeader, 6);
      header.writeUInt8(64, 7);
      header.writeUInt16BE(0xfe80, 8);
      header.writeUInt16BE(0xfe80, 24);
      return Buffer.concat([header, payload]);
    },
  };
}

/** 0x88b5, which IEEE 802 leaves to experiments; adds no header of its own. */
export function unknownEthertype(): Layer {
  return { ethertype: 0x88b5, build: (payload) => payload };
}

/** @param size bytes */
export function data(size: number, fill = 0x61): Layer {
  return { build: (payload) => Buffer.concat([Buffer.alloc(size, fill), payload]) };
}

/** Part of a packet, as the payload of a fragment. @param start, end bytes */
export function part(of: Buffer, start: number, end?: number): Layer {
  return { build: (payload) => Buffer.concat([of.subarray(start, end), payload]) };
}

/** RFC 1071 */
function checksum(bytes: Uint8Array): number {
  let sum = 0;
  for (const [index, byte] of bytes.entries()) {
    sum += index % 2 === 0 ? byte << 8 : byte;
  }
  while (sum > 0xffff) {
    sum = (sum & 0xffff) + (sum >>> 16);
  }
  return ~sum & 0xffff;
}

function sealTransport(segment: Buffer, source: string, destination: string, protocol: number, offset: number): void {
  const pseudoHeader = [toBytes(source), toBytes(destination), uint16(protocol), uint16(segment.length)];
  segment.writeUInt16BE(0, offset);
  segment.writeUInt16BE(checksum(Buffer.concat([...pseudoHeader, segment])) || 0xffff, offset);
}

function uint16(value: number): Buffer {
  return Buffer.from([value >>> 8, value & 0xff]);
}
