/**
 * The bytes of RowBatch.data. All numbers are little-endian. For each column of the batch's list, in order:
 *
 *     u32  length of what follows, so that an unknown column can be skipped
 *     u8   1 when a validity bitmap follows, 0 when no row is null
 *     validity, ceil(rows / 8) bytes, lowest bit first, 1 = present
 *     int, time: 8 bytes a row, signed · float: 8 bytes a row, IEEE 754 · bool: a byte a row
 *     text, uints: rows + 1 offsets (u32, bytes), then the UTF-8 bytes or u32 elements
 *
 * A sender leaves zero where a row is null. Sequences are not sent: they run from firstSeq without holes.
 */

import { isUtf8 } from "node:buffer";
import { CoralError } from "../../base/errors.ts";
import type { ColumnType } from "../signals/define-signal.ts";
import {
  type BatchColumn,
  type ColumnBatch,
  type FixedColumn,
  type StoredColumn,
  type VariableColumn,
  widthBytesOf,
} from "./column-batch.ts";

export interface ColumnInfo {
  name: string;
  /** A ColumnType; a newer peer may send one that this build does not know. */
  type: ColumnType | (string & {});
}

/** Rows of one signal by column, with sequences `firstSeq` to `lastSeq` without holes. Mirrors the wire message of the same name. */
export interface RowBatch {
  firstSeq: number;
  lastSeq: number;
  rows: number;
  columns: ColumnInfo[];
  data: Uint8Array;
  /** When the first row was created, on the agent's monotonic clock; not sent. */
  firstMonoMs?: number;
}

/** Size of the first `rows` rows in the encoding of encodeBatch(). */
export function encodedBytes(batch: ColumnBatch, rows: number): number {
  let sizeBytes = 0;
  for (const column of batch.columns) sizeBytes += 4 + sectionBytes(column, rows);
  return sizeBytes;
}

function sectionBytes(column: BatchColumn, rows: number): number {
  const validityBytes = column.validity ? Math.ceil(rows / 8) : 0;
  const valueBytes = column.kind === "fixed" ? rows * widthBytesOf(column.type) : (rows + 1) * 4 + (column.offsets[rows] ?? 0);
  return 1 + validityBytes + valueBytes;
}

/** Encodes the first `rows` rows; the first of them has sequence `firstSeq`. */
export function encodeBatch(batch: ColumnBatch, firstSeq: number, rows: number = batch.rows): RowBatch {
  const data = new Uint8Array(encodedBytes(batch, rows));
  const view = new DataView(data.buffer);
  let end = 0;
  const put = (bytes: Uint8Array): void => {
    data.set(bytes, end);
    end += bytes.length;
  };
  for (const column of batch.columns) {
    view.setUint32(end, sectionBytes(column, rows), true);
    data[end + 4] = column.validity ? 1 : 0;
    end += 5;
    if (column.validity) put(column.validity.subarray(0, Math.ceil(rows / 8)));
    if (column.kind === "fixed") {
      put(column.values.subarray(0, rows * widthBytesOf(column.type)));
    } else {
      put(new Uint8Array(column.offsets.buffer, column.offsets.byteOffset, (rows + 1) * 4));
      put(column.bytes.subarray(0, column.offsets[rows]));
    }
  }
  const columns = batch.columns.map(({ name, type }) => ({ name, type }));
  return { firstSeq, lastSeq: firstSeq + rows - 1, rows, columns, data };
}

const maxColumns = 1_024;

/**
 * Decodes untrusted bytes: anything malformed throws `invalid`, and no allocation exceeds the size of the data. Returns the wanted columns
 * that were sent; the others are null. The result's bytes are views into `batch.data`.
 */
export function decodeBatch(batch: RowBatch, wanted: readonly StoredColumn[]): ColumnBatch {
  const { rows, data } = batch;
  if (![batch.firstSeq, batch.lastSeq, rows].every((value) => Number.isSafeInteger(value) && value >= 1)) {
    throw malformed("its sequences or row count are out of range");
  }
  if (batch.lastSeq - batch.firstSeq + 1 !== rows) {
    throw malformed(`${rows} rows cannot have sequences ${batch.firstSeq} to ${batch.lastSeq}`);
  }
  if (batch.columns.length > maxColumns) throw malformed(`it has more than ${maxColumns} columns`);
  const byName = new Map(wanted.map((column) => [column.name, column]));
  const columns: BatchColumn[] = [];
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let end = 0;
  for (const { name, type } of batch.columns) {
    if (end + 4 > data.length) throw malformed(`it ends before column "${name}"`);
    const start = end + 4;
    end = start + view.getUint32(end, true);
    if (end > data.length) throw malformed(`it ends inside column "${name}"`);
    const column = byName.get(name);
    if (column === undefined) continue;
    if (column.type !== type) throw malformed(`column "${name}" is ${type}, not ${column.type}`);
    // A repeated column of this name counts as unknown and is skipped.
    byName.delete(name);
    columns.push(decodeColumn(column, data.subarray(start, end), rows));
  }
  if (end !== data.length) throw malformed(`${data.length - end} bytes follow the last column`);
  for (const column of wanted.slice(0, 2)) {
    if (byName.has(column.name)) throw malformed(`column "${column.name}" is missing`);
  }
  return { rows, columns };
}

function decodeColumn(column: StoredColumn, section: Uint8Array, rows: number): BatchColumn {
  const { name, type } = column;
  const flag = section[0];
  if (flag !== 0 && flag !== 1) throw malformed(`the null flag of column "${name}" is ${flag}, not 0 or 1`);
  const validityBytes = flag === 1 ? Math.ceil(rows / 8) : 0;
  if (section.length < 1 + validityBytes) throw malformed(`column "${name}" has a truncated validity bitmap`);
  const validity = flag === 1 ? section.subarray(1, 1 + validityBytes) : undefined;
  if (validity && (name === "time" || name === "mono_ms")) throw malformed(`column "${name}" must not be null`);
  const body = section.subarray(1 + validityBytes);
  if (type === "text" || type === "uints") return decodeVariable({ name, type, validity }, body, rows);
  if (body.length !== rows * widthBytesOf(type)) throw malformed(`column "${name}" has ${body.length} bytes for ${rows} rows`);
  checkFixed(name, type, body);
  return { kind: "fixed", name, type, validity, values: body };
}

function decodeVariable(column: Pick<VariableColumn, "name" | "type" | "validity">, body: Uint8Array, rows: number): VariableColumn {
  const { name, type } = column;
  const offsetBytes = (rows + 1) * 4;
  if (body.length < offsetBytes) throw malformed(`column "${name}" has truncated offsets`);
  // Copied because the body may be unaligned. Uses set(), because slice() of a Buffer does not copy.
  const offsets = new Uint32Array(rows + 1);
  new Uint8Array(offsets.buffer).set(body.subarray(0, offsetBytes));
  const bytes = body.subarray(offsetBytes);
  if (offsets[0] !== 0 || offsets[rows] !== bytes.length) throw malformed(`the offsets of column "${name}" do not cover its bytes`);
  let previous = 0;
  for (const offset of offsets) {
    if (offset < previous) throw malformed(`the offsets of column "${name}" decrease`);
    // If all bytes are valid UTF-8 and are split only at character boundaries, every part is valid UTF-8.
    if (type === "text" ? ((bytes[offset] ?? 0) & 0xc0) === 0x80 : offset % 4 !== 0) {
      throw malformed(`an offset of column "${name}" splits a value`);
    }
    previous = offset;
  }
  if (type === "text" && !isUtf8(bytes)) throw malformed(`column "${name}" is not UTF-8`);
  return { kind: "variable", ...column, offsets, bytes };
}

/** Rejects what DuckDB or JavaScript cannot represent: bools other than 0 and 1, unsafe integers, infinities and NaN. */
function checkFixed(name: string, type: FixedColumn["type"], values: Uint8Array): void {
  if (type === "bool") {
    for (const value of values) if (value > 1) throw malformed(`column "${name}" has a bool of ${value}`);
    return;
  }
  const view = new DataView(values.buffer, values.byteOffset, values.byteLength);
  for (let offset = 4; offset < values.length; offset += 8) {
    const high = view.getInt32(offset, true);
    if (type === "float" ? (high & 0x7ff0_0000) === 0x7ff0_0000 : high < -0x20_0000 || high >= 0x20_0000) {
      throw malformed(`column "${name}" has a value out of range`);
    }
  }
}

function malformed(why: string): CoralError {
  return new CoralError({ code: "invalid", message: `Cannot read a row batch: ${why}` });
}
