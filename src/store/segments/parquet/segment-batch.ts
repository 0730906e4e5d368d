/**
 * Rows of a segment by column, as decoders make them and the Parquet writer takes them. Typed arrays only, so that a batch can move between threads
 * without a copy.
 *
 * Arrays may be longer than the rows need; the rest is not read. `present` has one bit per row, lowest bit first: 1 means that the row has a
 * value. Without it all rows have one. What stands in the place of an absent value is not read, but codes and offsets must be valid there too.
 */

/** Whole numbers of 64 bits; columns `time` (microseconds since 1970) and `int64`. */
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

/** UTF-8 by code: entry `c` is `bytes[offsets[c], offsets[c + 1])`. For what repeats; entries that no row uses cost nothing, equal ones are allowed. */
export interface DictionaryColumn {
  kind: "dictionary";
  codes: Uint32Array;
  bytes: Uint8Array;
  /** One more than there are entries. */
  offsets: Uint32Array;
  present?: Uint8Array;
}

/** UTF-8 by row: row `r` is `bytes[offsets[r], offsets[r + 1])`. For what seldom repeats. */
export interface TextColumn {
  kind: "text";
  bytes: Uint8Array;
  /** One more than there are rows. */
  offsets: Uint32Array;
  present?: Uint8Array;
}

/** Raw bytes of one width, row after row; columns `id16` (trace ids) and `id8` (span ids), in the order of the wire. */
export interface FixedColumn {
  kind: "fixed";
  widthBytes: number;
  bytes: Uint8Array;
  present?: Uint8Array;
}

export type BatchColumn = Int64Column | Int32Column | DoubleColumn | BoolColumn | DictionaryColumn | TextColumn | FixedColumn;

export interface SegmentBatch {
  rows: number;
  /** By name. A nullable column may be left out: it is null in every row. */
  columns: Readonly<Record<string, BatchColumn>>;
}

export function isPresent(column: BatchColumn, row: number): boolean {
  return column.present === undefined || (((column.present[row >> 3] ?? 0) >> (row & 7)) & 1) === 1;
}
