/**
 * Decides which traces are kept when not all can be: all with an error or a slow span, and a share of the others. The trace id decides, so that traces
 * are kept complete. Every kept span records its weight:
 *
 * - in a trace with an error or a slow span: 1;
 * - in a trace chosen by its id: 1 / share;
 * - in a trace that was found to be wanted after the span was dropped: 0. The span is shown, but the spans chosen at that time already count for it.
 *
 * So sums of weights are unbiased at any share, and exact for errors and slow spans.
 */

import type { SegmentBatch } from "../../store/segments/index.ts";
import { batchBytes, compact, concatBatches, selectRows } from "../columns/batch-rows.ts";
import { TraceSet, traceHash, traceIdBytes } from "./trace-set.ts";

/** The sampling decision for one segment. */
export interface SamplingPlan {
  /** Share of ordinary traces, 0..1. 1 keeps everything. */
  share: number;
  /** A span of at least this duration makes its trace a slow one. */
  slowNs: number;
  /** Traces wanted because of other segments: concatenated ids. */
  wanted: Uint8Array;
}

/** The spans of a segment to store, and what became of the others. */
export interface SampledSpans {
  batch: SegmentBatch;
  /** Dropped spans of this segment. */
  dropped: number;
  /** Spans of earlier segments that were recovered. */
  rescued: number;
  /** Spans kept because of an error or a slow span in their trace. */
  wantedRows: number;
  /** Traces wanted because of this segment: concatenated ids. */
  wanted: Uint8Array;
}

export interface SpanSamplerOptions {
  /** How long dropped spans can be recovered. Default 10 s. */
  windowMs?: number;
  /** Memory for dropped spans. Default 32 MiB. */
  windowBytes?: number;
}

interface DroppedSpans {
  batch: SegmentBatch;
  sizeBytes: number;
  atMs: number;
}

/** Wanted trace ids that one segment reports; the oldest are dropped. */
const maxWantedPerSegment = 8_192;

/** Buffers dropped spans. One per decoding thread. */
export class SpanSampler {
  readonly #windowMs: number;
  readonly #windowBytes: number;
  #dropped: DroppedSpans[] = [];
  #droppedBytes = 0;

  constructor(options: SpanSamplerOptions = {}) {
    this.#windowMs = options.windowMs ?? 10_000;
    this.#windowBytes = options.windowBytes ?? 32 * 1024 * 1024;
  }

  /** Selects the spans of a segment to store. `nowMs` is monotonic. */
  sample(batch: SegmentBatch, plan: SamplingPlan, nowMs: number): SampledSpans {
    const traceIds = idsOf(batch);
    const wanted = wantedTraces(batch, plan);
    for (let at = 0; at < plan.wanted.length; at += traceIdBytes) wanted.all.add(plan.wanted, at);
    const kept = new Uint32Array(batch.rows);
    const weights = new Float64Array(batch.rows);
    const dropped = new Uint32Array(batch.rows);
    const limit = plan.share * 2 ** 32;
    let keptRows = 0;
    let droppedRows = 0;
    let wantedRows = 0;
    for (let row = 0; row < batch.rows; row++) {
      const at = row * traceIdBytes;
      const isWanted = wanted.all.has(traceIds, at);
      if (!isWanted && traceHash(traceIds, at) >= limit) {
        dropped[droppedRows++] = row;
        continue;
      }
      if (isWanted) wantedRows++;
      kept[keptRows] = row;
      weights[keptRows++] = isWanted ? 1 : 1 / plan.share;
    }
    const rescued = this.#rescue(wanted.all);
    const own = withWeights(droppedRows === 0 ? batch : selectRows(batch, kept.subarray(0, keptRows)), weights);
    if (droppedRows > 0) this.#remember(selectRows(batch, dropped.subarray(0, droppedRows)), nowMs);
    this.#forget(nowMs);
    return { batch: concatBatches(own, rescued), dropped: droppedRows, rescued: rescued.rows, wantedRows, wanted: wanted.own.packed() };
  }

  #rescue(wanted: TraceSet): SegmentBatch {
    let rescued: SegmentBatch = { rows: 0, columns: {} };
    if (wanted.size === 0) return rescued;
    for (const [index, { batch, atMs }] of this.#dropped.entries()) {
      const traceIds = idsOf(batch);
      const rows: number[] = [];
      const rest: number[] = [];
      for (let row = 0; row < batch.rows; row++) (wanted.has(traceIds, row * traceIdBytes) ? rows : rest).push(row);
      if (rows.length === 0) continue;
      const found = selectRows(batch, Uint32Array.from(rows));
      rescued = concatBatches(rescued, withWeights(found, new Float64Array(found.rows)));
      this.#replace(index, compact(selectRows(batch, Uint32Array.from(rest))), atMs);
    }
    return rescued;
  }

  #remember(batch: SegmentBatch, nowMs: number): void {
    this.#dropped.push({ batch: { rows: 0, columns: {} }, sizeBytes: 0, atMs: nowMs });
    this.#replace(this.#dropped.length - 1, compact(batch), nowMs);
  }

  #replace(index: number, batch: SegmentBatch, atMs: number): void {
    const sizeBytes = batchBytes(batch);
    this.#droppedBytes += sizeBytes - (this.#dropped[index]?.sizeBytes ?? 0);
    this.#dropped[index] = { batch, sizeBytes, atMs };
  }

  #forget(nowMs: number): void {
    while (this.#dropped.length > 0) {
      const [oldest] = this.#dropped;
      if (oldest === undefined || (nowMs - oldest.atMs < this.#windowMs && this.#droppedBytes <= this.#windowBytes)) return;
      this.#droppedBytes -= oldest.sizeBytes;
      this.#dropped.shift();
    }
  }
}

function idsOf(batch: SegmentBatch): Uint8Array {
  const column = batch.columns["trace_id"];
  return column?.kind === "fixed" ? column.bytes : new Uint8Array(batch.rows * traceIdBytes);
}

function withWeights(batch: SegmentBatch, weights: Float64Array): SegmentBatch {
  return { rows: batch.rows, columns: { ...batch.columns, weight: { kind: "double", values: weights } } };
}

/** Traces with an error or a slow span. */
function wantedTraces(batch: SegmentBatch, plan: SamplingPlan): { all: TraceSet; own: TraceSet } {
  const { duration_ns: duration, status, http_status_code: http } = batch.columns;
  const traceIds = idsOf(batch);
  // Large enough for all: none is evicted before the rows are checked.
  const all = new TraceSet(Math.max(1, batch.rows + plan.wanted.length / traceIdBytes));
  const own = new TraceSet(maxWantedPerSegment);
  const slowNs = BigInt(Math.round(plan.slowNs));
  const isErrorCode = status?.kind === "dictionary" ? entriesEqual(status, "error") : () => false;
  for (let row = 0; row < batch.rows; row++) {
    const isError = status?.kind === "dictionary" && isErrorCode(status.codes[row] as number);
    const isFailed = http?.kind === "int32" && (http.values[row] as number) >= 500;
    const isSlow = duration?.kind === "int64" && (duration.values[row] as bigint) >= slowNs;
    if (!isError && !isFailed && !isSlow) continue;
    all.add(traceIds, row * traceIdBytes);
    own.add(traceIds, row * traceIdBytes);
  }
  return { all, own };
}

/** Whether a code means this text; each code is checked once. */
function entriesEqual({ bytes, offsets }: { bytes: Uint8Array; offsets: Uint32Array }, text: string): (code: number) => boolean {
  const known = new Map<number, boolean>();
  return (code) => {
    let isEqual = known.get(code);
    if (isEqual === undefined) {
      isEqual = Buffer.from(bytes.subarray(offsets[code], offsets[code + 1])).toString("latin1") === text;
      known.set(code, isEqual);
    }
    return isEqual;
  };
}
