import { CoralError } from "../../base/errors.ts";
import { type Columns, type ColumnType, columnTypeOf, type RowOf, type Signal } from "../signals/define-signal.ts";

/** Rows by column, in the byte layout that DuckDB and the wire share: little-endian, 8 bytes per number, one per bool. */
export interface ColumnBatch {
  rows: number;
  columns: BatchColumn[];
}

interface ColumnBase {
  name: string;
  /** One bit per row, lowest first, 1 = present. Undefined: no row is null. Slots of null rows are zero. */
  validity: Uint8Array | undefined;
}

export interface FixedColumn extends ColumnBase {
  kind: "fixed";
  type: "int" | "float" | "bool" | "time";
  values: Uint8Array;
}

export interface VariableColumn extends ColumnBase {
  kind: "variable";
  type: "text" | "uints";
  /** Row n holds `bytes` from offsets[n] to offsets[n + 1]. */
  offsets: Uint32Array;
  bytes: Uint8Array;
}

export type BatchColumn = FixedColumn | VariableColumn;

/** A column as stored: the two columns of every signal, then the declared ones. */
export interface StoredColumn {
  name: string;
  type: ColumnType;
  nullable: boolean;
}

/** A row's `at` is stored as `time`: AT is a keyword of DuckDB, which every query would have to quote. */
const sampleColumns: readonly StoredColumn[] = [
  { name: "time", type: "time", nullable: false },
  { name: "mono_ms", type: "float", nullable: false },
];

export function storedColumns(signal: Pick<Signal, "columns">): StoredColumn[] {
  return [...sampleColumns, ...Object.entries(signal.columns).map(([name, spec]) => ({ name, ...columnTypeOf(spec) }))];
}

/** Longer texts are rejected, so that a row always fits into a pull response. */
const maxTextBytes = 65_536;
const maxUints = 16_384;

export function widthBytesOf(type: FixedColumn["type"]): number {
  return type === "bool" ? 1 : 8;
}

/** Validates every value against the declaration: a collector's bug must not reach the file. */
export function batchFromRows<C extends Columns>(
  signal: Signal<C>,
  rows: readonly RowOf<C>[],
  stored: readonly StoredColumn[] = storedColumns(signal),
): ColumnBatch {
  const values = rows as readonly Record<string, unknown>[];
  const columns = stored.map((column) => {
    const key = column.name === "time" ? "at" : column.name;
    const builder = new ColumnBuilder(signal.name, column, rows.length);
    // No iterator, here and below: an agent's code is mostly interpreted, where an iterator costs more than the loop body.
    for (let index = 0; index < rows.length; index++) builder.set(index, values[index]?.[key]);
    return builder.finish();
  });
  return { rows: rows.length, columns };
}

class ColumnBuilder {
  readonly #signal: string;
  readonly #column: StoredColumn;
  readonly #rows: number;
  readonly #fixed: DataView;
  readonly #offsets: Uint32Array;
  #bytes: Buffer;
  #end = 0;
  #validity: Uint8Array | undefined;

  constructor(signal: string, column: StoredColumn, rows: number) {
    const variable = column.type === "text" || column.type === "uints";
    this.#signal = signal;
    this.#column = column;
    this.#rows = rows;
    this.#fixed = new DataView(new ArrayBuffer(variable ? 0 : rows * (column.type === "bool" ? 1 : 8)));
    this.#offsets = new Uint32Array(variable ? rows + 1 : 0);
    this.#bytes = Buffer.alloc(variable ? rows * 24 : 0);
  }

  set(index: number, value: unknown): void {
    if (value === null) this.#setNull(index);
    else this.#setValue(index, value);
    if (this.#offsets.length > 0) this.#offsets[index + 1] = this.#end;
  }

  finish(): BatchColumn {
    const { name, type } = this.#column;
    const validity = this.#validity;
    if (type === "text" || type === "uints") {
      return { kind: "variable", name, type, validity, offsets: this.#offsets, bytes: this.#bytes.subarray(0, this.#end) };
    }
    return { kind: "fixed", name, type, validity, values: new Uint8Array(this.#fixed.buffer) };
  }

  #setNull(index: number): void {
    if (!this.#column.nullable) throw this.#refused(null, "it must not be null");
    this.#validity ??= new Uint8Array(Math.ceil(this.#rows / 8)).fill(0xff);
    this.#validity[index >> 3] = (this.#validity[index >> 3] ?? 0) & ~(1 << (index & 7));
  }

  #setValue(index: number, value: unknown): void {
    switch (this.#column.type) {
      case "int":
      case "time":
        if (!Number.isSafeInteger(value)) throw this.#refused(value, "expected a safe integer");
        setInt64(this.#fixed, index * 8, value as number);
        return;
      case "float":
        if (typeof value !== "number" || !Number.isFinite(value)) throw this.#refused(value, "expected a finite number");
        this.#fixed.setFloat64(index * 8, value, true);
        return;
      case "bool":
        if (typeof value !== "boolean") throw this.#refused(value, "expected true or false");
        this.#fixed.setUint8(index, value ? 1 : 0);
        return;
      case "text":
        if (typeof value !== "string") throw this.#refused(value, "expected a string");
        this.#appendText(value);
        return;
      case "uints":
        if (!Array.isArray(value)) throw this.#refused(value, "expected an array");
        this.#appendUints(value);
        return;
    }
  }

  #appendText(text: string): void {
    // UTF-8 takes at most three bytes per UTF-16 unit.
    this.#reserve(text.length * 3);
    const sizeBytes = this.#bytes.write(text, this.#end, "utf8");
    if (sizeBytes > maxTextBytes) throw this.#refused(text.slice(0, 40), `it is longer than ${maxTextBytes} bytes`);
    this.#end += sizeBytes;
  }

  #appendUints(values: readonly unknown[]): void {
    if (values.length > maxUints) throw this.#refused(values.length, `it has more than ${maxUints} elements`);
    const words = new Uint32Array(values as readonly number[]);
    for (let index = 0; index < words.length; index++) {
      if (words[index] !== values[index]) throw this.#refused(values[index], "expected integers from 0 to 4294967295");
    }
    this.#reserve(words.byteLength);
    this.#bytes.set(new Uint8Array(words.buffer), this.#end);
    this.#end += words.byteLength;
  }

  #reserve(moreBytes: number): void {
    if (this.#end + moreBytes <= this.#bytes.length) return;
    const grown = Buffer.alloc(Math.max(this.#bytes.length * 2, this.#end + moreBytes));
    this.#bytes.copy(grown, 0, 0, this.#end);
    this.#bytes = grown;
  }

  #refused(value: unknown, why: string): CoralError {
    const shown = value === undefined ? "undefined" : JSON.stringify(value);
    return new CoralError({
      code: "invalid",
      message: `Cannot store a row of "${this.#signal}": column "${this.#column.name}" is ${shown}; ${why}`,
    });
  }
}

/** Writes a safe integer as 64 bits without allocating a bigint. */
export function setInt64(view: DataView, offset: number, value: number): void {
  view.setUint32(offset, value >>> 0, true);
  view.setInt32(offset + 4, Math.floor(value / 4_294_967_296), true);
}

/** The rows from `start` on, sharing the batch's memory. */
export function dropRows(batch: ColumnBatch, start: number): ColumnBatch {
  if (start === 0) return batch;
  const rows = batch.rows - start;
  const columns = batch.columns.map((column): BatchColumn => {
    const validity = column.validity && dropBits(column.validity, start, rows);
    if (column.kind === "fixed") return { ...column, validity, values: column.values.subarray(start * widthBytesOf(column.type)) };
    const base = column.offsets[start] ?? 0;
    const offsets = column.offsets.subarray(start).map((offset) => offset - base);
    return { ...column, validity, offsets, bytes: column.bytes.subarray(base) };
  });
  return { rows, columns };
}

function dropBits(bits: Uint8Array, start: number, count: number): Uint8Array {
  const kept = new Uint8Array(Math.ceil(count / 8));
  for (let index = 0; index < count; index++) {
    const from = start + index;
    if (((bits[from >> 3] ?? 0) >> (from & 7)) & 1) kept[index >> 3] = (kept[index >> 3] ?? 0) | (1 << (index & 7));
  }
  return kept;
}
