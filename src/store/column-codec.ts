import type { ColumnType } from "./define-signal.ts";

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
}
