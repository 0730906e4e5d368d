/** Signals that a colony derives from pulled spans, so that queries over hours need not read the spans again. Agents have none of them. */

import { defineSignal } from "./define-signal.ts";

const hourMs = 3_600_000;

/** One row per window and kind of span. Rows of the same window and kind add up: late spans get their own row. */
export const spanRed = defineSignal({
  name: "span_red",
  description:
    "Spans of one service and route in one window: how many, how many failed, how long they took; from traces, weighted where sampled",
  columns: {
    service: "text",
    /** `server` (also a consumer of messages) served, `client` (also a producer) sent, `internal` is neither. */
    role: "text",
    /** `http`, or the system of the call, such as `grpc`, `postgresql`, `kafka`; `span` if spans do not state it. */
    protocol: "text",
    method: "text",
    /** Route, RPC method, destination or span name; `other` beyond the 200 busiest of a service. */
    route: "text",
    /** HTTP or RPC status code, else the span's own status. */
    status: "text",
    is_error: "bool",
    /** `service.version`; null when the sender gave none. */
    version: "text?",
    window_ms: "int",
    /** Number of stored spans. */
    spans: "int",
    /** Spans weighted by sampling. */
    requests: "float",
    /** Microseconds, summed over `requests`. */
    duration_us: "float",
    /** Buckets as in `red`. Counts are integers: a fractional weight is rounded up or down at random, so that sums are right on average. */
    duration_lo: "int",
    duration_counts: "uints",
  },
  retention: {
    agent: { maxAgeMs: hourMs, weight: 1 },
    colony: { maxAgeMs: 3 * hourMs, weight: 4 },
  },
  rollup: {
    keys: ["service", "role", "protocol", "method", "route", "status", "is_error", "version"],
    measures: { spans: ["sum"], requests: ["sum"], duration_us: ["sum"] },
    histograms: ["duration"],
  },
});

/** The same spans by service only: for a thousand services this is a small fraction of the rows. */
export const spanService = defineSignal({
  name: "span_service",
  description: "Spans of one service in one window, as in span_red, without routes",
  columns: {
    service: "text",
    role: "text",
    protocol: "text",
    is_error: "bool",
    window_ms: "int",
    spans: "int",
    requests: "float",
    duration_us: "float",
    duration_lo: "int",
    duration_counts: "uints",
  },
  retention: {
    agent: { maxAgeMs: hourMs, weight: 1 },
    colony: { maxAgeMs: 6 * hourMs, weight: 3 },
  },
  rollup: {
    keys: ["service", "role", "protocol", "is_error"],
    measures: { spans: ["sum"], requests: ["sum"], duration_us: ["sum"] },
    histograms: ["duration"],
  },
});

/** Calls between services, from spans. A call counts in the window in which its second end arrived. */
export const spanEdge = defineSignal({
  name: "span_edge",
  description: "Calls from one service to another in one minute, by spans whose parent is of another service; weighted where sampled",
  columns: {
    client: "text",
    server: "text",
    /** As in `span_red`, from the callee's span. */
    protocol: "text",
    window_ms: "int",
    requests: "float",
    errors: "float",
    first_seen: "time",
    last_seen: "time",
    /** Duration at the callee. Buckets as in `red`. */
    duration_lo: "int",
    duration_counts: "uints",
  },
  retention: {
    agent: { maxAgeMs: hourMs, weight: 1 },
    colony: { maxAgeMs: 24 * hourMs, weight: 2 },
  },
  rollup: {
    keys: ["client", "server", "protocol"],
    measures: { requests: ["sum"], errors: ["sum"], first_seen: ["min"], last_seen: ["max"] },
    histograms: ["duration"],
  },
});
