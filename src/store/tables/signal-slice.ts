import type { RowBatch } from "../columns/column-codec.ts";

export interface SeqRange {
  firstSeq: number;
  lastSeq: number;
}

export interface SignalHead {
  /** The lowest sequence still stored; `nextSeq` when none is. */
  oldestSeq: number;
  /** Sequence of the next row. The first row ever is 1. */
  nextSeq: number;
}

/** Rows of one signal after a cursor; mirrors the wire message of the same name. */
export interface SignalSlice extends SignalHead {
  signal: string;
  /** Absent when there are no new rows. */
  batch?: RowBatch;
}

export interface ReadLimits {
  /** Limit on bytes of batch data. At least one row is always returned. */
  maxBytes: number;
  maxRows: number;
}
