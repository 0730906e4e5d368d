/** Turns a closed write-ahead file into a segment: the job, its result, and the work, which runs in a worker or on the calling thread. */

import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import type { SegmentBatch } from "./parquet/segment-batch.ts";
import { streamWriteAhead, type WriteAheadRecord } from "./write-ahead.ts";
import { writeSegmentFile } from "./write-segment-file.ts";

/** A closed write-ahead file. */
export interface SealJob {
  signal: string;
  /** The segment's number, which is also that of the write-ahead file. */
  number: number;
  /** Read it with `streamWriteAhead`. */
  writeAheadFile: string;
  /** Row count as declared by the senders of the bodies. */
  rows: number;
  /** The output. Write it with `writeSegmentFile`, which also syncs it; the store renames it. */
  temporaryFile: string;
}

/** The manifest's description of a segment. */
export interface SegmentSummary {
  rows: number;
  /** 0 without rows; then there is no file. */
  sizeBytes: number;
  /** Bounds of `time`, microseconds since 1970; 0 without rows. */
  minTimeUs: number;
  maxTimeUs: number;
  /** Services of its rows, sorted; null if there are too many to list. */
  services: readonly string[] | null;
  /** See lookup-filter.ts; absent without a look-up column. */
  lookupFilter?: Uint8Array;
  schemaVersion: number;
  /** Hash of the file in hex; empty without rows. */
  sha256: string;
}

export interface SealedSegment extends SegmentSummary {
  /** Rows received but not in the file, by reason such as `malformed`. They are added to the loss counts. Sampling is not a loss. */
  lost?: Readonly<Record<string, number>>;
}

/** Rejects only for transient problems such as a full disk, which the store retries. Undecodable data is counted in `lost`. */
export type SealSegment = (job: SealJob) => Promise<SealedSegment>;

export interface DecodedBodies {
  batch: SegmentBatch;
  /** As in SealedSegment. */
  lost?: Readonly<Record<string, number>>;
}

/** Must not throw for bad input; count it in `lost`. Each record is valid until the next one is read. */
export type DecodeBodies = (records: Iterable<WriteAheadRecord>) => DecodedBodies;

/** Seals on the calling thread. Workers run this; tests and low rates call it directly. */
export function sealSegment(signal: SegmentSignal, job: SealJob, decode: DecodeBodies): SealedSegment {
  const { batch, lost } = decode(streamWriteAhead(job.writeAheadFile));
  return { ...writeSegmentFile(signal, batch, job.temporaryFile), ...(lost && { lost }) };
}
