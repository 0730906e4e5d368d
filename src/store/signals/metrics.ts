/** What programs measure themselves, as OpenTelemetry sends it or Prometheus reads it. */

import { defineSignal } from "./define-signal.ts";

const hourMs = 3_600_000;

/**
 * One data point, as it was sent: deltas stay deltas, what counts from a start stays so. Lists are JSON text, because counts may need more
 * than 32 bits; `CAST(counts AS UBIGINT[])` and `CAST(bounds AS DOUBLE[])` make lists of them.
 */
export const metricPoint = defineSignal({
  name: "metric_point",
  description: "One data point of a metric that a program sent by OTLP or that was scraped from it; values are in `unit`",
  columns: {
    service: "text",
    name: "text",
    /** By UCUM: `s`, `ms`, `By`, `1`, `{request}`; empty when the sender gave none. */
    unit: "text",
    /** `gauge`, `sum`, `histogram`, `exponential_histogram`, `summary`. */
    kind: "text",
    /** Of sums and histograms: `delta` covers the time since start_time, `cumulative` all since start_time. */
    temporality: "text?",
    /** Of sums: it only rises, except when it starts again. */
    is_monotonic: "bool",
    /** JSON object with sorted keys. */
    attributes: "text",
    /** Of all that makes a series one: the sender, the scope, the metric and its attributes. 16 hex digits. */
    series: "text",
    service_version: "text?",
    service_instance: "text?",
    start_time: "time?",
    /** Of gauges and sums. */
    value: "float?",
    /** What is there instead of a value: `none` (the series ended), `nan`, `+inf`, `-inf`. */
    special: "text?",
    /** Of histograms and summaries. */
    count: "int?",
    sum: "float?",
    min: "float?",
    max: "float?",
    /** Upper bounds of all buckets but the last, which has none. */
    bounds: "text?",
    counts: "text?",
    /** Of exponential histograms: bucket i counts values in (b^(offset+i), b^(offset+i+1)] with b = 2^(2^-scale). */
    scale: "int?",
    zero_count: "int?",
    zero_threshold: "float?",
    positive_offset: "int?",
    positive_counts: "text?",
    negative_offset: "int?",
    negative_counts: "text?",
    /** Of summaries: JSON list of pairs of quantile and value. */
    quantiles: "text?",
  },
  retention: {
    agent: { maxAgeMs: 6 * hourMs, weight: 4 },
    colony: { maxAgeMs: 7 * 24 * hourMs, weight: 6 },
  },
  isThinned: true,
});

/** Written when a series is first seen and again every few hours; what is equal for all of its points and rarely queried. */
export const metricSeries = defineSignal({
  name: "metric_series",
  description: "What is known of a series of metric_point: description, resource and scope",
  columns: {
    series: "text",
    service: "text",
    name: "text",
    description: "text",
    attributes: "text",
    environment: "text?",
    host_name: "text?",
    /** JSON object of all attributes of the sender. */
    resource: "text?",
    scope_name: "text?",
    scope_version: "text?",
  },
  retention: {
    agent: { maxAgeMs: 12 * hourMs, weight: 1 },
    colony: { maxAgeMs: 8 * 24 * hourMs, weight: 1 },
  },
});

/** No row: nothing was lost. */
export const metricLoss = defineSignal({
  name: "metric_loss",
  description: "Data points of one service that were not kept in one window, and why",
  columns: {
    service: "text",
    /** `series-full`, `future`, `unusable`, `scrape-failed`, `scrape-full`. */
    loss: "text",
    count: "int",
    window_ms: "int",
  },
  retention: {
    agent: { maxAgeMs: 24 * hourMs, weight: 1 },
    colony: { maxAgeMs: 7 * 24 * hourMs, weight: 1 },
  },
});
