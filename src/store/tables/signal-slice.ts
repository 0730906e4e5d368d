import type { RowBatch } from "../columns/column-codec.ts";

export interface SeqRange {
  firstSeq: number;
  lastSeq: number;
}

export interface SignalHead {
  /** The lowest sequence still stored; nextSeq when none is. */
  oldestSeq: number;
  /** What the next row will get. The first row ever is 1. */
  nextSeq: number;
}

/** What one signal has after a cursor; mirrors the wire message of the same name. */
export interface SignalSlice extends SignalHead {
  signal: string;
  /** Absent when there is nothing new. */
  batch?: RowBatch;
}

export interface ReadLimits {
  /** Bytes of batch data; one row is always given. */
  maxBytes: number;
  maxRows: number;
}
