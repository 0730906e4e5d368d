/** Selects rows of a batch, or concatenates two batches. */

import type { BatchColumn, SegmentBatch } from "../../store/segments/index.ts";

/** The rows with these numbers, in this order. Dictionaries are shared with the source batch. */
export function selectRows(batch: SegmentBatch, rows: Uint32Array): SegmentBatch {
  const columns = Object.entries(batch.columns).map(([name, column]) => [name, selectColumn(column, rows)] as const);
  return { rows: rows.length, columns: Object.fromEntries(columns) };
}

function selectColumn(column: BatchColumn, rows: Uint32Array): BatchColumn {
  const present = column.present && selectBits(column.present, rows);
  return { ...selectValues(column, rows), ...(present && { present }) };
}

function selectValues(column: BatchColumn, rows: Uint32Array): BatchColumn {
  switch (column.kind) {
    case "int64":
      return { kind: "int64", values: BigInt64Array.from(rows, (row) => column.values[row] as bigint) };
    case "int32":
      return { kind: "int32", values: Int32Array.from(rows, (row) => column.values[row] as number) };
    case "double":
      return { kind: "double", values: Float64Array.from(rows, (row) => column.values[row] as number) };
    case "bool":
      return { kind: "bool", values: Uint8Array.from(rows, (row) => column.values[row] as number) };
    case "dictionary":
      return {
        kind: "dictionary",
        codes: Uint32Array.from(rows, (row) => column.codes[row] as number),
        bytes: column.bytes,
        offsets: column.offsets,
      };
    case "text":
      return { kind: "text", ...selectText(column, rows) };
    case "fixed": {
      const { widthBytes } = column;
      const bytes = new Uint8Array(rows.length * widthBytes);
      for (const [to, row] of rows.entries()) bytes.set(column.bytes.subarray(row * widthBytes, (row + 1) * widthBytes), to * widthBytes);
      return { kind: "fixed", widthBytes, bytes };
    }
  }
}

function selectText(column: { bytes: Uint8Array; offsets: Uint32Array }, rows: Uint32Array): { bytes: Uint8Array; offsets: Uint32Array } {
  const offsets = new Uint32Array(rows.length + 1);
  for (const [to, row] of rows.entries()) {
    offsets[to + 1] = (offsets[to] as number) + (column.offsets[row + 1] as number) - (column.offsets[row] as number);
  }
  const bytes = new Uint8Array(offsets[rows.length] as number);
  for (const [to, row] of rows.entries()) bytes.set(column.bytes.subarray(column.offsets[row], column.offsets[row + 1]), offsets[to]);
  return { bytes, offsets };
}

function selectBits(bits: Uint8Array, rows: Uint32Array): Uint8Array {
  const selected = new Uint8Array(Math.ceil(rows.length / 8));
  for (const [to, row] of rows.entries()) {
    if ((((bits[row >> 3] as number) >> (row & 7)) & 1) === 1) selected[to >> 3] = (selected[to >> 3] as number) | (1 << (to & 7));
  }
  return selected;
}

/** Copies only the dictionary entries that these rows use, so that the source batch can be released. */
export function compact(batch: SegmentBatch): SegmentBatch {
  const columns = Object.entries(batch.columns).map(([name, column]) => [name, compactColumn(column, batch.rows)] as const);
  return { rows: batch.rows, columns: Object.fromEntries(columns) };
}

function compactColumn(column: BatchColumn, rows: number): BatchColumn {
  if (column.kind !== "dictionary") return column;
  const codeOf = new Map<number, number>();
  const codes = new Uint32Array(rows);
  for (let row = 0; row < rows; row++) {
    const code = column.codes[row] as number;
    const known = codeOf.get(code) ?? codeOf.size;
    codeOf.set(code, known);
    codes[row] = known;
  }
  return { ...column, codes, ...selectText(column, Uint32Array.from(codeOf.keys())) };
}

/** Bytes that a batch owns. */
export function batchBytes(batch: SegmentBatch): number {
  const buffers = new Set<ArrayBufferLike>();
  for (const column of Object.values(batch.columns)) {
    for (const part of Object.values(column)) if (ArrayBuffer.isView(part)) buffers.add(part.buffer);
  }
  let total = 0;
  for (const { byteLength } of buffers) total += byteLength;
  return total;
}

/** The rows of `first`, then those of `second`. A column that only one batch has is null in the other's rows. */
export function concatBatches(first: SegmentBatch, second: SegmentBatch): SegmentBatch {
  if (second.rows === 0) return first;
  if (first.rows === 0) return second;
  const names = new Set([...Object.keys(first.columns), ...Object.keys(second.columns)]);
  const columns = [...names].map((name) => {
    const present = concatPresent(first, second, name);
    const column = concatColumns(first.columns[name], first.rows, second.columns[name], second.rows);
    return [name, present ? { ...column, present } : column] as const;
  });
  return { rows: first.rows + second.rows, columns: Object.fromEntries(columns) };
}

function concatPresent(first: SegmentBatch, second: SegmentBatch, name: string): Uint8Array | undefined {
  const a = first.columns[name];
  const b = second.columns[name];
  if (a && b && a.present === undefined && b.present === undefined) return undefined;
  const present = new Uint8Array(Math.ceil((first.rows + second.rows) / 8));
  const mark = (column: BatchColumn | undefined, rows: number, to: number): void => {
    if (column === undefined) return;
    for (let row = 0; row < rows; row++) {
      if (column.present !== undefined && (((column.present[row >> 3] as number) >> (row & 7)) & 1) === 0) continue;
      present[(to + row) >> 3] = (present[(to + row) >> 3] as number) | (1 << ((to + row) & 7));
    }
  };
  mark(a, first.rows, 0);
  mark(b, second.rows, first.rows);
  return present;
}

function concatColumns(a: BatchColumn | undefined, rowsA: number, b: BatchColumn | undefined, rowsB: number): BatchColumn {
  const left = withoutPresent(a ?? emptyLike(b as BatchColumn, rowsA));
  const right = withoutPresent(b ?? emptyLike(a as BatchColumn, rowsB));
  const rows = rowsA + rowsB;
  switch (left.kind) {
    case "int64":
      return { kind: "int64", values: joined(new BigInt64Array(rows), left.values, rowsA, (right as typeof left).values, rowsB) };
    case "int32":
      return { kind: "int32", values: joined(new Int32Array(rows), left.values, rowsA, (right as typeof left).values, rowsB) };
    case "double":
      return { kind: "double", values: joined(new Float64Array(rows), left.values, rowsA, (right as typeof left).values, rowsB) };
    case "bool":
      return { kind: "bool", values: joined(new Uint8Array(rows), left.values, rowsA, (right as typeof left).values, rowsB) };
    case "fixed": {
      const width = left.widthBytes;
      const other = (right as typeof left).bytes;
      return {
        kind: "fixed",
        widthBytes: width,
        bytes: joined(new Uint8Array(rows * width), left.bytes, rowsA * width, other, rowsB * width),
      };
    }
    case "text":
      return { kind: "text", ...joinedText(left, rowsA, right as typeof left, rowsB) };
    case "dictionary": {
      const other = right as typeof left;
      const entries = left.offsets.length - 1;
      const codes = joined(new Uint32Array(rows), left.codes, rowsA, other.codes, rowsB);
      for (let row = rowsA; row < rows; row++) codes[row] = (codes[row] as number) + entries;
      return { kind: "dictionary", codes, ...joinedText(left, entries, other, other.offsets.length - 1) };
    }
  }
}

function withoutPresent(column: BatchColumn): BatchColumn {
  const { present: _present, ...rest } = column;
  return rest;
}

/** Values for rows that have none. */
function emptyLike(column: BatchColumn, rows: number): BatchColumn {
  switch (column.kind) {
    case "int64":
      return { kind: "int64", values: new BigInt64Array(rows) };
    case "int32":
      return { kind: "int32", values: new Int32Array(rows) };
    case "double":
      return { kind: "double", values: new Float64Array(rows) };
    case "bool":
      return { kind: "bool", values: new Uint8Array(rows) };
    case "fixed":
      return { kind: "fixed", widthBytes: column.widthBytes, bytes: new Uint8Array(rows * column.widthBytes) };
    case "text":
      return { kind: "text", bytes: new Uint8Array(0), offsets: new Uint32Array(rows + 1) };
    case "dictionary":
      return { kind: "dictionary", codes: new Uint32Array(rows), bytes: new Uint8Array(0), offsets: new Uint32Array(2) };
  }
}

interface Settable<T> {
  set(values: T, at: number): void;
  subarray(start: number, end: number): T;
}

function joined<T extends Settable<T>>(into: T, left: T, leftLength: number, right: T, rightLength: number): T {
  into.set(left.subarray(0, leftLength), 0);
  into.set(right.subarray(0, rightLength), leftLength);
  return into;
}

interface Texts {
  bytes: Uint8Array;
  offsets: Uint32Array;
}

function joinedText(left: Texts, countLeft: number, right: Texts, countRight: number): Texts {
  const leftBytes = left.offsets[countLeft] ?? 0;
  const rightBytes = right.offsets[countRight] ?? 0;
  const offsets = new Uint32Array(countLeft + countRight + 1);
  offsets.set(left.offsets.subarray(0, countLeft + 1));
  for (let index = 0; index <= countRight; index++) offsets[countLeft + index] = leftBytes + (right.offsets[index] as number);
  return { bytes: joined(new Uint8Array(leftBytes + rightBytes), left.bytes, leftBytes, right.bytes, rightBytes), offsets };
}
