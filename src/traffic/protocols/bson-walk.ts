/** Walks the top-level elements of a BSON document, which may be truncated. */

export interface BsonElement {
  type: number;
  name: string;
  /** Offset of its value. */
  from: number;
  /** For strings, at most 200 bytes; else empty. */
  text(): string;
  /** For numbers and booleans; else NaN. */
  number(): number;
}

/** Sizes of fixed-size values, by type. */
const fixedBytes: ReadonlyMap<number, number> = new Map([
  [0x01, 8],
  [0x06, 0],
  [0x07, 12],
  [0x08, 1],
  [0x09, 8],
  [0x0a, 0],
  [0x10, 4],
  [0x11, 8],
  [0x12, 8],
  [0x13, 16],
  [0x7f, 0],
  [0xff, 0],
]);
const maxNameBytes = 128;

/** Calls `visit` for each complete element until it returns false. Stops at the end of the bytes or at an invalid element. */
export function walkBson(bytes: Buffer, from: number, to: number, visit: (element: BsonElement) => boolean): void {
  if (from < 0 || from + 5 > to) return;
  const end = Math.min(to, from + bytes.readInt32LE(from));
  let at = from + 4;
  while (at < end) {
    const type = bytes[at] ?? 0;
    if (type === 0) return;
    let nameEnd = at + 1;
    while (nameEnd < end && nameEnd - at <= maxNameBytes && bytes[nameEnd] !== 0) nameEnd++;
    if (nameEnd >= end || bytes[nameEnd] !== 0) return;
    const name = bytes.toString("latin1", at + 1, nameEnd);
    const valueFrom = nameEnd + 1;
    const length = valueLength(bytes, type, valueFrom, end);
    if (length < 0) return;
    // Documents and arrays need only their head.
    if (valueFrom + length > end && type !== 3 && type !== 4) return;
    if (!visit({ type, name, from: valueFrom, text: () => textOf(bytes, type, valueFrom), number: () => numberOf(bytes, type, valueFrom) }))
      return;
    at = valueFrom + length;
  }
}

/** -1 if unknown. */
function valueLength(bytes: Buffer, type: number, at: number, end: number): number {
  const fixed = fixedBytes.get(type);
  if (fixed !== undefined) return fixed;
  if (type === 0x0b) {
    // A pattern and its options, both zero-terminated.
    const first = bytes.indexOf(0, at);
    const second = first < 0 ? -1 : bytes.indexOf(0, first + 1);
    return second < 0 || second >= end ? -1 : second + 1 - at;
  }
  if (at + 4 > end) return -1;
  const length = bytes.readInt32LE(at);
  if (length < 0) return -1;
  switch (type) {
    case 0x02: // text
    case 0x0d: // code
    case 0x0e: // symbol
      return 4 + length;
    case 0x03: // document
    case 0x04: // array
    case 0x0f: // code with scope
      return length < 5 ? -1 : length;
    case 0x05: // binary
      return 5 + length;
    case 0x0c: // pointer
      return 4 + length + 12;
    default:
      return -1;
  }
}

function textOf(bytes: Buffer, type: number, at: number): string {
  if (type !== 2) return "";
  const length = bytes.readInt32LE(at) - 1;
  return length < 0 || length > 200 ? "" : bytes.toString("utf8", at + 4, at + 4 + length);
}

function numberOf(bytes: Buffer, type: number, at: number): number {
  switch (type) {
    case 0x01:
      return bytes.readDoubleLE(at);
    case 0x08:
      return bytes[at] ?? 0;
    case 0x10:
      return bytes.readInt32LE(at);
    case 0x12:
      return Number(bytes.readBigInt64LE(at));
    default:
      return Number.NaN;
  }
}
