import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import { given } from "../../base/given.ts";
import type { MetricLossFact } from "../../model/metrics.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { agentInput, limitInput, pointsInput, serviceInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { durationInput } from "../contract/duration-input.ts";
import { chooseAgents } from "../contract/match-agents.ts";
import { missingNotes } from "../contract/missing-data.ts";
import { type CompletenessNote, completenessOf } from "../schemas/completeness.ts";
import { type MetricResult, metricResultSchema } from "../schemas/metrics.ts";
import { ownStoreNotes, ownStoresOf } from "../schemas/own-stores.ts";

const dayMs = 86_400_000;
const namesShown = 10;

export const queryMetrics = defineTool({
  name: "coral_query_metrics",
  title: "Application metrics",
  description: "List application metrics (OTLP or Prometheus), or with name show one by service or attribute; or evaluate PromQL.",
  input: z.object({
    name: z.string().min(1).max(500).optional().describe("exact name, or part of one to list the metrics that match"),
    promql: z.string().min(1).max(4_096).optional().describe("instead of name"),
    service: serviceInput(),
    by: z.string().min(1).max(200).optional().describe("group by an attribute, or by service, instance or agent"),
    agent: agentInput(),
    since: sinceInput("1h"),
    step: durationInput({ minMs: 1_000, maxMs: 31 * dayMs })
      .optional()
      .describe("time between points"),
    points: pointsInput(20, 500),
    limit: limitInput(50, 1_000),
  }),
  output: metricResultSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const { name, promql, step } = input;
    if (name !== undefined && promql !== undefined) throw invalid("Cannot use name and promql together: pass one of them");
    if (promql !== undefined && (input.service ?? input.by) !== undefined)
      throw invalid('Cannot use service or by with promql: put them into the expression, such as sum by (route) (x{service="api"})');
    const steps = step === undefined ? input.points : Math.ceil(input.since / step);
    if (steps > maxSteps)
      throw invalid(`Cannot return ${steps} points: use a step of at least ${Math.ceil(input.since / maxSteps / 1_000)}s`);
    const { agents, chosen, which } = await chooseAgents(backend, input.agent, context);
    const query: MetricQuery = {
      sinceMs: input.since,
      limit: input.limit,
      points: input.points,
      ...(step === undefined ? {} : { stepMs: step }),
      ...which,
      ...given({ service: input.service, by: input.by }),
    };
    const part =
      promql === undefined
        ? name === undefined
          ? await listNames(backend, query, undefined, context)
          : await oneMetric(backend, query, name, context)
        : await expression(backend, query, promql, context);
    const [missing, losses] = await Promise.all([
      missingNotes(backend, { agents: chosen ?? agents, which, signals: ["metric_point"], sinceMs: input.since }, context),
      backend.metricLosses({ sinceMs: input.since, ...which }, context),
    ]);
    const notes = [...part.notes, ...missing, ...notKeptNotes(losses, input.service)];
    return { output: part.output, completeness: completenessOf(notes) };
  },
});

/** Limit over all series of one answer. */
const maxSteps = 1_000;

interface MetricQuery {
  sinceMs: number;
  limit: number;
  points: number;
  stepMs?: number;
  agentIds?: string[];
  service?: string;
  by?: string;
}

interface Part {
  output: MetricResult;
  notes: CompletenessNote[];
}

async function listNames(
  backend: ColonyBackend,
  query: MetricQuery,
  contains: string | undefined,
  context: ToolCallContext,
): Promise<Part> {
  const { sinceMs, limit, agentIds, service } = query;
  const facts = await backend.metricNames(
    {
      sinceMs,
      limit,
      ...(agentIds && { agentIds }),
      ...given({ service, contains }),
    },
    context,
  );
  const notes = [...limitNotes(facts.rows.length, facts.total, "metrics"), ...ownStoreNotes(facts)];
  if (facts.total === 0) notes.push({ kind: "no-data", message: noDataMessage(query) });
  return { output: { ...emptyResult(query), total: facts.total, metrics: facts.rows, ...ownStoresOf(facts) }, notes };
}

async function oneMetric(backend: ColonyBackend, query: MetricQuery, name: string, context: ToolCallContext): Promise<Part> {
  const { sinceMs, limit, points, ...rest } = query;
  const facts = await backend.metric({ ...rest, name, sinceMs, limit, maxPoints: points === 0 ? 0 : Math.max(2, points) }, context);
  if (facts.total === 0) return await insteadOf(backend, query, name, context);
  const notes = [...limitNotes(facts.rows.length, facts.total, "rows"), ...ownStoreNotes(facts)];
  if (facts.unmergedSeries > 0)
    notes.push({ kind: "unavailable", message: `${facts.unmergedSeries} series have incompatible buckets and are excluded` });
  return {
    notes,
    output: {
      ...emptyResult(query),
      startAt: new Date(facts.startMs).toISOString(),
      stepMs: facts.stepMs,
      total: facts.total,
      ...ownStoresOf(facts),
      rows: facts.rows.map((row) => ({ ...row, points: row.points.map(short), ratePoints: row.ratePoints.map(short) })),
    },
  };
}

/** Resolves a partial name when exactly one metric matches. */
async function insteadOf(backend: ColonyBackend, query: MetricQuery, name: string, context: ToolCallContext): Promise<Part> {
  const listed = await listNames(backend, { ...query, limit: Math.max(query.limit, 2) }, name, context);
  const names = new Set(listed.output.metrics.map((metric) => metric.name));
  const [only] = names;
  if (names.size === 1 && only !== undefined && only !== name) return await oneMetric(backend, query, only, context);
  const message = names.has(name)
    ? `too few points of metric "${name}" in this window: a rate needs two`
    : `no points of metric "${name}" in this window`;
  const none: CompletenessNote = { kind: "no-data", message };
  if (names.size === 0 || names.has(name)) return { output: emptyResult(query), notes: [none] };
  const some = [...names].slice(0, namesShown).join(", ");
  return {
    ...listed,
    notes: [...listed.notes, { kind: "no-data", message: `no metric is named "${name}"; names that contain it: ${some}` }],
  };
}

async function expression(backend: ColonyBackend, query: MetricQuery, promql: string, context: ToolCallContext): Promise<Part> {
  const { sinceMs, limit, points, agentIds } = query;
  const stepMs = query.stepMs ?? Math.max(1_000, Math.ceil(sinceMs / Math.max(1, points - 1) / 1_000) * 1_000);
  const facts = await backend.promql({ expression: promql, sinceMs, stepMs, limit, ...(agentIds && { agentIds }) }, context);
  const notes = limitNotes(facts.rows.length, facts.total, "series");
  if (facts.total === 0) notes.push({ kind: "no-data", message: "no series matches the expression in this window" });
  return {
    notes,
    output: {
      ...emptyResult(query),
      startAt: new Date(facts.startMs).toISOString(),
      stepMs: facts.stepMs,
      total: facts.total,
      series: facts.rows.map(({ labels, points: values }) => ({ labels, points: values.map(short) })),
    },
  };
}

function emptyResult({ sinceMs }: MetricQuery): MetricResult {
  return { sinceMs, startAt: null, stepMs: 0, total: 0, metrics: [], rows: [], series: [] };
}

/** Rounds to six digits. Large numbers keep three decimals, because the last digits of times and byte counts matter. */
function short(value: number | null): number | null {
  if (value === null) return null;
  return Math.abs(value) < 1_000 ? Number(value.toPrecision(6)) : Math.round(value * 1_000) / 1_000;
}

function limitNotes(shown: number, total: number, what: string): CompletenessNote[] {
  return total > shown
    ? [{ kind: "limit", message: `${shown} of ${total} ${what} are shown; narrow with service or name, or raise limit` }]
    : [];
}

function noDataMessage({ service }: MetricQuery): string {
  return `${service === undefined ? "no program sent" : `"${service}" sent no`} metrics in this window; send them to the agent's OTLP port (see coral agent status), or list scrape targets in agent.yaml`;
}

const lossTexts: Record<string, string> = {
  "series-full": "too many series; use fewer attributes",
  future: "timestamps more than an hour ahead",
  unusable: "a value that cannot be stored",
  "scrape-failed": "the target did not respond",
  "scrape-full": "the target exposes too many series",
};

function notKeptNotes(losses: readonly MetricLossFact[], service: string | undefined): CompletenessNote[] {
  return losses
    .filter((loss) => loss.count > 0 && (service === undefined || loss.service === service || loss.service === ""))
    .map(({ service: name, loss, count }) => {
      const what = loss === "scrape-failed" ? `${count} scrapes` : `${count} points`;
      const whose = name === "" ? "of several services" : `of ${name}`;
      return {
        kind: "rows-lost",
        signal: "metric_loss",
        rows: count,
        message: `${what} ${whose} were dropped: ${lossTexts[loss] ?? loss}`,
      };
    });
}

function invalid(message: string): CoralError {
  return new CoralError({ code: "invalid", message });
}
