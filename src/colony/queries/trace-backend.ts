/** The part of the colony's backend that is about traces. */

import type { Clock } from "../../base/clock.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import { querySpanEdges, querySpanProcesses, querySpanRed, querySpanServices, queryTrace, queryTraces } from "../../store/queries/index.ts";
import type { ColonyBackend } from "../../tools/index.ts";

export type TraceBackend = Pick<ColonyBackend, "traces" | "trace" | "spanServices" | "spanProcesses" | "spanEdges" | "spanRed">;

export function createTraceBackend({ store, clock }: { store: ColonyStore; clock: Clock }): TraceBackend {
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
