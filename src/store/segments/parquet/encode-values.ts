/** Parquet encodings of the values of a column chunk. `rows` are row numbers of the batch in file order, without nulls. */

import type { PageMemory } from "./encode-scratch.ts";
import type { DictionaryColumn, FixedColumn, TextColumn } from "./segment-batch.ts";

export interface EncodedValues {
  data: Uint8Array;
  /** For Parquet's statistics: plain-encoded, without a length. */
  min?: Uint8Array;
  max?: Uint8Array;
}

/** 64-bit values of any kind, copied as two halves: a BigInt per value costs twenty times as much. */
export function encode64(values: BigInt64Array | Float64Array, rows: Uint32Array, room: PageMemory): EncodedValues {
  const from = new Int32Array(values.buffer, values.byteOffset, values.length * 2);
  const data = room.take(rows.length * 8);
  const to = new Int32Array(data.buffer, data.byteOffset, rows.length * 2);
  for (let index = 0; index < rows.length; index++) {
    const row = (rows[index] as number) * 2;
    to[index * 2] = from[row] as number;
    to[index * 2 + 1] = from[row + 1] as number;
  }
  return { data };
}

export function encodeInt64(values: BigInt64Array, rows: Uint32Array, room: PageMemory): EncodedValues {
  const { data } = encode64(values, rows, room);
  if (rows.length === 0) return { data };
  const halves = new Int32Array(data.buffer, data.byteOffset, rows.length * 2);
  let min = 0;
  let max = 0;
  for (let at = 2; at < halves.length; at += 2) {
    if (isLess64(halves, at, min)) min = at;
    else if (isLess64(halves, max, at)) max = at;
  }
  // Copies, because they outlive the page.
  return { data, min: data.slice(min * 4, min * 4 + 8), max: data.slice(max * 4, max * 4 + 8) };
}

function isLess64(halves: Int32Array, a: number, b: number): boolean {
  const highA = halves[a + 1] as number;
  const highB = halves[b + 1] as number;
  return highA < highB || (highA === highB && (halves[a] as number) >>> 0 < (halves[b] as number) >>> 0);
}

export function encodeInt32(values: Int32Array, rows: Uint32Array, room: PageMemory): EncodedValues {
  const data = room.take(rows.length * 4);
  const to = new Int32Array(data.buffer, data.byteOffset, rows.length);
  let min = 0x7fff_ffff;
  let max = -0x8000_0000;
  for (let index = 0; index < rows.length; index++) {
    const value = values[rows[index] as number] as number;
    to[index] = value;
    if (value < min) min = value;
    if (value > max) max = value;
  }
  if (rows.length === 0) return { data };
  return { data, min: bytesOf(Int32Array.of(min)), max: bytesOf(Int32Array.of(max)) };
}

export function encodeBools(values: Uint8Array, rows: Uint32Array, room: PageMemory): EncodedValues {
  const data = room.take(Math.ceil(rows.length / 8)).fill(0);
  for (let index = 0; index < rows.length; index++) {
    if (values[rows[index] as number] !== 0) data[index >> 3] = (data[index >> 3] as number) | (1 << (index & 7));
  }
  return { data };
}

/** `widthBytes` is a multiple of four. */
export function encodeFixed({ bytes, widthBytes }: FixedColumn, rows: Uint32Array, room: PageMemory): EncodedValues {
  const data = room.take(rows.length * widthBytes);
  const [source, target] = [viewOf(bytes), viewOf(data)];
  for (let index = 0; index < rows.length; index++) {
    const from = (rows[index] as number) * widthBytes;
    const to = index * widthBytes;
    for (let at = 0; at < widthBytes; at += 4) target.setInt32(to + at, source.getInt32(from + at));
  }
  return { data };
}

/** Eight big-endian bytes as a little-endian number, so that SQL shows the same hex digits. */
export function encodeReversed8({ bytes }: FixedColumn, rows: Uint32Array, room: PageMemory): EncodedValues {
  const data = room.take(rows.length * 8);
  const [source, target] = [viewOf(bytes), viewOf(data)];
  for (let index = 0; index < rows.length; index++) {
    const from = (rows[index] as number) * 8;
    target.setInt32(index * 8, source.getInt32(from + 4, false), true);
    target.setInt32(index * 8 + 4, source.getInt32(from, false), true);
  }
  return { data };
}

/** Texts with their lengths. `entries` are indexes into `offsets`. */
export function encodeTexts({ bytes, offsets }: TextColumn | DictionaryColumn, entries: Uint32Array, room: PageMemory): EncodedValues {
  let sizeBytes = entries.length * 4;
  for (const entry of entries) sizeBytes += (offsets[entry + 1] as number) - (offsets[entry] as number);
  const from = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const data = room.take(sizeBytes);
  let to = 0;
  for (const entry of entries) {
    const start = offsets[entry] as number;
    const end = offsets[entry + 1] as number;
    data[to] = end - start;
    data[to + 1] = (end - start) >>> 8;
    data[to + 2] = (end - start) >>> 16;
    data[to + 3] = (end - start) >>> 24;
    to += 4;
    // A call costs as much as a loop over about 20 bytes.
    if (end - start > 24) from.copy(data, to, start, end);
    else for (let at = start; at < end; at++) data[to + at - start] = from[at] as number;
    to += end - start;
  }
  return { data };
}

/** Values of `width` bits in Parquet's RLE/bit-packed hybrid: all runs or all packed, whichever is smaller. */
export function encodeRuns(values: Uint32Array, width: number): Uint8Array {
  let runs = values.length > 0 ? 1 : 0;
  for (let index = 1; index < values.length; index++) if (values[index] !== values[index - 1]) runs++;
  const valueBytes = Math.ceil(width / 8);
  const packedBytes = Math.ceil(values.length / 8) * width;
  return runs * (3 + valueBytes) < packedBytes || width === 0 ? repeated(values, valueBytes, runs) : packed(values, width);
}

/** One run: a value of at most 8 bits, repeated `count` times. */
export function encodeRun(value: number, count: number): Uint8Array {
  if (count === 0) return new Uint8Array(0);
  const data = new Uint8Array(6);
  const end = putVarint(data, 0, count * 2);
  data[end] = value;
  return data.subarray(0, end + 1);
}

function repeated(values: Uint32Array, valueBytes: number, runs: number): Uint8Array {
  const data = new Uint8Array(runs * (5 + valueBytes));
  let end = 0;
  for (let start = 0; start < values.length; ) {
    const value = values[start] as number;
    let next = start + 1;
    while (next < values.length && values[next] === value) next++;
    end = putVarint(data, end, (next - start) * 2);
    for (let at = 0; at < valueBytes; at++) data[end++] = value >>> (at * 8);
    start = next;
  }
  return data.subarray(0, end);
}

function packed(values: Uint32Array, width: number): Uint8Array {
  const groups = Math.ceil(values.length / 8);
  const data = new Uint8Array(5 + groups * width);
  let end = putVarint(data, 0, groups * 2 + 1);
  let pending = 0;
  let bits = 0;
  for (let index = 0; index < groups * 8; index++) {
    // Widths are below 25, so a value and the remaining bits of the previous one fit in 32 bits.
    pending |= (index < values.length ? (values[index] as number) : 0) << bits;
    bits += width;
    while (bits >= 8) {
      data[end++] = pending;
      pending >>>= 8;
      bits -= 8;
    }
  }
  return data.subarray(0, end);
}

function putVarint(data: Uint8Array, at: number, value: number): number {
  let end = at;
  let rest = value;
  while (rest > 127) {
    data[end++] = (rest & 127) | 128;
    rest >>>= 7;
  }
  data[end++] = rest;
  return end;
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

function bytesOf(values: Int32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
