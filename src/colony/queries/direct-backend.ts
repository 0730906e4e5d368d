/**
 * Where the colony lacks the detail, agents are asked themselves: the one that a question names, and all of them for a trace of the last minute
 * that is not, or not all, here yet.
 */

import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { SpanFact, TraceFacts } from "../../model/traces.ts";
import type { ColonyBackend, ToolCallContext } from "../../tools/index.ts";
import type { AgentQueries, AgentQueryKind } from "./agent-queries.ts";

type AskedParts = Pick<ColonyBackend, "traces" | "trace" | "logs" | "logPatterns" | "metric" | "metricNames">;

export interface DirectBackendOptions {
  /** What the colony itself has. */
  own: AskedParts;
  agents: Pick<AgentQueries, "one" | "all">;
  clock: Clock;
}

/** Spans come to the colony within seconds: an older trace that lacks some lacks them for ever. */
const freshMs = 60_000;

export function createDirectBackend({ own, agents, clock }: DirectBackendOptions): AskedParts {
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
      // The colony keeps what was before that for longer.
      if (oldestMs === null || oldestMs > clock.wallMs() - request.sinceMs) return await fromColony(request, context);
      return { ...named(answer, agentId), ownStores: [agentId] };
    } catch (error) {
      context.signal.throwIfAborted();
      const problem = CoralError.from(error);
      // What is wrong with the question is wrong here, too.
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
        // While an agent was waited for, its spans may have come.
        silent.length === 0 ? found : await own.trace(request, context),
        answers.map(({ agentId, answer }) => ({ agentId, ...named(answer, agentId) })),
        request.maxSpans,
      );
      if (silent.length === 0 || !mayBeIncomplete(facts, clock.wallMs())) return facts;
      const who = silent.length === 1 ? `agent "${silent[0]}"` : `${silent.length} agents`;
      return { ...facts, directProblem: `Cannot ask ${who} for what came just now: no answer in time` };
    },
  };
}

/** Rows of an agent's own store do not say whose they are. */
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
