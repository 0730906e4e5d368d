import type { SegmentSignal } from "./define-segment-signal.ts";
import type { SegmentBatch } from "./segment-batch.ts";
import type { SealedSegment, SealJob } from "./segment-sealing.ts";
import { readWriteAhead, type WriteAheadRecord } from "./write-ahead.ts";
import { writeSegmentFile } from "./write-segment-file.ts";

export interface DecodedBodies {
  batch: SegmentBatch;
  /** As in SealedSegment. */
  lost?: Readonly<Record<string, number>>;
}

/** Must not throw for what a sender sent: that is counted in `lost`. Records are good until it returns. */
export type DecodeBodies = (records: readonly WriteAheadRecord[]) => DecodedBodies;

/** A write-ahead file into a segment, on the calling thread: the body of a worker, and enough for tests and low rates. */
export function sealSegment(signal: SegmentSignal, job: SealJob, decode: DecodeBodies): SealedSegment {
  const { records } = readWriteAhead(job.writeAheadFile, { isPassing: true });
  const { batch, lost } = decode(records);
  return { ...writeSegmentFile(signal, batch, job.temporaryFile), ...(lost && { lost }) };
}
