/**
 * The OTLP room: what OpenTelemetry sends, from the bytes of a request to typed columns. Readers, limits, sampling, and the way from a request's
 * arrival to its acknowledgement. Opens no sockets: `mesh` does, and whoever starts a daemon puts both together.
 * @module
 */

export { type AttributeLimits, defaultAttributeLimits } from "./attribute-reader.ts";
export type { DecodeOrder, DecodeReport } from "./decode-orders.ts";
export { DecodePool, type DecodePoolOptions, type DecodePoolStats } from "./decode-pool.ts";
export { Forwarder, type ForwarderOptions, type ForwardOutcome, type ForwardStats } from "./forward.ts";
export { inspectRequest, type OtlpSignal } from "./inspect-request.ts";
export { jsonToProtobuf } from "./json-request.ts";
export { LogDecoder } from "./log-request.ts";
export type { Exemplar, ExponentialBuckets, MetricKind, MetricPoint, Temporality } from "./metric-point.ts";
export { type DecodedMetrics, decodeMetricRequest } from "./metric-request.ts";
export { OtlpIntake, type OtlpIntakeConfig, type OtlpIntakeOptions, type OtlpStatus, type OtlpStore } from "./otlp-intake.ts";
export { addOtlpMetrics } from "./otlp-metrics.ts";
export { MalformedError } from "./protobuf-reader.ts";
export { OtlpReceiver, type OtlpReceiverOptions, type OtlpReply, type OtlpRequest, type SignalCounts } from "./receiver.ts";
export { type DecodePort, runDecodeWorker } from "./run-decode-worker.ts";
export { SamplingBudget, type SamplingBudgetOptions } from "./sampling-budget.ts";
export { type DecodeCounts, SpanDecoder } from "./trace-request.ts";
