/**
 * The OTLP receiver: servers for gRPC and HTTP, the path of a request from its arrival to its acknowledgement, limits, sampling, and the decoders
 * that turn its bytes into typed columns. Also Prometheus text and log lines, which become the same rows.
 * @module
 */

export type { MetricPoint } from "./decode/metric-point.ts";
export type { DecodeOrder } from "./intake/decode-orders.ts";
export { MetricIntake } from "./intake/metric-intake.ts";
export { OtlpIntake, type OtlpStatus } from "./intake/otlp-intake.ts";
export { addMetricIntakeMetrics, addOtlpMetrics } from "./intake/otlp-metrics.ts";
export type { OtlpRequest } from "./intake/receiver.ts";
export { runDecodeWorker } from "./intake/run-decode-worker.ts";
export type { PatternCount } from "./logs/annotate-logs.ts";
export { encodeLogLines, type LogLine } from "./logs/encode-log-lines.ts";
export { LogPatternRegistry, type PatternEvent, type PatternWindow } from "./logs/log-pattern-registry.ts";
export { parseLogLine, severityOfPriority } from "./logs/parse-log-line.ts";
export { parsePrometheusText, scrapedFrom } from "./prometheus/prometheus-text.ts";
export { createOtlpClient } from "./servers/otlp-client.ts";
export { startOtlpServers } from "./servers/otlp-servers.ts";
