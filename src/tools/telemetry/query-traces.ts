import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import type { SpanFact, TracesFacts, TracesRequest } from "../../model/traces.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { sinceInput } from "../contract/common-inputs.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { durationInput } from "../contract/duration-input.ts";
import { activeAgents, matchAgents } from "../contract/match-agents.ts";
import { lossNotes, missingNotes, silentAgentNotes } from "../contract/missing-data.ts";
import { type CompletenessNote, completenessOf } from "../schemas/completeness.ts";
import { ownStoreNotes, ownStoresOf } from "../schemas/own-stores.ts";
import { type TraceSpan, tracesResultSchema, type WholeTrace } from "../schemas/trace.ts";
import { parseAttributeFilter } from "./attribute-filter.ts";
import { buildTraceTree, type TraceTree } from "./trace-tree.ts";

const dayMs = 86_400_000;
/** Maximum length of each string in a span's details. */
const detailMaxLength = 4_096;
const namesShown = 10;
const tracesShown = 20;
const maxTraces = 1_000;
const spansShown = 500;

export const queryTraces = defineTool({
  name: "coral_query_traces",
  title: "Traces",
  description: "Find distributed traces (OTLP), or with traceId show one whole trace as a tree of spans with self time and critical path.",
  input: z.object({
    traceId: z.string().optional().describe("one whole trace: 32 hex digits, or a traceparent header"),
    service: z.string().min(1).optional().describe("of a span; one span must match all filters"),
    route: z.string().min(1).optional().describe("part of a span's route, name, path or statement"),
    minDuration: durationInput({ minMs: 0, maxMs: dayMs }).optional().describe("minimum duration of a span: 250ms, 2s"),
    error: z.boolean().default(false).describe("only traces with a failed span"),
    where: z
      .array(z.string().min(1).max(2_000))
      .max(10)
      .optional()
      .describe("attributes of that span or its resource: http.status_code>=500, user.id=42, url.full~/cart; = != > >= < <= ~ !~"),
    since: sinceInput("1h", { maxMs: 90 * dayMs }),
    agent: z.string().min(1).optional().describe("one agent, from its own store"),
    order: z.enum(["newest", "slowest"]).default("newest").describe("sort order"),
    limit: z.int().min(1).max(20_000).optional().describe("traces (default 20), or spans of one trace (default 500, longest first)"),
    details: z.boolean().default(false).describe("include attributes, events and links of one trace"),
  }),
  output: tracesResultSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const agents = activeAgents(await backend.agents(context));
    if (input.traceId !== undefined) {
      const losses = await backend.losses({ signals: ["span"] }, context);
      const notes = [...silentAgentNotes(agents), ...lossNotes(losses)];
      const wanted = { traceId: traceIdIn(input.traceId), maxSpans: input.limit ?? spansShown, details: input.details };
      const { trace, treeNotes, own } = await readTrace(backend, wanted, context);
      const output = { sinceMs: input.since, total: 1, storedSpans: trace.total, estimatedSpans: trace.total, traces: [], trace, ...own };
      return { output, completeness: completenessOf([...notes, ...treeNotes]) };
    }
    const request: TracesRequest = {
      error: input.error,
      sinceMs: input.since,
      order: input.order,
      limit: Math.min(maxTraces, input.limit ?? tracesShown),
      ...(input.service !== undefined && { service: input.service }),
      ...(input.route !== undefined && { route: input.route }),
      ...(input.where !== undefined && { where: input.where.map(parseAttributeFilter) }),
      ...(input.minDuration !== undefined && { minDurationNs: input.minDuration * 1_000_000 }),
      ...(input.agent !== undefined && { agentIds: matchAgents(agents, input.agent).map(({ agentId }) => agentId) }),
    };
    const facts = await readTraces(backend, request, context);
    const { rows, traces, storedSpans, estimatedSpans } = facts;
    const missing = await missingNotes(backend, { agents, signals: ["span"], sinceMs: input.since }, context);
    const notes = [...missing, ...searchNotes(facts, agents.length === 0), ...ownStoreNotes(facts)];
    return {
      output: { sinceMs: input.since, total: traces, storedSpans, estimatedSpans, traces: rows, trace: null, ...ownStoresOf(facts) },
      completeness: completenessOf(notes),
    };
  },
});

/** Resolves a name without spans: another case, or part of exactly one name. */
async function readTraces(backend: ColonyBackend, request: TracesRequest, context: ToolCallContext): Promise<TracesFacts> {
  const facts = await backend.traces(request, context);
  if (facts.storedSpans > 0 || request.service === undefined) return facts;
  const names = await backend.spanServices({ sinceMs: request.sinceMs }, context);
  if (names.length === 0 || names.includes(request.service)) return facts;
  const wanted = request.service.toLowerCase();
  const same = names.filter((name) => name.toLowerCase() === wanted);
  const near = same.length > 0 ? same : names.filter((name) => name.toLowerCase().includes(wanted));
  const [only] = near;
  if (only !== undefined && near.length === 1) return await backend.traces({ ...request, service: only }, context);
  const all = near.length > 0 ? near : names;
  const listed = `${all.slice(0, namesShown).join(", ")}${all.length > namesShown ? ` and ${all.length - namesShown} more` : ""}`;
  throw new CoralError({
    code: "not-found",
    message: `Cannot find traces of service "${request.service}": ${near.length > 0 ? "several names match:" : "services with spans:"} ${listed}`,
    details: { service: request.service },
  });
}

function searchNotes({ rows, traces, storedSpans, estimatedSpans }: TracesFacts, isWithoutAgents: boolean): CompletenessNote[] {
  const notes: CompletenessNote[] = [];
  if (isWithoutAgents) notes.push({ kind: "no-data", message: "no agent has joined this colony; start one with coral agent start" });
  else if (rows.length === 0)
    notes.push({
      kind: "no-data",
      message: "no matching span in this window; widen since, or send OTLP spans (coral agent status shows the address)",
    });
  if (traces > rows.length)
    notes.push({ kind: "limit", message: `${rows.length} of about ${traces} traces are shown; narrow the search or raise limit` });
  if (estimatedSpans > storedSpans * 1.001) {
    const share = Math.round((storedSpans / estimatedSpans) * 1_000) / 10;
    notes.push({
      kind: "sampled",
      signal: "span",
      message: `agents kept ${share}% of these spans to stay within their budget: ${storedSpans} represent about ${Math.round(estimatedSpans)}; errors and slow traces are all kept`,
    });
  }
  const rootless = rows.filter(({ hasRoot }) => !hasRoot).length;
  if (rootless > 0)
    notes.push({
      kind: "rows-lost",
      signal: "span",
      message: `the root span of ${rootless} ${rootless === 1 ? "trace" : "traces"} has not arrived; the earliest span is shown instead`,
    });
  return notes;
}

/** Reads a trace id, bare or in a traceparent header `00-<trace id>-<span id>-01`. */
function traceIdIn(text: string): string {
  const found = /^(?:[0-9a-f]{2}-)?([0-9a-f]{32})(?:-[0-9a-f]{16}-[0-9a-f]{2})?$/.exec(text.trim().toLowerCase())?.[1];
  if (found !== undefined && !/^0+$/.test(found)) return found;
  throw new CoralError({ code: "invalid", message: `Cannot find trace "${text.slice(0, 80)}": not a trace id; use 32 hex digits` });
}

async function readTrace(
  backend: ColonyBackend,
  wanted: { traceId: string; maxSpans: number; details: boolean },
  context: ToolCallContext,
): Promise<{ trace: WholeTrace; treeNotes: CompletenessNote[]; own: { ownStores?: string[] } }> {
  const { traceId } = wanted;
  const facts = await backend.trace(wanted, context);
  const { spans, total } = facts;
  if (spans.length === 0) {
    const message = `Cannot find trace "${traceId}": none of its spans are stored; it may be too new (agents are polled every few seconds), too old, sampled out, or from a service that does not send to an agent${facts.directProblem === undefined ? "" : `. ${facts.directProblem}; try again`}`;
    throw new CoralError({ code: "not-found", message, details: { traceId } });
  }
  const tree = buildTraceTree(spans);
  const trace: WholeTrace = {
    traceId,
    startedAt: new Date(Math.floor(tree.startUs / 1_000)).toISOString(),
    durationNs: tree.durationNs,
    total,
    errors: spans.filter(({ status }) => status === "error").length,
    services: [...new Set(spans.map(({ service }) => service))].sort(),
    spans: tree.nodes.map(spanOf),
  };
  return { trace, treeNotes: [...treeNotes(tree, spans, total), ...ownStoreNotes(facts)], own: ownStoresOf(facts) };
}

function spanOf({
  span,
  depth,
  descendants,
  startNs,
  selfNs,
  criticalNs,
  isOrphan,
  clockShiftNs,
}: TraceTree<SpanFact>["nodes"][number]): TraceSpan {
  const { startUs: _start, weight: _weight, attributes, events, links, resource, ...facts } = span;
  const details = { attributes: cut(attributes), events: cut(events), links: cut(links), resource: cut(resource) };
  return { ...facts, ...details, depth, descendants, startNs, selfNs, criticalNs, isOrphan, clockShiftNs };
}

function cut(text: string | null): string | null {
  return text !== null && text.length > detailMaxLength ? `${text.slice(0, detailMaxLength)}…` : text;
}

function treeNotes({ missingParents, shiftedSpans, nodes }: TraceTree, spans: readonly SpanFact[], total: number): CompletenessNote[] {
  const notes: CompletenessNote[] = [];
  const isCut = total > spans.length;
  if (isCut)
    notes.push({
      kind: "limit",
      message: `${spans.length} of ${total} spans are shown, the longest; the time of the others counts as their parents' self time`,
    });
  if (missingParents > 0 && !isCut) {
    const what = missingParents === 1 ? "1 span is" : `${missingParents} spans are`;
    notes.push({
      kind: "rows-lost",
      signal: "span",
      rows: missingParents,
      message: `${what} missing: other spans name them as parent, but they have not arrived`,
    });
  }
  if (!isCut && !nodes.some(({ depth, isOrphan }) => depth === 0 && !isOrphan))
    notes.push({ kind: "rows-lost", signal: "span", message: "the root span is missing: the trace may be longer than shown" });
  if (shiftedSpans > 0) {
    const what = shiftedSpans === 1 ? "1 span is outside its parent" : `${shiftedSpans} spans are outside their parents`;
    notes.push({ kind: "clock", message: `${what}: host clocks differ; shown in the middle of the parent` });
  }
  return notes;
}
