/** Messages between the receiver and its decode workers. Plain data: it crosses threads. */

import type { SealedSegment, SealJob } from "../../store/segments/index.ts";
import type { OtlpSignal } from "../decode/inspect-request.ts";
import type { DecodedMetrics } from "../decode/metric-request.ts";
import type { PatternCount } from "../logs/annotate-logs.ts";
import type { SampledSpans, SamplingPlan } from "./sampling.ts";

export type DecodeWork =
  | { kind: "seal"; job: SealJob; plan?: SamplingPlan }
  /** Known templates of log records. */
  | { kind: "teach"; templates: readonly { service: string; template: string }[] }
  | { kind: "metrics"; body: Uint8Array; receivedAtUs: number }
  | { kind: "json"; signal: OtlpSignal; body: Uint8Array }
  | { kind: "zstd"; body: Uint8Array; maxBytes: number };

/** Numbered by the pool, so that its report can be matched. Orders of one worker are done in sequence. */
export interface DecodeOrder {
  id: number;
  work: DecodeWork;
}

/** Of a sealed file of spans that were sampled. */
export type SamplingCounts = Omit<SampledSpans, "batch">;

/** By kind of work. */
export interface DecodeResults {
  /** `patterns` of a sealed file of log records. */
  seal: { sealed: SealedSegment; sampling?: SamplingCounts; patterns?: PatternCount[] };
  teach: undefined;
  metrics: DecodedMetrics;
  /** The request as protobuf. */
  json: Uint8Array;
  /** The content; null when it is larger than allowed. */
  zstd: Uint8Array | null;
}

export type DecodeReport =
  | { id: number; result: DecodeResults[keyof DecodeResults] }
  /** `malformed`: the sender's fault. */
  | { id: number; failure: { isMalformed: boolean; code: string; message: string } };
