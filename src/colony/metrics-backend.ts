/** The part of the colony's backend that is about metrics of programs. */

import type { Clock } from "../base/clock.ts";
import { type ColonyStore, queryMetric, queryMetricLosses, queryMetricNames, queryPromql } from "../store/index.ts";
import type { ColonyBackend } from "../tools/index.ts";

export type MetricsBackend = Pick<ColonyBackend, "metricNames" | "metric" | "promql" | "metricLosses">;

export function createMetricsBackend({ store, clock }: { store: ColonyStore; clock: Clock }): MetricsBackend {
  return {
    metricNames: (request) => queryMetricNames(store, { ...request, nowMs: clock.wallMs() }),
    metric: (request) => queryMetric(store, { ...request, nowMs: clock.wallMs() }),
    promql: async ({ sinceMs, stepMs, ...request }, context) => {
      // At multiples of the step, so that the same question a moment later has the same points.
      const endMs = Math.floor(clock.wallMs() / stepMs) * stepMs;
      const startMs = endMs - Math.floor(sinceMs / stepMs) * stepMs;
      const answer = await queryPromql(store, { ...request, startMs, endMs, stepMs, signal: context.signal });
      return { ...answer, startMs, stepMs };
    },
    metricLosses: (request) => queryMetricLosses(store, { ...request, nowMs: clock.wallMs() }),
  };
}
