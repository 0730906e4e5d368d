/** The backend's queries of metrics, logs and traces that programs sent. */

import type { Clock } from "../../base/clock.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import {
  choosePoints,
  metricStepMs,
  type PromqlQuery,
  queryHotFunctions,
  queryLogPatterns,
  queryLogs,
  queryMetric,
  queryMetricLosses,
  queryMetricNames,
  queryProfile,
  queryPromql,
  querySpanEdges,
  querySpanProcesses,
  querySpanRed,
  querySpanServices,
  queryTrace,
  queryTraces,
} from "../../store/queries/index.ts";
import type { ResolvedBackend } from "../identity/label-backend.ts";

const minuteMs = 60_000;
/** Above this range, PromQL reads one-minute points. */
const longMs = 24 * 60 * minuteMs;
/** The end of a PromQL range is rounded down to a multiple of this, or of the step if that is shorter. */
const endAlignMs = 10_000;

type MetricsBackend = Pick<ResolvedBackend, "metricNames" | "metric" | "promql" | "metricLosses">;
type LogsBackend = Pick<ResolvedBackend, "logs" | "logPatterns">;
type ProfileBackend = Pick<ResolvedBackend, "profile" | "hotFunctions">;
type TraceBackend = Pick<ResolvedBackend, "traces" | "trace" | "spanServices" | "spanProcesses" | "spanEdges" | "spanRed">;

export interface TelemetryBackendOptions {
  store: ColonyStore;
  clock: Clock;
}

export function createTelemetryBackend(options: TelemetryBackendOptions): MetricsBackend & LogsBackend & TraceBackend & ProfileBackend {
  const { store, clock } = options;
  return {
    ...metricsBackend(options),
    ...logsBackend(options),
    ...traceBackend(options),
    profile: (request) => queryProfile(store, { ...request, nowMs: clock.wallMs() }),
    hotFunctions: (request) => queryHotFunctions(store, request),
  };
}

function metricsBackend({ store, clock }: TelemetryBackendOptions): MetricsBackend {
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
      // The last point is close to now even with long steps, and repeating a query a moment later returns the same points.
      const alignMs = Math.min(stepMs, endAlignMs);
      const endMs = Math.floor(clock.wallMs() / alignMs) * alignMs;
      const startMs = endMs - Math.floor(sinceMs / stepMs) * stepMs;
      // A range such as [5m] needs several points, so ten-minute points are too coarse; short ranges read the points as sent.
      const points: PromqlQuery["points"] = (window) =>
        choosePoints(store, { ...window, finestMs: window.endMs - window.startMs > longMs ? minuteMs : 0 });
      const answer = await queryPromql(store, { points, ...request, startMs, endMs, stepMs, signal: context.signal });
      return { ...answer, startMs, stepMs };
    },
    metricLosses: (request) => queryMetricLosses(store, { ...request, nowMs: clock.wallMs() }),
  };
}

function logsBackend({ store, clock }: TelemetryBackendOptions): LogsBackend {
  return {
    logs: (request) => queryLogs(store, { ...request, nowMs: clock.wallMs() }),
    logPatterns: (request) => queryLogPatterns(store, { ...request, nowMs: clock.wallMs() }),
  };
}

function traceBackend({ store, clock }: TelemetryBackendOptions): TraceBackend {
  return {
    traces: (request) => queryTraces(store, { ...request, nowMs: clock.wallMs() }),
    trace: (request) => queryTrace(store, request),
    spanEdges: (request) => querySpanEdges(store, { ...request, nowMs: clock.wallMs() }),
    spanRed: ({ sinceMs, endAgoMs = 0, by, ...filter }) => {
      const endMs = clock.wallMs() - endAgoMs;
      const grouped = by === "route" || by === "status" ? [by] : [];
      return querySpanRed(store, { ...filter, by: grouped, startMs: endMs - sinceMs, endMs, onlyRequests: true });
    },
    spanProcesses: () => querySpanProcesses(store, { nowMs: clock.wallMs() }),
    spanServices: (request) => querySpanServices(store, { ...request, nowMs: clock.wallMs() }),
  };
}
