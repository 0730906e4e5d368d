import type { MetricsRegistry, Sample } from "../../base/metrics.ts";
import type { OtlpStatus } from "./otlp-intake.ts";

/** What is taken by OTLP, on /metrics. */
export function addOtlpMetrics(metrics: MetricsRegistry, status: () => OtlpStatus): void {
  const received = (read: (counts: OtlpStatus["received"][number]) => number) => (): Sample[] =>
    status().received.map((counts) => [{ signal: counts.signal }, read(counts)]);
  const counter = (name: string, help: string, read: (counts: OtlpStatus["received"][number]) => number): void =>
    metrics.read({ name, help, kind: "counter" }, received(read));
  counter("coral_otlp_requests_total", "OTLP requests since the start", (counts) => counts.requests);
  counter("coral_otlp_rows_total", "Spans, log records and data points that were acknowledged since the start", (counts) => counts.rows);
  counter("coral_otlp_rejected_rows_total", "Of those sent, what could not be kept", (counts) => counts.rejected);
  counter("coral_otlp_refused_requests_total", "Requests that were refused whole", (counts) => counts.refused);
  counter("coral_otlp_repeated_requests_total", "Requests that had come before and were not stored again", (counts) => counts.repeated);
  counter("coral_otlp_bytes_total", "Bytes of requests as they were sent", (counts) => counts.bytes);
  metrics.read({ name: "coral_otlp_in_flight_bytes", help: "Bytes of requests that are being worked on" }, () => status().inFlightBytes);
  metrics.read({ name: "coral_otlp_sampling_share", help: "Share of ordinary traces that is kept" }, () => status().sampling.share);
  metrics.read(
    { name: "coral_otlp_sampled_out_spans_total", help: "Spans that sampling let go since the start", kind: "counter" },
    () => status().sampling.droppedSpans,
  );
  metrics.read(
    { name: "coral_otlp_worker_restarts_total", help: "Unexpected ends of decode threads since the start", kind: "counter" },
    () => status().workerRestarts,
  );
  metrics.read(
    { name: "coral_otlp_forwarded_requests_total", help: "Requests that were forwarded, by what became of them", kind: "counter" },
    () => {
      const { forward } = status();
      if (forward === null) return [];
      return [
        [{ outcome: "sent" }, forward.sent],
        [{ outcome: "dropped" }, forward.dropped],
        [{ outcome: "refused" }, forward.refused],
      ];
    },
  );
}
