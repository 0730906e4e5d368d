/** Turns a finished write-ahead file into a segment: the job, its result, and the work itself, in a worker or on the calling thread. */

import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import type { SegmentBatch } from "./parquet/segment-batch.ts";
import { passWriteAhead, type WriteAheadRecord } from "./write-ahead.ts";
import { writeSegmentFile } from "./write-segment-file.ts";

/** A closed write-ahead file. */
export interface SealJob {
  signal: string;
  /** The segment's number, that of the write-ahead file too. */
  number: number;
  /** Read with `passWriteAhead`. */
  writeAheadFile: string;
  /** As the bodies' senders counted them. */
  rows: number;
  /** Written with `writeSegmentFile`, which also syncs it; the store renames it. */
  temporaryFile: string;
}

/** What the manifest says of one segment. */
export interface SegmentSummary {
  rows: number;
  /** 0 with no rows: then there is no file. */
  sizeBytes: number;
  /** Microseconds since 1970, of `time`; 0 with no rows. */
  minTimeUs: number;
  maxTimeUs: number;
  /** Services of its rows, sorted; null when they are too many to list. */
  services: readonly string[] | null;
  /** See LookupFilter; absent without a look-up column. */
  lookupFilter?: Uint8Array;
  schemaVersion: number;
  /** Of the file, hex; empty with no rows. */
  sha256: string;
}

export interface SealedSegment extends SegmentSummary {
  /** Rows received but not in the file, by reason such as `malformed`; added to the loss counts. Sampling is not a loss. */
  lost?: Readonly<Record<string, number>>;
}

/** Rejects only for transient problems, such as a full disk: the store retries. Undecodable data is counted in `lost`. */
export type SealSegment = (job: SealJob) => Promise<SealedSegment>;

export interface DecodedBodies {
  batch: SegmentBatch;
  /** As in SealedSegment. */
  lost?: Readonly<Record<string, number>>;
}

/** Must not throw for bad input, which is counted in `lost`. Each record is valid until the next one is read. */
export type DecodeBodies = (records: Iterable<WriteAheadRecord>) => DecodedBodies;

/** Seals on the calling thread: the body of a worker, and sufficient for tests and low rates. */
export function sealSegment(signal: SegmentSignal, job: SealJob, decode: DecodeBodies): SealedSegment {
  const { batch, lost } = decode(passWriteAhead(job.writeAheadFile));
  return { ...writeSegmentFile(signal, batch, job.temporaryFile), ...(lost && { lost }) };
}
