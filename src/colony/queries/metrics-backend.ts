/** The part of the colony's backend that is about metrics of programs. */

import type { Clock } from "../../base/clock.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import { choosePoints, metricStepMs, queryMetric, queryMetricLosses, queryMetricNames, queryPromql } from "../../store/queries/index.ts";
import type { ColonyBackend } from "../../tools/index.ts";

const minuteMs = 60_000;
/** Over more than this, PromQL reads points that are a minute apart. */
const longMs = 24 * 60 * minuteMs;
/** PromQL is evaluated up to a multiple of this. */
const endAlignMs = 10_000;

export type MetricsBackend = Pick<ColonyBackend, "metricNames" | "metric" | "promql" | "metricLosses">;

export function createMetricsBackend({ store, clock }: { store: ColonyStore; clock: Clock }): MetricsBackend {
  return {
    metricNames: async (request) => {
      const nowMs = clock.wallMs();
      const points = await choosePoints(store, { startMs: nowMs - request.sinceMs, endMs: nowMs, finestMs: Number.POSITIVE_INFINITY });
      return await queryMetricNames(store, { ...request, nowMs, points });
    },
    metric: async (request) => {
      const nowMs = clock.wallMs();
      const finestMs = metricStepMs({ ...request, nowMs });
      const points = await choosePoints(store, { startMs: nowMs - request.sinceMs, endMs: nowMs, finestMs });
      return await queryMetric(store, { ...request, nowMs, points });
    },
    promql: async ({ sinceMs, stepMs, ...request }, context) => {
      // The last point is about now, however long a step is; the same question a moment later has the same points.
      const alignMs = Math.min(stepMs, endAlignMs);
      const endMs = Math.floor(clock.wallMs() / alignMs) * alignMs;
      const startMs = endMs - Math.floor(sinceMs / stepMs) * stepMs;
      // Ranges such as [5m] need several points: ten minutes are too far apart, and one is when as many as were sent are there.
      const points = await choosePoints(store, { startMs, endMs, finestMs: sinceMs > longMs ? minuteMs : 0 });
      const answer = await queryPromql(store, { points, ...request, startMs, endMs, stepMs, signal: context.signal });
      return { ...answer, startMs, stepMs };
    },
    metricLosses: (request) => queryMetricLosses(store, { ...request, nowMs: clock.wallMs() }),
  };
}
