/** Metrics of programs, sent as OTLP or scraped from Prometheus endpoints. */

import { defineSignal } from "./define-signal.ts";

const hourMs = 3_600_000;

/**
 * One data point as sent: deltas stay deltas, cumulative values stay cumulative. Lists are JSON text, because counts may need more than 32
 * bits; convert them with `CAST(counts AS UBIGINT[])` and `CAST(bounds AS DOUBLE[])`.
 */
export const metricPoint = defineSignal({
  name: "metric_point",
  description: "One data point of a metric that a program sent by OTLP or that was scraped from it; values are in `unit`",
  columns: {
    service: "text",
    name: "text",
    /** UCUM unit: `s`, `ms`, `By`, `1`, `{request}`; empty when the sender gave none. */
    unit: "text",
    /** `gauge`, `sum`, `histogram`, `exponential_histogram`, `summary`. */
    kind: "text",
    /**
     * Of sums and histograms: `delta` counts since the previous point, `cumulative` since the sender (re)started; start_time is the start
     * of either.
     */
    temporality: "text?",
    /** Of sums: it only rises, except after a restart. */
    is_monotonic: "bool",
    /** JSON object with sorted keys. */
    attributes: "text",
    /** Hash of everything that identifies a series: sender, scope, metric and attributes. 16 hex digits. */
    series: "text",
    service_version: "text?",
    service_instance: "text?",
    start_time: "time?",
    /** Of gauges and sums. */
    value: "float?",
    /** Instead of a value: `none` (the series ended), `nan`, `+inf`, `-inf`. */
    special: "text?",
    /** Of histograms and summaries. */
    count: "int?",
    sum: "float?",
    min: "float?",
    max: "float?",
    /** Ascending upper bounds of all buckets except the last, which is unbounded. */
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

/**
 * Properties that are equal for all points of a series and rarely queried. Written when a series is first seen and again every few hours.
 */
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
    /** JSON object of all resource attributes. */
    resource: "text?",
    scope_name: "text?",
    scope_version: "text?",
  },
  retention: {
    agent: { maxAgeMs: 12 * hourMs, weight: 1 },
    colony: { maxAgeMs: 8 * 24 * hourMs, weight: 1 },
  },
});

/** No row means no loss. */
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
