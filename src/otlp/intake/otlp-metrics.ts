import type { MetricsRegistry, Sample } from "../../base/metrics.ts";
import type { MetricIntakeCounts } from "./metric-intake.ts";
import type { OtlpStatus } from "./otlp-intake.ts";

/** The OTLP receiver on /metrics. */
export function addOtlpMetrics(metrics: MetricsRegistry, status: () => OtlpStatus): void {
  const received = (read: (counts: OtlpStatus["received"][number]) => number) => (): Sample[] =>
    status().received.map((counts) => [{ signal: counts.signal }, read(counts)]);
  const counter = (name: string, help: string, read: (counts: OtlpStatus["received"][number]) => number): void =>
    metrics.read({ name, help, kind: "counter" }, received(read));
  counter("coral_otlp_requests_total", "OTLP requests since the start", (counts) => counts.requests);
  counter("coral_otlp_rows_total", "Spans, log records and data points that were acknowledged since the start", (counts) => counts.rows);
  counter(
    "coral_otlp_rejected_rows_total",
    "Received spans, log records and data points that could not be stored",
    (counts) => counts.rejected,
  );
  counter("coral_otlp_refused_requests_total", "Requests that were refused completely", (counts) => counts.refused);
  counter("coral_otlp_repeated_requests_total", "Retransmitted requests that were not stored again", (counts) => counts.repeated);
  counter("coral_otlp_bytes_total", "Bytes of requests on the wire", (counts) => counts.bytes);
  metrics.read({ name: "coral_otlp_in_flight_bytes", help: "Request bytes in flight" }, () => status().inFlightBytes);
  metrics.read({ name: "coral_otlp_sampling_share", help: "Share of ordinary traces that sampling keeps" }, () => status().sampling.share);
  metrics.read(
    { name: "coral_otlp_sampled_out_spans_total", help: "Spans dropped by sampling since the start", kind: "counter" },
    () => status().sampling.droppedSpans,
  );
  metrics.read(
    { name: "coral_otlp_worker_restarts_total", help: "Decode workers that exited unexpectedly since the start", kind: "counter" },
    () => status().workerRestarts,
  );
  metrics.read({ name: "coral_otlp_forwarded_requests_total", help: "Forwarded requests by outcome", kind: "counter" }, () => {
    const { forward } = status();
    if (forward === null) return [];
    return [
      [{ outcome: "sent" }, forward.sent],
      [{ outcome: "dropped" }, forward.dropped],
      [{ outcome: "refused" }, forward.refused],
    ];
  });
}

/** The metric intake on /metrics. */
export function addMetricIntakeMetrics(metrics: MetricsRegistry, counts: () => Readonly<MetricIntakeCounts>): void {
  const read = (name: string, help: string, value: () => number): void => metrics.read({ name, help, kind: "counter" }, value);
  metrics.read({ name: "coral_metric_series", help: "Metric series seen within the last hour" }, () => counts().series);
  read("coral_metric_points_total", "Data points stored since the start", () => counts().points);
  read("coral_metric_points_over_series_total", "Data points dropped because of the series limit", () => counts().overSeries);
  read("coral_metric_points_unusable_total", "Data points dropped: from the future, or with unusable numbers", () => counts().unusable);
}
