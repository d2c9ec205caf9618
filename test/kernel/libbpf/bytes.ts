/** Numbers as BPF programs store them: in the byte order of the machine. */
export function u32(number: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(number).buffer);
}

export function u64(number: number): Uint8Array {
  return new Uint8Array(BigUint64Array.of(BigInt(number)).buffer);
}

export function toNumber(bytes: Uint8Array | undefined): number | undefined {
  return (
    bytes &&
    Number(bytes.length === 4 ? new Uint32Array(bytes.slice().buffer)[0] : new BigUint64Array(bytes.slice().buffer)[0])
  );
}
