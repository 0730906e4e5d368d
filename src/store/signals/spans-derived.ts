/** What a colony makes of the spans that it has pulled, so that questions about hours need not read them again. Agents have none of it. */

import { defineSignal } from "./define-signal.ts";

const hourMs = 3_600_000;

/** One row per window and kind of span. Several rows of one window and kind add up: what came later has a row of its own. */
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
    /** Route, method of a service, destination or name of the span; `other` beyond the 200 busiest of a service. */
    route: "text",
    /** HTTP or RPC status code, else the span's own status. */
    status: "text",
    is_error: "bool",
    /** `service.version`; null when the sender gave none. */
    version: "text?",
    window_ms: "int",
    /** Spans that are stored. */
    spans: "int",
    /** What they stand for. */
    requests: "float",
    /** Microseconds, summed over `requests`. */
    duration_us: "float",
    /** Buckets as those of `red`. Counts are whole: a weight between two numbers is either, by chance, so that sums are right on average. */
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

/** The same spans by service alone: of a thousand services this is a small part of the rows. */
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

/** Who called whom, by spans. A call counts in the window in which it arrived, as soon as both of its ends are there. */
export const spanEdge = defineSignal({
  name: "span_edge",
  description: "Calls from one service to another in one minute, by spans whose parent is of another service; weighted where sampled",
  columns: {
    client: "text",
    server: "text",
    /** As in `span_red`, reported by the callee. */
    protocol: "text",
    window_ms: "int",
    requests: "float",
    errors: "float",
    first_seen: "time",
    last_seen: "time",
    /** How long the called took. Buckets as those of `red`. */
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
