/** A decode worker: turns write-ahead files into segments, and decodes requests too large for the receiver's thread. */

import { performance } from "node:perf_hooks";
import { CoralError } from "../../base/errors.ts";
import { type DecodedBodies, sealSegment, type WriteAheadRecord } from "../../store/segments/index.ts";
import { logRecord, span } from "../../store/signals/index.ts";
import { MalformedError } from "../columns/protobuf-reader.ts";
import { LogDecoder } from "../decode/log-request.ts";
import { decodeMetricRequest } from "../decode/metric-request.ts";
import { SpanDecoder } from "../decode/trace-request.ts";
import { jsonToProtobuf } from "../json/json-request.ts";
import { annotateLogs, type PatternCount } from "../logs/annotate-logs.ts";
import { LogTemplates } from "../logs/log-templates.ts";
import type { DecodeOrder, DecodeReport, DecodeResults, DecodeWork, SamplingCounts } from "./decode-orders.ts";
import { SpanSampler } from "./sampling.ts";
import { unpackZstd } from "./unpack-zstd.ts";

/** Receives orders and sends reports: a worker's port, or a double in tests. */
export interface DecodePort {
  onOrder(listener: (order: DecodeOrder) => void): void;
  report(report: DecodeReport): void;
}

/** Reports a failed order instead of throwing, so that one bad file does not end the worker. */
export function runDecodeWorker(port: DecodePort): void {
  const state: WorkerState = { sampler: new SpanSampler(), templates: new LogTemplates(), spans: undefined, logs: undefined };
  port.onOrder(({ id, work }) => {
    try {
      port.report({ id, result: perform(work, state) });
    } catch (error) {
      port.report({ id, failure: failureOf(error) });
    }
  });
}

/** State of a worker between orders. */
interface WorkerState {
  sampler: SpanSampler;
  templates: LogTemplates;
  /** Created on demand; their memory is reused for each file. */
  spans: SpanDecoder | undefined;
  logs: LogDecoder | undefined;
}

function perform(work: DecodeWork, state: WorkerState): DecodeResults[keyof DecodeResults] {
  switch (work.kind) {
    case "seal":
      return seal(work, state);
    case "teach":
      for (const { service, template } of work.templates) state.templates.learn(service, template);
      return undefined;
    case "metrics":
      return decodeMetricRequest(work.body, work.receivedAtUs);
    case "json":
      return jsonToProtobuf(work.signal, work.body);
    case "zstd":
      return unpackZstd(work.body, work.maxBytes);
  }
}

/** Decodes a write-ahead file into a segment. Log records get patterns; spans are sampled when there is a plan. */
function seal({ job, plan }: DecodeWork & { kind: "seal" }, state: WorkerState): DecodeResults["seal"] {
  if (job.signal === logRecord.name) {
    let patterns: PatternCount[] = [];
    const sealed = sealSegment(logRecord, job, (records) => {
      const decoded = decode(records, (state.logs ??= new LogDecoder()));
      const annotated = annotateLogs(decoded.batch, state.templates);
      patterns = annotated.patterns;
      return { ...decoded, batch: annotated.batch };
    });
    return { sealed, patterns };
  }
  if (job.signal !== span.name)
    throw new CoralError({ code: "internal", message: `Cannot seal "${job.signal}": it is not an OTLP signal` });
  let sampling: SamplingCounts | undefined;
  const sealed = sealSegment(span, job, (records) => {
    const decoded = decode(records, (state.spans ??= new SpanDecoder()));
    if (plan === undefined) return decoded;
    const { batch, ...counts } = state.sampler.sample(decoded.batch, plan, performance.now());
    sampling = counts;
    return { ...decoded, batch };
  });
  return { sealed, ...(sampling && { sampling }) };
}

/** At the beginning, not at the end: a failed file may have left state behind. */
function decode(records: Iterable<WriteAheadRecord>, decoder: SpanDecoder | LogDecoder): DecodedBodies {
  decoder.reset();
  for (const { body, receivedUs } of records) decoder.add(body, receivedUs);
  const { malformed, rejected } = decoder.counts;
  // Rejected rows are not lost: their senders have the number in the reply.
  return { batch: decoder.finish(), ...lostOf(malformed - rejected) };
}

function lostOf(malformed: number): Pick<DecodedBodies, "lost"> {
  return malformed > 0 ? { lost: { malformed } } : {};
}

/** Errors lose their class between threads. */
function failureOf(error: unknown): { isMalformed: boolean; code: string; message: string } {
  const { message } = CoralError.from(error);
  const code = (error as NodeJS.ErrnoException | undefined)?.code ?? "";
  return { isMalformed: error instanceof MalformedError, code: String(code), message };
}
