/**
 * Queries agents directly for what the colony does not have yet: the one agent that a request names, or every agent for a trace of the last
 * minute that is missing or incomplete here.
 */

import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { SpanFact, TraceFacts } from "../../model/traces.ts";
import type { ToolCallContext } from "../../tools/index.ts";
import type { ResolvedBackend } from "../identity/label-backend.ts";
import type { AgentQueries, AgentQueryKind } from "./agent-queries.ts";

type OwnStoresQueries = Pick<ResolvedBackend, "traces" | "trace" | "logs" | "logPatterns" | "metric" | "metricNames">;

export interface OwnStoresBackendOptions {
  /** The colony's own store. */
  own: OwnStoresQueries;
  agents: Pick<AgentQueries, "one" | "all">;
  clock: Clock;
}

/** Spans reach the colony within seconds: an older trace with missing spans stays incomplete. */
const freshMs = 60_000;

export function createOwnStoresBackend({ own, agents, clock }: OwnStoresBackendOptions): OwnStoresQueries {
  const ask = async <Request extends { sinceMs: number; agentIds?: readonly string[] }, Facts extends object>(
    kind: AgentQueryKind,
    fromColony: (request: Request, context: ToolCallContext) => Promise<Facts>,
    request: Request,
    context: ToolCallContext,
  ): Promise<Facts> => {
    const [agentId, ...others] = request.agentIds ?? [];
    if (agentId === undefined || others.length > 0) return await fromColony(request, context);
    const { agentIds: _, ...question } = request;
    try {
      const { answer, oldestMs } = await agents.one<Facts>(agentId, kind, question, context.signal);
      // The range starts before the agent's oldest row; the colony keeps rows longer.
      if (oldestMs === null || oldestMs > clock.wallMs() - request.sinceMs) return await fromColony(request, context);
      return { ...named(answer, agentId), ownStores: [agentId] };
    } catch (error) {
      context.signal.throwIfAborted();
      const problem = CoralError.from(error);
      // An invalid request fails here, too.
      if (problem.code === "usage" || problem.code === "invalid") throw error;
      return { ...(await fromColony(request, context)), directProblem: problem.message };
    }
  };
  return {
    traces: (request, context) => ask("traces", own.traces, request, context),
    logs: (request, context) => ask("logs", own.logs, request, context),
    logPatterns: (request, context) => ask("log_patterns", own.logPatterns, request, context),
    metric: (request, context) => ask("metric", own.metric, request, context),
    metricNames: (request, context) => ask("metric_names", own.metricNames, request, context),
    trace: async (request, context) => {
      const found = await own.trace(request, context);
      if (!mayBeIncomplete(found, clock.wallMs())) return found;
      const { answers, silent } = await agents.all<TraceFacts>("trace", request, context.signal);
      const facts = merged(
        // Spans of a silent agent may have arrived during the wait.
        silent.length === 0 ? found : await own.trace(request, context),
        answers.map(({ agentId, answer }) => ({ agentId, ...named(answer, agentId) })),
        request.maxSpans,
      );
      if (silent.length === 0 || !mayBeIncomplete(facts, clock.wallMs())) return facts;
      const who = silent.length === 1 ? `agent "${silent[0]}"` : `${silent.length} agents`;
      return { ...facts, directProblem: `Cannot query ${who} for the newest spans: no response in time` };
    },
  };
}

/** Adds the agent id: rows of an agent's own store do not have it. */
function named<Facts extends object>(facts: Facts, agentId: string): Facts {
  const withId = (row: object): object => ("agentId" in row ? { ...row, agentId } : row);
  const lists = Object.entries(facts).filter(
    (pair): pair is [string, object[]] => Array.isArray(pair[1]) && typeof pair[1][0] === "object",
  );
  return { ...facts, ...Object.fromEntries(lists.map(([name, rows]) => [name, rows.map(withId)])) };
}

function mayBeIncomplete({ spans, total }: TraceFacts, nowMs: number): boolean {
  if (total > spans.length) return false;
  if (spans.length === 0) return true;
  const lastMs = spans.reduce((last, span) => Math.max(last, span.startUs / 1_000 + span.durationNs / 1e6), 0);
  if (lastMs < nowMs - freshMs) return false;
  const ids = new Set(spans.map(({ spanId }) => spanId));
  return spans.some(({ parentSpanId }) => parentSpanId !== null && !ids.has(parentSpanId));
}

function merged(found: TraceFacts, answers: readonly ({ agentId: string } & TraceFacts)[], maxSpans: number): TraceFacts {
  const keyOf = ({ spanId, service, kind, startUs, durationNs }: SpanFact): string =>
    JSON.stringify([spanId, service, kind, startUs, durationNs]);
  const spans = new Map(found.spans.map((span) => [keyOf(span), span]));
  const ownStores: string[] = [];
  for (const { agentId, spans: own } of answers) {
    const added = own.filter((span) => !spans.has(keyOf(span)));
    for (const span of added) spans.set(keyOf(span), span);
    if (added.length > 0) ownStores.push(agentId);
  }
  if (ownStores.length === 0) return found;
  const all = [...spans.values()].sort((a, b) => a.startUs - b.startUs || b.durationNs - a.durationNs);
  return { spans: all.slice(0, maxSpans), total: all.length, ownStores };
}
