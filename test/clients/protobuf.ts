/** As much of Protocol Buffers 3 as the tests' messages need: small whole numbers, texts, and messages within messages. */

/** Name to number and kind of each field. An object is a message within, a list of one kind a repeated field. */
export interface Schema {
  readonly [name: string]: readonly [number: number, kind: Kind | readonly [Kind]];
}
type Kind = "number" | "text" | Schema;

// biome-ignore lint/suspicious/noExplicitAny: the schema is the type
export type Message = any;

/** Wire types: encoding guide, "Message Structure". */
const varintType = 0;
const lengthType = 2;

/** Fields that the message does not have are left out. */
export function encode(schema: Schema, message: Message): Buffer {
  const fields = Object.entries(schema).flatMap(([name, [number, kind]]) => {
    const value = message[name];
    const values = value === undefined ? [] : isRepeated(kind) ? value : [value];
    return values.map((each: Message) => encodeField(number, elementOf(kind), each));
  });
  return Buffer.concat(fields);
}

/** Numbers and texts that are not in the bytes are 0 and "", as the language has it; unknown fields are passed over. */
export function decode(schema: Schema, bytes: Buffer): Message {
  const fields = readFields(bytes);
  const entries = Object.entries(schema).map(([name, [number, kind]]) => {
    const element = elementOf(kind);
    const values = fields.filter((field) => field.number === number).map(({ value }) => decodeValue(element, value));
    return [name, isRepeated(kind) ? values : (values.at(-1) ?? defaultOf(element))];
  });
  return Object.fromEntries(entries);
}

function isRepeated(kind: Kind | readonly [Kind]): kind is readonly [Kind] {
  return Array.isArray(kind);
}

function elementOf(kind: Kind | readonly [Kind]): Kind {
  return isRepeated(kind) ? kind[0] : kind;
}

function defaultOf(kind: Kind): 0 | "" | undefined {
  return kind === "number" ? 0 : kind === "text" ? "" : undefined;
}

function encodeField(number: number, kind: Kind, value: Message): Buffer {
  if (kind === "number") {
    return Buffer.concat([varint((number << 3) | varintType), varint(value)]);
  }
  const content = kind === "text" ? Buffer.from(value) : encode(kind, value);
  return Buffer.concat([varint((number << 3) | lengthType), varint(content.length), content]);
}

function decodeValue(kind: Kind, value: number | Buffer): Message {
  return Buffer.isBuffer(value) && kind !== "number" ? (kind === "text" ? `${value}` : decode(kind, value)) : value;
}

/** Seven bits a byte, the lowest first; the high bit says that more follow. */
function varint(value: number): Buffer {
  const bytes = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) {
    bytes.push((rest % 0x80) | 0x80);
  }
  return Buffer.from([...bytes, rest]);
}

function readFields(bytes: Buffer): { number: number; value: number | Buffer }[] {
  const fields = [];
  let offset = 0;
  const readVarint = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 0x80) {
      const byte = bytes.readUInt8(offset++);
      value += (byte & 0x7f) * factor;
      if (byte <= 0x7f) {
        return value;
      }
    }
  };
  while (offset < bytes.length) {
    const tag = readVarint();
    const first = readVarint();
    const number = tag >>> 3;
    switch (tag & 7) {
      case varintType:
        fields.push({ number, value: first });
        break;
      case lengthType:
        fields.push({ number, value: bytes.subarray(offset, offset + first) });
        offset += first;
        break;
      default:
        throw new Error(`Cannot read a message: wire type is ${tag & 7}, allowed are 0 and 2`);
    }
  }
  return fields;
}
