/** One data point of any kind of OTLP metric, with the fields of its metric. */

export type MetricKind = "gauge" | "sum" | "histogram" | "exponential_histogram" | "summary";
/** What a point of a sum or histogram covers: since the last point, or since its start. */
export type Temporality = "unspecified" | "delta" | "cumulative";

/** An exemplar: one sampled measurement, with its trace. */
export interface Exemplar {
  /** Microseconds since 1970. */
  timeUs: number;
  value: number;
  /** Hex; empty when there is none. */
  traceId: string;
  spanId: string;
  /** Attributes that aggregation removed from the point; canonical JSON. */
  attributes: string;
}

/** Buckets of an exponential histogram: number `i` counts values in (b^(offset+i), b^(offset+i+1)], b = 2^(2^-scale). */
export interface ExponentialBuckets {
  offset: number;
  counts: number[];
}

/** Counts are exact up to 2^53. */
export interface MetricPoint {
  service: string;
  serviceVersion: string;
  serviceInstance: string;
  environment: string;
  hostName: string;
  /** JSON object, or empty. */
  resource: string;
  scopeName: string;
  scopeVersion: string;
  name: string;
  description: string;
  unit: string;
  kind: MetricKind;
  temporality: Temporality;
  /** For sums: the value only increases. */
  isMonotonic: boolean;
  /** JSON object with sorted keys, so that equal sets are equal text; `{}` for none. */
  attributes: string;
  /** Microseconds since 1970; 0 when the sender gave none. */
  startTimeUs: number;
  timeUs: number;
  /** Flagged by the sender: no value at this time; the series has ended. */
  hasNoValue: boolean;
  /** For gauges and sums. */
  value?: number;
  /** For all other kinds. */
  count?: number;
  sum?: number;
  min?: number;
  max?: number;
  /** For histograms: ascending upper bounds, and one count more than bounds. */
  bounds?: number[];
  counts?: number[];
  /** For exponential histograms. */
  scale?: number;
  zeroCount?: number;
  zeroThreshold?: number;
  positive?: ExponentialBuckets;
  negative?: ExponentialBuckets;
  /** For summaries. */
  quantiles?: { quantile: number; value: number }[];
  exemplars: Exemplar[];
}
