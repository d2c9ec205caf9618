/** IPv4 addresses as rtnetlink carries them: four bytes in network order. */

export function toBytes(address: string): Buffer {
  return Buffer.from(address.split(".").map(Number));
}

export function fromBytes(bytes: Uint8Array): string {
  return bytes.join(".");
}
