/** Metrics that programs send. Numbers are in the metric's own unit. */

import * as z from "zod";
import { isoTimeSchema } from "./agent.ts";
import type { OwnStoreFacts } from "./own-stores.ts";

export const metricKinds = ["gauge", "sum", "histogram", "exponential_histogram", "summary"] as const;
const kindSchema = z.enum(metricKinds);

const metricNameSchema = z.object({
  name: z.string(),
  /** By UCUM: `s`, `ms`, `By`, `1`, `{request}`. */
  unit: z.string(),
  kind: kindSchema,
  /** Only rises: told as a rate. */
  isCounter: z.boolean(),
  /** The first few. */
  services: z.array(z.string()),
  serviceCount: z.number(),
  series: z.number(),
  lastAt: isoTimeSchema,
});
export type MetricNameFact = z.infer<typeof metricNameSchema>;

const amount = z.number().nullable();
const metricRowSchema = z.object({
  /** Empty when several services are in it. */
  service: z.string(),
  /** The value of what was asked for with `by`. */
  group: z.string().nullable(),
  unit: z.string(),
  kind: kindSchema,
  isCounter: z.boolean(),
  series: z.number(),
  /** Per second; of histograms observations per second. */
  rate: amount,
  total: amount,
  /** Of gauges. */
  last: amount,
  mean: amount,
  min: amount,
  max: amount,
  p50: amount,
  p95: amount,
  p99: amount,
  /** Oldest first: rates of counters, means of gauges, p95 of histograms. */
  points: z.array(amount),
  /** Of histograms. */
  ratePoints: z.array(amount),
});
export type MetricRowFact = z.infer<typeof metricRowSchema>;

const promqlSeriesSchema = z.object({ labels: z.record(z.string(), z.string()), points: z.array(amount) });
export type PromqlSeriesFact = z.infer<typeof promqlSeriesSchema>;

export const metricResultSchema = z.object({
  sinceMs: z.number(),
  /** Of the first point. */
  startAt: isoTimeSchema.nullable(),
  stepMs: z.number(),
  /** Before the limit. */
  total: z.number(),
  /** Without a name. */
  metrics: z.array(metricNameSchema),
  /** Of one name. */
  rows: z.array(metricRowSchema),
  /** Of PromQL. */
  series: z.array(promqlSeriesSchema),
  /** Agents whose own stores were asked; absent: the colony's alone. */
  ownStores: z.array(z.string()).optional(),
});
export type MetricResult = z.infer<typeof metricResultSchema>;

export interface MetricNamesRequest {
  service?: string;
  agentIds?: string[];
  /** Part of a name. */
  contains?: string;
  sinceMs: number;
  limit: number;
}

export interface MetricRequest {
  name: string;
  service?: string;
  agentIds?: string[];
  by?: string;
  sinceMs: number;
  stepMs?: number;
  maxPoints: number;
  limit: number;
}

export interface PromqlRequest {
  expression: string;
  agentIds?: string[];
  sinceMs: number;
  stepMs: number;
  limit: number;
}

export interface MetricNamesFacts extends OwnStoreFacts {
  rows: MetricNameFact[];
  total: number;
}

export interface MetricFacts extends OwnStoreFacts {
  rows: MetricRowFact[];
  total: number;
  startMs: number;
  stepMs: number;
  unmergedSeries: number;
}

export interface PromqlFacts {
  rows: PromqlSeriesFact[];
  total: number;
  startMs: number;
  stepMs: number;
}

/** Points that were not kept, and why. */
export interface MetricLossFact {
  service: string;
  loss: string;
  count: number;
}
