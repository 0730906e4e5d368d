/** High-volume signals as immutable Parquet files: write-ahead files, sealing, manifest, merge, retention. @module */

export type { AgentSegments, AgentSegmentsOptions } from "./agent-segments.ts";
export { batchFromSegmentRows, type SegmentRow } from "./batch-builder.ts";
export type { ColonySegments } from "./colony-segments.ts";
export { type BatchColumn, type DictionaryColumn, isPresent, type SegmentBatch, type TextColumn } from "./parquet/segment-batch.ts";
export type { PulledSignal, SegmentOffer } from "./plan-segments.ts";
export type { SealedSegment, SealJob, SegmentSummary } from "./seal-segment.ts";
export { type DecodedBodies, sealSegment } from "./seal-segment.ts";
export type { SegmentEntry } from "./segment-manifest.ts";
export { hexSql } from "./segment-source.ts";
export { readWriteAhead, streamWriteAhead, type WriteAheadRecord } from "./write-ahead.ts";
export { writeSegmentFile } from "./write-segment-file.ts";
