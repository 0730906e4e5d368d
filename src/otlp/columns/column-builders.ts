/** Builders for the columns of a batch. A row is written cell by cell; unwritten cells are null, or zero in columns without nulls. */

import type { BatchColumn } from "../../store/segments/index.ts";
import type { ByteDictionary } from "./byte-dictionary.ts";
import { ByteWriter } from "./byte-writer.ts";

/** What all builders of a batch share. */
export interface ColumnBuilder {
  /** Ensures capacity for this many rows. */
  grow(capacity: number): void;
  /** Undoes the last row. */
  clear(row: number): void;
  /** Call after the last row. Undefined if a nullable column has only nulls. The column shares the builder's arrays. */
  finish(rows: number): BatchColumn | undefined;
  /** Clears the builder but keeps its memory. Results of `finish` must not be used afterwards. */
  reset(): void;
}

/** One bit per row, lowest first. */
class Presence {
  #bits = new Uint8Array(0);
  #count = 0;

  grow(capacity: number): void {
    const bits = new Uint8Array(Math.ceil(capacity / 8));
    bits.set(this.#bits);
    this.#bits = bits;
  }

  has(row: number): boolean {
    return (((this.#bits[row >> 3] as number) >> (row & 7)) & 1) === 1;
  }

  set(row: number): void {
    const mask = 1 << (row & 7);
    const bits = this.#bits[row >> 3] as number;
    if ((bits & mask) !== 0) return;
    this.#bits[row >> 3] = bits | mask;
    this.#count++;
  }

  clear(row: number): void {
    if (!this.has(row)) return;
    this.#bits[row >> 3] = (this.#bits[row >> 3] as number) & ~(1 << (row & 7));
    this.#count--;
  }

  reset(): void {
    this.#bits.fill(0);
    this.#count = 0;
  }

  /** `column` with its bitmap: none when every row has a value, and no column when none has. */
  apply(column: BatchColumn, rows: number): BatchColumn | undefined {
    if (this.#count === 0 && rows > 0) return undefined;
    return this.#count === rows ? column : { ...column, present: this.#bits };
  }
}

/** 64-bit integers, written as two halves, without a bigint per cell. */
export class Int64Builder implements ColumnBuilder {
  #words = new Uint32Array(0);

  grow(capacity: number): void {
    const words = new Uint32Array(capacity * 2);
    words.set(this.#words);
    this.#words = words;
  }

  set(row: number, low: number, high: number): void {
    this.#words[row * 2] = low;
    this.#words[row * 2 + 1] = high;
  }

  /** From 0 to 2^53. */
  setNumber(row: number, value: number): void {
    this.set(row, value % 2 ** 32, Math.floor(value / 2 ** 32));
  }

  clear(row: number): void {
    this.set(row, 0, 0);
  }

  finish(): BatchColumn {
    return { kind: "int64", values: new BigInt64Array(this.#words.buffer) };
  }

  reset(): void {
    this.#words.fill(0);
  }
}

/** 32-bit integers. Without `nullable`, an unwritten cell is 0. */
export class Int32Builder implements ColumnBuilder {
  #values = new Int32Array(0);
  readonly #presence: Presence | undefined;

  constructor(nullable: boolean) {
    this.#presence = nullable ? new Presence() : undefined;
  }

  grow(capacity: number): void {
    const values = new Int32Array(capacity);
    values.set(this.#values);
    this.#values = values;
    this.#presence?.grow(capacity);
  }

  has(row: number): boolean {
    return this.#presence?.has(row) ?? true;
  }

  set(row: number, value: number): void {
    this.#values[row] = value;
    this.#presence?.set(row);
  }

  get(row: number): number {
    return this.#values[row] as number;
  }

  clear(row: number): void {
    this.#values[row] = 0;
    this.#presence?.clear(row);
  }

  finish(rows: number): BatchColumn | undefined {
    const column: BatchColumn = { kind: "int32", values: this.#values };
    return this.#presence === undefined ? column : this.#presence.apply(column, rows);
  }

  reset(): void {
    this.#values.fill(0);
    this.#presence?.reset();
  }
}

/** 64-bit floats, without nulls. */
export class DoubleBuilder implements ColumnBuilder {
  #values = new Float64Array(0);

  grow(capacity: number): void {
    const values = new Float64Array(capacity);
    values.set(this.#values);
    this.#values = values;
  }

  set(row: number, value: number): void {
    this.#values[row] = value;
  }

  clear(row: number): void {
    this.#values[row] = 0;
  }

  finish(): BatchColumn {
    return { kind: "double", values: this.#values };
  }

  reset(): void {
    this.#values.fill(0);
  }
}

/** Repeating text, by its code in the batch's dictionary. */
export class CodeBuilder implements ColumnBuilder {
  #codes = new Uint32Array(0);
  readonly #presence: Presence | undefined;
  readonly #dictionary: () => { bytes: Uint8Array; offsets: Uint32Array };

  /** `dictionary` is called once, at the end; several columns may share its arrays. */
  constructor(nullable: boolean, dictionary: () => { bytes: Uint8Array; offsets: Uint32Array }) {
    this.#presence = nullable ? new Presence() : undefined;
    this.#dictionary = dictionary;
  }

  grow(capacity: number): void {
    const codes = new Uint32Array(capacity);
    codes.set(this.#codes);
    this.#codes = codes;
    this.#presence?.grow(capacity);
  }

  has(row: number): boolean {
    return this.#presence?.has(row) ?? true;
  }

  get(row: number): number {
    return this.#codes[row] as number;
  }

  set(row: number, code: number): void {
    this.#codes[row] = code;
    this.#presence?.set(row);
  }

  clear(row: number): void {
    this.#codes[row] = 0;
    this.#presence?.clear(row);
  }

  finish(rows: number): BatchColumn | undefined {
    const column: BatchColumn = { kind: "dictionary", codes: this.#codes, ...this.#dictionary() };
    return this.#presence === undefined ? column : this.#presence.apply(column, rows);
  }

  reset(): void {
    this.#codes.fill(0);
    this.#presence?.reset();
  }
}

/** Text that rarely repeats. `writer` takes the row's text, `end` completes it; a row without either is null. */
export class TextBuilder implements ColumnBuilder {
  readonly writer: ByteWriter;
  #offsets = new Uint32Array(1);
  readonly #presence = new Presence();

  constructor(initialBytes: number) {
    this.writer = new ByteWriter(initialBytes);
  }

  grow(capacity: number): void {
    const offsets = new Uint32Array(capacity + 1);
    offsets.set(this.#offsets);
    this.#offsets = offsets;
    this.#presence.grow(capacity);
  }

  /** Once for each row, in order; `isPresent` false makes it null. */
  end(row: number, isPresent: boolean): void {
    this.#offsets[row + 1] = this.writer.size;
    if (isPresent) this.#presence.set(row);
  }

  clear(row: number): void {
    this.writer.size = this.#offsets[row] as number;
    this.#presence.clear(row);
  }

  finish(rows: number): BatchColumn | undefined {
    const column: BatchColumn = { kind: "text", bytes: this.writer.bytes.subarray(0, this.writer.size), offsets: this.#offsets };
    return this.#presence.apply(column, rows);
  }

  reset(): void {
    this.writer.reset();
    this.#offsets.fill(0);
    this.#presence.reset();
  }
}

/** Raw bytes of a fixed width. */
export class FixedBuilder implements ColumnBuilder {
  bytes = new Uint8Array(0);
  readonly #widthBytes: number;
  readonly #presence: Presence | undefined;

  constructor(widthBytes: number, nullable: boolean) {
    this.#widthBytes = widthBytes;
    this.#presence = nullable ? new Presence() : undefined;
  }

  grow(capacity: number): void {
    const bytes = new Uint8Array(capacity * this.#widthBytes);
    bytes.set(this.bytes);
    this.bytes = bytes;
    this.#presence?.grow(capacity);
  }

  /** False for a value of another width, or all zeros, which means absent. */
  set(row: number, source: Uint8Array, start: number, end: number): boolean {
    const width = this.#widthBytes;
    if (end - start !== width) return false;
    let any = 0;
    const to = row * width;
    for (let index = 0; index < width; index++) {
      const byte = source[start + index] as number;
      any |= byte;
      this.bytes[to + index] = byte;
    }
    if (any !== 0) this.#presence?.set(row);
    return any !== 0;
  }

  clear(row: number): void {
    this.bytes.fill(0, row * this.#widthBytes, (row + 1) * this.#widthBytes);
    this.#presence?.clear(row);
  }

  finish(rows: number): BatchColumn | undefined {
    const column: BatchColumn = { kind: "fixed", widthBytes: this.#widthBytes, bytes: this.bytes };
    return this.#presence === undefined ? column : this.#presence.apply(column, rows);
  }

  reset(): void {
    this.bytes.fill(0);
    this.#presence?.reset();
  }
}

/** Arrays of a dictionary that several columns share, packed once per batch. */
export function sharedDictionary(dictionary: ByteDictionary): () => { bytes: Uint8Array; offsets: Uint32Array } {
  let packed: { bytes: Uint8Array; offsets: Uint32Array } | undefined;
  let ofBatch = dictionary.batch;
  return () => {
    if (packed === undefined || ofBatch !== dictionary.batch) packed = dictionary.packed();
    ofBatch = dictionary.batch;
    return packed;
  };
}
