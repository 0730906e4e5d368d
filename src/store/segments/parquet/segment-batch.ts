/**
 * Rows of a segment by column, between decoders and the Parquet writer. Typed arrays only, so that a batch moves between threads without a
 * copy. Arrays may be longer than the rows; the rest is ignored. `present` has one bit per row, lowest bit first: 1 means that the row has
 * a value. Without it, all rows have one. Values of absent slots are ignored, but codes and offsets must be valid there too.
 */

/** 64-bit integers, for columns of type `time` (microseconds since 1970) and `int64`. */
export interface Int64Column {
  kind: "int64";
  values: BigInt64Array;
  present?: Uint8Array;
}

export interface Int32Column {
  kind: "int32";
  values: Int32Array;
  present?: Uint8Array;
}

export interface DoubleColumn {
  kind: "double";
  values: Float64Array;
  present?: Uint8Array;
}

/** One byte per row, 0 or 1. */
export interface BoolColumn {
  kind: "bool";
  values: Uint8Array;
  present?: Uint8Array;
}

/** UTF-8 by code: entry `c` is `bytes[offsets[c], offsets[c + 1])`. For texts that repeat. Unused and duplicate entries are allowed. */
export interface DictionaryColumn {
  kind: "dictionary";
  codes: Uint32Array;
  bytes: Uint8Array;
  /** One offset more than entries. */
  offsets: Uint32Array;
  present?: Uint8Array;
}

/** UTF-8 by row: row `r` is `bytes[offsets[r], offsets[r + 1])`. For texts that rarely repeat. */
export interface TextColumn {
  kind: "text";
  bytes: Uint8Array;
  /** One offset more than rows. */
  offsets: Uint32Array;
  present?: Uint8Array;
}

/** Fixed-width bytes, row after row, for columns of type `id16` (trace ids) and `id8` (span ids), in network order. */
export interface FixedColumn {
  kind: "fixed";
  widthBytes: number;
  bytes: Uint8Array;
  present?: Uint8Array;
}

export type BatchColumn = Int64Column | Int32Column | DoubleColumn | BoolColumn | DictionaryColumn | TextColumn | FixedColumn;

export interface SegmentBatch {
  rows: number;
  /** By name. A nullable column may be absent: it is null in every row. */
  columns: Readonly<Record<string, BatchColumn>>;
}

export function isPresent(column: BatchColumn, row: number): boolean {
  return column.present === undefined || (((column.present[row >> 3] ?? 0) >> (row & 7)) & 1) === 1;
}
