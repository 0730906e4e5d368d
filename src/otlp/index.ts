/**
 * The OTLP room: what OpenTelemetry sends, from the bytes of a request to typed columns. Readers, limits, sampling, and the way from a request's
 * arrival to its acknowledgement. Opens no sockets: `mesh` does, and whoever starts a daemon puts both together.
 * @module
 */

export type { PatternCount } from "./annotate-logs.ts";
export type { DecodeOrder, DecodeReport } from "./decode-orders.ts";
export { encodeLogLines, type LineSource, type LogLine } from "./encode-log-lines.ts";
export {
  type KnownPattern,
  LogPatternBook,
  type LogPatternBookOptions,
  type PatternEvent,
  type PatternWindow,
} from "./log-pattern-book.ts";
export { MetricIntake, type MetricIntakeOptions, type NotKept } from "./metric-intake.ts";
export { addMetricIntakeMetrics } from "./metric-intake-metrics.ts";
export type { Exemplar, ExponentialBuckets, MetricKind, MetricPoint, Temporality } from "./metric-point.ts";
export { OtlpIntake, type OtlpIntakeConfig, type OtlpIntakeOptions, type OtlpStatus, type OtlpStore } from "./otlp-intake.ts";
export { addOtlpMetrics } from "./otlp-metrics.ts";
export { type ParsedLine, parseLogLine, severityOfPriority } from "./parse-log-line.ts";
export { parsePrometheusText, scrapedFrom } from "./prometheus-text.ts";
export type { OtlpReply, OtlpRequest, SignalCounts } from "./receiver.ts";
export { type DecodePort, runDecodeWorker } from "./run-decode-worker.ts";
