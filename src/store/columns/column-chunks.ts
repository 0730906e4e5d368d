/** Copies column batches in and out of DuckDB, whole columns at a time; row by row costs three times as much. */

import duckdb from "@duckdb/node-bindings";
import type { ColumnResult, Connection } from "../engine/connection.ts";
import { type BatchColumn, type FixedColumn, type StoredColumn, type VariableColumn, widthBytesOf } from "./column-batch.ts";

const chunkRows = 2_048;
/** DuckDB's string_t: u32 length, then up to 12 bytes inline. Longer strings hold a 4-byte prefix and a pointer. */
const stringBytes = 16;
const inlineBytes = 12;

/** The source of a table column: a batch's column, one value for all rows, or consecutive numbers. */
export type ColumnSource =
  | BatchColumn
  | { kind: "constant"; value: bigint; widthBytes: 4 | 8 }
  | { kind: "sequence"; first: number }
  | { kind: "null" };

export interface TableTarget {
  database: string;
  schema: string;
  table: string;
  /** DuckDB types of all columns, in table order. */
  types: readonly duckdb.Type[];
}

const appenders = new WeakMap<Connection, Map<string, TableAppender>>();

/**
 * Appends to one table inside the connection's transaction. Kept as long as the connection: otherwise DuckDB's buffers, some 300 kB, would
 * wait for the garbage collector after every commit. Close a connection whose transaction failed, together with its appenders.
 */
export class TableAppender {
  readonly #appender: duckdb.Appender;
  readonly #chunk: duckdb.DataChunk;
  readonly #columnCount: number;

  private constructor(connection: Connection, target: TableTarget) {
    this.#columnCount = target.types.length;
    this.#appender = duckdb.appender_create_ext(connection.handle, target.database, target.schema, target.table);
    this.#chunk = duckdb.create_data_chunk(target.types.map(logicalType));
  }

  static of(connection: Connection, target: TableTarget): TableAppender {
    let known = appenders.get(connection);
    if (known === undefined) {
      known = new Map();
      appenders.set(connection, known);
    }
    const key = `${target.database}.${target.schema}.${target.table}`;
    let appender = known.get(key);
    if (appender === undefined) {
      appender = new TableAppender(connection, target);
      known.set(key, appender);
    }
    return appender;
  }

  /** One source per column, in table order. */
  append(sources: readonly ColumnSource[], rows: number): void {
    if (sources.length !== this.#columnCount)
      throw new Error(`Cannot append: ${sources.length} columns for a table of ${this.#columnCount}`);
    for (let start = 0; start < rows; start += chunkRows) {
      const count = Math.min(chunkRows, rows - start);
      duckdb.data_chunk_reset(this.#chunk);
      duckdb.data_chunk_set_size(this.#chunk, count);
      for (const [index, source] of sources.entries()) fill(duckdb.data_chunk_get_vector(this.#chunk, index), source, start, count);
      duckdb.append_data_chunk(this.#appender, this.#chunk);
    }
  }

  /** Call before the commit. */
  flush(): void {
    duckdb.appender_flush_sync(this.#appender);
  }
}

function logicalType(type: duckdb.Type): duckdb.LogicalType {
  if (type === duckdb.Type.LIST) return duckdb.create_list_type(duckdb.create_logical_type(duckdb.Type.UINTEGER));
  return duckdb.create_logical_type(type);
}

function copy(vector: duckdb.Vector, bytes: Uint8Array): void {
  duckdb.copy_data_to_vector(vector, 0, bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength);
}

function copyValidity(vector: duckdb.Vector, bits: Uint8Array): void {
  duckdb.vector_ensure_validity_writable(vector);
  duckdb.copy_data_to_vector_validity(vector, 0, bits.buffer as ArrayBuffer, bits.byteOffset, bits.byteLength);
}

/** `start` must be a multiple of the chunk size, so that validity can be cut at a byte. */
function fill(vector: duckdb.Vector, source: ColumnSource, start: number, count: number): void {
  switch (source.kind) {
    case "null":
      copyValidity(vector, new Uint8Array(Math.ceil(count / 8)));
      return;
    case "constant":
      copy(
        vector,
        source.widthBytes === 8
          ? bytesOf(new BigUint64Array(count).fill(source.value))
          : bytesOf(new Uint32Array(count).fill(Number(source.value))),
      );
      return;
    case "sequence": {
      const values = new BigUint64Array(count);
      for (let index = 0; index < count; index++) values[index] = BigInt(source.first + start + index);
      copy(vector, bytesOf(values));
      return;
    }
    case "fixed":
    case "variable":
      if (source.kind === "fixed") {
        const width = widthBytesOf(source.type);
        copy(vector, source.values.subarray(start * width, (start + count) * width));
      } else if (source.type === "text") fillText(vector, source, start, count);
      else fillUints(vector, source, start, count);
      if (source.validity) copyValidity(vector, source.validity.subarray(start >> 3, (start >> 3) + Math.ceil(count / 8)));
  }
}

function bytesOf(values: BigUint64Array | Uint32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/** Short texts are inline and copied together; DuckDB copies each long one itself. */
function fillText(vector: duckdb.Vector, { offsets, bytes }: VariableColumn, start: number, count: number): void {
  const strings = new Uint8Array(count * stringBytes);
  const long: number[] = [];
  for (let index = 0; index < count; index++) {
    const from = offsets[start + index] ?? 0;
    const length = (offsets[start + index + 1] ?? 0) - from;
    if (length > inlineBytes) {
      long.push(index);
      continue;
    }
    const to = index * stringBytes;
    strings[to] = length;
    for (let byte = 0; byte < length; byte++) strings[to + 4 + byte] = bytes[from + byte] ?? 0;
  }
  copy(vector, strings);
  for (const index of long) {
    duckdb.vector_assign_string_element_len(vector, index, bytes.subarray(offsets[start + index], offsets[start + index + 1]));
  }
}

function fillUints(vector: duckdb.Vector, { offsets, bytes }: VariableColumn, start: number, count: number): void {
  const base = offsets[start] ?? 0;
  const end = offsets[start + count] ?? base;
  const entries = new BigUint64Array(count * 2);
  for (let index = 0; index < count; index++) {
    const from = offsets[start + index] ?? 0;
    entries[index * 2] = BigInt((from - base) / 4);
    entries[index * 2 + 1] = BigInt(((offsets[start + index + 1] ?? 0) - from) / 4);
  }
  duckdb.list_vector_reserve(vector, (end - base) / 4);
  duckdb.list_vector_set_size(vector, (end - base) / 4);
  if (end > base) copy(duckdb.list_vector_get_child(vector), bytes.subarray(base, end));
  copy(vector, bytesOf(entries));
}

/** Columns of a finished result from position `first` on, named and typed by `columns`. */
export function readColumns(result: ColumnResult, first: number, columns: readonly StoredColumn[]): BatchColumn[] {
  const sizes = result.chunks.map((chunk) => duckdb.data_chunk_get_size(chunk));
  const rows = sizes.reduce((total, size) => total + size, 0);
  return columns.map(({ name, type }, index) => {
    const vectors = result.chunks.map((chunk, at) => ({
      vector: duckdb.data_chunk_get_vector(chunk, first + index),
      count: sizes[at] ?? 0,
    }));
    const validity = readValidity(vectors, rows);
    if (type === "text" || type === "uints") {
      return { kind: "variable", name, type, validity, ...readVariable(type, vectors, validity, rows) };
    }
    return { kind: "fixed", name, type, validity, values: readFixed(type, vectors, validity, rows) };
  });
}

interface VectorPart {
  vector: duckdb.Vector;
  count: number;
}

/** Without a filter, all chunks but the last have 2,048 rows; otherwise validity bits must be shifted. */
function readValidity(parts: readonly VectorPart[], rows: number): Uint8Array | undefined {
  let validity: Uint8Array | undefined;
  let start = 0;
  for (const { vector, count } of parts) {
    const bits = duckdb.vector_get_validity(vector, Math.ceil(count / 64) * 8) as Uint8Array | null;
    if (bits !== null) {
      for (let index = 0; index < count; index++) {
        if (((bits[index >> 3] ?? 0) >> (index & 7)) & 1) continue;
        validity ??= new Uint8Array(Math.ceil(rows / 8)).fill(0xff);
        const at = start + index;
        validity[at >> 3] = (validity[at >> 3] ?? 0) & ~(1 << (at & 7));
      }
    }
    start += count;
  }
  return validity;
}

function isNull(validity: Uint8Array | undefined, index: number): boolean {
  return validity !== undefined && (((validity[index >> 3] ?? 0) >> (index & 7)) & 1) === 0;
}

function readFixed(type: FixedColumn["type"], parts: readonly VectorPart[], validity: Uint8Array | undefined, rows: number): Uint8Array {
  const width = widthBytesOf(type);
  const values = new Uint8Array(rows * width);
  let end = 0;
  for (const { vector, count } of parts) {
    values.set(duckdb.vector_get_data(vector, count * width), end);
    end += count * width;
  }
  // DuckDB leaves arbitrary memory in the slots of nulls, which must not be sent.
  if (validity) for (let index = 0; index < rows; index++) if (isNull(validity, index)) values.fill(0, index * width, (index + 1) * width);
  return values;
}

interface VariableData {
  offsets: Uint32Array;
  bytes: Uint8Array;
}

function readVariable(type: "text" | "uints", parts: readonly VectorPart[], validity: Uint8Array | undefined, rows: number): VariableData {
  const offsets = new Uint32Array(rows + 1);
  const pieces: Uint8Array[] = [];
  let row = 0;
  let end = 0;
  for (const { vector, count } of parts) {
    const piece = type === "text" ? readTexts(vector, count, validity, row) : readUints(vector, count, validity, row);
    for (let index = 1; index <= count; index++) offsets[row + index] = end + (piece.offsets[index] ?? 0);
    pieces.push(piece.bytes);
    end += piece.bytes.length;
    row += count;
  }
  return { offsets, bytes: pieces.length === 1 ? (pieces[0] ?? new Uint8Array()) : Buffer.concat(pieces, end) };
}

function readTexts(vector: duckdb.Vector, count: number, validity: Uint8Array | undefined, firstRow: number): VariableData {
  const strings = duckdb.vector_get_data(vector, count * stringBytes);
  const view = new DataView(strings.buffer, strings.byteOffset, strings.byteLength);
  const offsets = new Uint32Array(count + 1);
  for (let index = 0; index < count; index++) {
    const length = isNull(validity, firstRow + index) ? 0 : view.getUint32(index * stringBytes, true);
    offsets[index + 1] = (offsets[index] ?? 0) + length;
  }
  const bytes = new Uint8Array(offsets[count] ?? 0);
  /** A run of long texts that are adjacent in DuckDB's memory, as they usually are in a result. One call copies the whole run. */
  let run = { index: -1, length: 0, nextAddress: 0n, targets: [] as number[] };
  const flush = (): void => {
    if (run.length > 0) copyRun(strings, run.index, run.length, run.targets, offsets, bytes);
    run = { index: -1, length: 0, nextAddress: 0n, targets: [] };
  };
  for (let index = 0; index < count; index++) {
    const to = offsets[index] ?? 0;
    const length = (offsets[index + 1] ?? 0) - to;
    const from = index * stringBytes + 4;
    if (length <= inlineBytes) {
      for (let byte = 0; byte < length; byte++) bytes[to + byte] = strings[from + byte] ?? 0;
      continue;
    }
    const address = view.getBigUint64(index * stringBytes + 8, true);
    if (address !== run.nextAddress) {
      flush();
      run.index = index;
    }
    run.length += length;
    run.nextAddress = address + BigInt(length);
    run.targets.push(index);
  }
  flush();
  return { offsets, bytes };
}

/** Reads only the bytes of the run's own texts, whose addresses were checked to be adjacent. */
function copyRun(
  strings: Uint8Array,
  first: number,
  length: number,
  targets: readonly number[],
  offsets: Uint32Array,
  bytes: Uint8Array,
): void {
  const pointerOffset = strings.byteOffset + first * stringBytes + 8;
  const data = duckdb.get_data_from_pointer(strings.buffer as ArrayBuffer, pointerOffset, length);
  let from = 0;
  for (const index of targets) {
    const to = offsets[index] ?? 0;
    const size = (offsets[index + 1] ?? 0) - to;
    bytes.set(data.subarray(from, from + size), to);
    from += size;
  }
}

function readUints(vector: duckdb.Vector, count: number, validity: Uint8Array | undefined, firstRow: number): VariableData {
  const entries = duckdb.vector_get_data(vector, count * 16);
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const size = duckdb.list_vector_get_size(vector);
  const elements = size === 0 ? new Uint8Array() : duckdb.vector_get_data(duckdb.list_vector_get_child(vector), size * 4);
  const offsets = new Uint32Array(count + 1);
  const pieces: Uint8Array[] = [];
  for (let index = 0; index < count; index++) {
    const missing = isNull(validity, firstRow + index);
    const from = missing ? 0 : Number(view.getBigUint64(index * 16, true)) * 4;
    const length = missing ? 0 : Number(view.getBigUint64(index * 16 + 8, true)) * 4;
    pieces.push(elements.subarray(from, from + length));
    offsets[index + 1] = (offsets[index] ?? 0) + length;
  }
  return { offsets, bytes: Buffer.concat(pieces) };
}
