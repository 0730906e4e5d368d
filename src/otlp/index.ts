/**
 * OpenTelemetry in: the servers for gRPC and HTTP, the path of a request from its arrival to its acknowledgement, limits, sampling, and
 * the decoders that turn its bytes into typed columns. Also Prometheus text and log lines, which become the same rows.
 * @module
 */

export type { Exemplar, ExponentialBuckets, MetricKind, MetricPoint, Temporality } from "./decode/metric-point.ts";
export type { DecodeOrder, DecodeReport } from "./intake/decode-orders.ts";
export { MetricIntake, type MetricIntakeOptions, type NotKept } from "./intake/metric-intake.ts";
export { addMetricIntakeMetrics } from "./intake/metric-intake-metrics.ts";
export { OtlpIntake, type OtlpIntakeConfig, type OtlpIntakeOptions, type OtlpStatus, type OtlpStore } from "./intake/otlp-intake.ts";
export { addOtlpMetrics } from "./intake/otlp-metrics.ts";
export type { OtlpReply, OtlpRequest, SignalCounts } from "./intake/receiver.ts";
export { type DecodePort, runDecodeWorker } from "./intake/run-decode-worker.ts";
export type { PatternCount } from "./logs/annotate-logs.ts";
export { encodeLogLines, type LineSource, type LogLine } from "./logs/encode-log-lines.ts";
export {
  type KnownPattern,
  LogPatternBook,
  type LogPatternBookOptions,
  type PatternEvent,
  type PatternWindow,
} from "./logs/log-pattern-book.ts";
export { type ParsedLine, parseLogLine, severityOfPriority } from "./logs/parse-log-line.ts";
export { parsePrometheusText, scrapedFrom } from "./prometheus/prometheus-text.ts";
export { createOtlpClient } from "./servers/otlp-client.ts";
export { startOtlpServers } from "./servers/otlp-servers.ts";
