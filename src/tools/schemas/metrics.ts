/** Metrics that programs send, in each metric's own unit. */

import * as z from "zod";
import { type MetricNameFact, type MetricRowFact, metricKinds, type PromqlSeriesFact } from "../../model/metrics.ts";
import { isoTimeSchema } from "./agent.ts";

const kindSchema = z.enum(metricKinds);

const metricNameSchema = z.object({
  name: z.string(),
  unit: z.string(),
  kind: kindSchema,
  isCounter: z.boolean(),
  services: z.array(z.string()),
  serviceCount: z.number(),
  series: z.number(),
  lastAt: isoTimeSchema,
}) satisfies z.ZodType<MetricNameFact>;

const amount = z.number().nullable();
const metricRowSchema = z.object({
  service: z.string(),
  group: z.string().nullable(),
  unit: z.string(),
  kind: kindSchema,
  isCounter: z.boolean(),
  series: z.number(),
  rate: amount,
  total: amount,
  last: amount,
  mean: amount,
  min: amount,
  max: amount,
  p50: amount,
  p95: amount,
  p99: amount,
  points: z.array(amount),
  ratePoints: z.array(amount),
}) satisfies z.ZodType<MetricRowFact>;

const promqlSeriesSchema = z.object({
  labels: z.record(z.string(), z.string()),
  points: z.array(amount),
}) satisfies z.ZodType<PromqlSeriesFact>;

export const metricResultSchema = z.object({
  sinceMs: z.number(),
  /** Of the first point. */
  startAt: isoTimeSchema.nullable(),
  stepMs: z.number(),
  /** Before the limit. */
  total: z.number(),
  /** The list of metrics, without a name. */
  metrics: z.array(metricNameSchema),
  /** The series of one metric. */
  rows: z.array(metricRowSchema),
  /** The result of a PromQL expression. */
  series: z.array(promqlSeriesSchema),
  /** Agents whose own stores were read; absent: only the colony's store. */
  ownStores: z.array(z.string()).optional(),
});
export type MetricResult = z.infer<typeof metricResultSchema>;
