/** Metrics sent by programs. Numbers are in the metric's own unit. */

import type { MeasureKind } from "./diagnosis.ts";
import type { OwnStoreFacts } from "./own-stores.ts";

export const metricKinds = ["gauge", "sum", "histogram", "exponential_histogram", "summary"] as const;
export type MetricKind = (typeof metricKinds)[number];

export interface MetricNamesRequest {
  service?: string;
  agentIds?: readonly string[];
  /** Substring of a name. */
  contains?: string;
  sinceMs: number;
  limit: number;
}

export interface MetricNameFact {
  name: string;
  /** UCUM unit: `s`, `ms`, `By`, `1`, `{request}`. */
  unit: string;
  kind: MetricKind;
  /** It only rises, and is queried as a rate. */
  isCounter: boolean;
  /** The first few of `serviceCount`. */
  services: string[];
  serviceCount: number;
  series: number;
  lastAt: string;
}

export interface MetricNamesFacts extends OwnStoreFacts {
  rows: MetricNameFact[];
  total: number;
}

export interface MetricRequest {
  name: string;
  service?: string;
  agentIds?: readonly string[];
  /** An attribute, or `service`, `instance` or `agent`. Absent: one row per service. */
  by?: string;
  sinceMs: number;
  /** Length of one step, aligned to multiples of itself since 1970. Absent: the shortest that gives at most `maxPoints`. */
  stepMs?: number;
  /** Upper bound of steps; 0 = none. */
  maxPoints: number;
  limit: number;
}

/** One group of series. Null where nothing was measured, or where the number has no meaning for the kind. */
export interface MetricRowFact {
  /** Empty if the group has several services. */
  service: string;
  /** Value of the attribute given as `by`; null for series without it. */
  group: string | null;
  unit: string;
  kind: MetricKind;
  isCounter: boolean;
  series: number;
  /** For counters: increase per second. For histograms: observations per second. */
  rate: number | null;
  /** For counters: increase. For histograms: number of observations. */
  total: number | null;
  /** For gauges: the newest value, averaged over series that still send. For up-down sums, these four are of the sum over series. */
  last: number | null;
  mean: number | null;
  min: number | null;
  max: number | null;
  p50: number | null;
  p95: number | null;
  p99: number | null;
  /** Oldest first: rates of counters, means of gauges, p95 of histograms. */
  points: (number | null)[];
  /** For histograms: observations per second. */
  ratePoints: (number | null)[];
}

export interface MetricFacts extends OwnStoreFacts {
  rows: MetricRowFact[];
  /** Number of groups before the limit. */
  total: number;
  /** Start of the first step, milliseconds since 1970. Steps follow without gaps up to now. */
  startMs: number;
  stepMs: number;
  /** Number of histograms with incompatible buckets, which cannot be merged. */
  unmergedSeries: number;
}

export interface PromqlRequest {
  expression: string;
  agentIds?: readonly string[];
  sinceMs: number;
  stepMs: number;
  limit: number;
}

export interface PromqlSeriesFact {
  labels: Readonly<Record<string, string>>;
  /** One value per step; null without a value, and for NaN and infinities. */
  points: (number | null)[];
}

export interface PromqlFacts {
  rows: PromqlSeriesFact[];
  /** Number of series before the limit. */
  total: number;
  startMs: number;
  stepMs: number;
}

/** Dropped points. `loss` as in the signal `metric_loss`. */
export interface MetricLossFact {
  service: string;
  loss: string;
  count: number;
}

/** By name; the first that matches counts. */
const measurePatterns = {
  host: /^(?:node|host|machine|system)(?:[._A-Z]|$)/,
  success: /avail|success/i,
  errors: /err(?:or)?s?(?:[^a-z]|$)|fail|exception|5xx/i,
  latency: /lat(?:ency)?(?:[^a-z]|$)|latency|duration|response.?time|elapsed/i,
  client: /client|outgoing|downstream/i,
  resource:
    /cpu|mem(?:ory)?(?:[^a-z]|$)|memory|rss|heap|disk|throttl|thread|socket|descriptor|open.?files|gc(?:[^a-z]|$)|queue.?(?:depth|length)|pool|saturation|event.?loop/i,
};

/** Classifies a metric by its name and unit: OpenTelemetry's names, Prometheus' names, and common custom names. */
export function measureKindOf(name: string, unit = ""): { kind: MeasureKind; isSuccess: boolean } {
  const { host, success, errors, latency, client, resource } = measurePatterns;
  const of = (kind: MeasureKind, isSuccess = false) => ({ kind, isSuccess });
  if (host.test(name)) return of("host");
  if (success.test(name)) return of("errors", true);
  if (errors.test(name)) return of("errors");
  if (latency.test(name)) return of(client.test(name) ? "calls" : "latency");
  if (resource.test(name) || unit === "By") return of("resource");
  return of("traffic");
}
