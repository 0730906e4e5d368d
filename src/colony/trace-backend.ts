/** The part of the colony's backend that is about traces. */

import type { Clock } from "../base/clock.ts";
import { type ColonyStore, querySpanEdges, querySpanProcesses, querySpanServices, queryTrace, queryTraces } from "../store/index.ts";
import type { ColonyBackend } from "../tools/index.ts";

export type TraceBackend = Pick<ColonyBackend, "traces" | "trace" | "spanServices" | "spanProcesses" | "spanEdges">;

export function createTraceBackend({ store, clock }: { store: ColonyStore; clock: Clock }): TraceBackend {
  return {
    traces: (request) => queryTraces(store, { ...request, nowMs: clock.wallMs() }),
    trace: (request) => queryTrace(store, request),
    spanEdges: (request) => querySpanEdges(store, { ...request, nowMs: clock.wallMs() }),
    spanProcesses: () => querySpanProcesses(store, { nowMs: clock.wallMs() }),
    spanServices: (request) => querySpanServices(store, { ...request, nowMs: clock.wallMs() }),
  };
}
