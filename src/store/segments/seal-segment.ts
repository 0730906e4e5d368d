import type { SegmentSignal } from "./define-segment-signal.ts";
import type { SegmentBatch } from "./segment-batch.ts";
import type { SealedSegment, SealJob } from "./segment-sealing.ts";
import { passWriteAhead, type WriteAheadRecord } from "./write-ahead.ts";
import { writeSegmentFile } from "./write-segment-file.ts";

export interface DecodedBodies {
  batch: SegmentBatch;
  /** As in SealedSegment. */
  lost?: Readonly<Record<string, number>>;
}

/** Must not throw for what a sender sent: that is counted in `lost`. Each record is good until the next one is asked for. */
export type DecodeBodies = (records: Iterable<WriteAheadRecord>) => DecodedBodies;

/** A write-ahead file into a segment, on the calling thread: the body of a worker, and enough for tests and low rates. */
export function sealSegment(signal: SegmentSignal, job: SealJob, decode: DecodeBodies): SealedSegment {
  const { batch, lost } = decode(passWriteAhead(job.writeAheadFile));
  return { ...writeSegmentFile(signal, batch, job.temporaryFile), ...(lost && { lost }) };
}
