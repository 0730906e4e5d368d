/** The part of the colony's backend that is about traces. */

import type { Clock } from "../base/clock.ts";
import { type ColonyStore, querySpanEdges, querySpanProcesses, querySpanServices, queryTrace, queryTraces } from "../store/index.ts";
import type { ColonyBackend } from "../tools/index.ts";

export type TraceBackend = Pick<ColonyBackend, "traces" | "trace" | "spanServices" | "spanProcesses" | "spanEdges">;

/** Edges cost more than anything else that is asked of spans: who asks the same within this time gets the same answer. */
const edgesKeptMs = 2_000;
const edgesKeptMax = 16;

export function createTraceBackend({ store, clock }: { store: ColonyStore; clock: Clock }): TraceBackend {
  const edges = new Map<string, { atMs: number; answer: ReturnType<TraceBackend["spanEdges"]> }>();
  return {
    traces: (request) => queryTraces(store, { ...request, nowMs: clock.wallMs() }),
    trace: (request) => queryTrace(store, request),
    spanEdges: async (request) => {
      const key = JSON.stringify([request.sinceMs, request.service, request.agentIds]);
      const nowMs = clock.monotonicMs();
      for (const [old, { atMs }] of edges) if (nowMs - atMs > edgesKeptMs || edges.size > edgesKeptMax) edges.delete(old);
      const kept = edges.get(key);
      if (kept) return await kept.answer;
      const answer = querySpanEdges(store, { ...request, nowMs: clock.wallMs() });
      edges.set(key, { atMs: nowMs, answer });
      try {
        return await answer;
      } catch (error) {
        // A failure is not kept: the next one asks again.
        edges.delete(key);
        throw error;
      }
    },
    spanProcesses: () => querySpanProcesses(store, { nowMs: clock.wallMs() }),
    spanServices: (request) => querySpanServices(store, { ...request, nowMs: clock.wallMs() }),
  };
}
