/** Metrics that programs send. Numbers are in the metric's own unit. */

import type { MeasureKind } from "./diagnosis.ts";
import type { OwnStoreFacts } from "./own-stores.ts";

export const metricKinds = ["gauge", "sum", "histogram", "exponential_histogram", "summary"] as const;
export type MetricKind = (typeof metricKinds)[number];

export interface MetricNamesRequest {
  service?: string;
  agentIds?: readonly string[];
  /** Part of a name. */
  contains?: string;
  sinceMs: number;
  limit: number;
}

export interface MetricNameFact {
  name: string;
  /** By UCUM: `s`, `ms`, `By`, `1`, `{request}`. */
  unit: string;
  kind: MetricKind;
  /** It only rises: queried as a rate. */
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
  /** An attribute, or `service`, `instance` or `agent`; absent: one row per service. */
  by?: string;
  sinceMs: number;
  /** Length of one step, aligned to multiples of itself since 1970; absent: the shortest that gives at most `maxPoints`. */
  stepMs?: number;
  /** Upper bound of steps; 0 = none. */
  maxPoints: number;
  limit: number;
}

/** One group of series. Null where nothing was measured, or where the number means nothing for the kind. */
export interface MetricRowFact {
  /** Empty when the group has several services. */
  service: string;
  /** The value of the attribute given as `by`; null when a series lacks it. */
  group: string | null;
  unit: string;
  kind: MetricKind;
  isCounter: boolean;
  series: number;
  /** Of counters: per second. Of histograms: observations per second. */
  rate: number | null;
  /** Of counters: how much was counted. Of histograms: how many observations. */
  total: number | null;
  /** Of gauges: the newest, the mean over series that still send. Of up-down sums these four are of the sum over series. */
  last: number | null;
  mean: number | null;
  min: number | null;
  max: number | null;
  p50: number | null;
  p95: number | null;
  p99: number | null;
  /** Oldest first: rates of counters, means of gauges, p95 of histograms. */
  points: (number | null)[];
  /** Of histograms: observations per second. */
  ratePoints: (number | null)[];
}

export interface MetricFacts extends OwnStoreFacts {
  rows: MetricRowFact[];
  /** Groups before the limit. */
  total: number;
  /** Start of the first step, milliseconds since 1970; steps follow without gaps up to now. */
  startMs: number;
  stepMs: number;
  /** Histograms with incompatible buckets, which cannot be merged. */
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
  /** One value per step; null where there is none, also for NaN and infinities. */
  points: (number | null)[];
}

export interface PromqlFacts {
  rows: PromqlSeriesFact[];
  /** Series before the limit. */
  total: number;
  startMs: number;
  stepMs: number;
}

/** Points that were dropped. `loss` as in the signal `metric_loss`. */
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

/** What a metric is about, by its name and unit: OpenTelemetry's names, Prometheus' and those that people make up. */
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
