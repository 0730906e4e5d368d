import * as z from "zod";
import { parseExactJson } from "../../base/exact-json.ts";
import { given } from "../../base/given.ts";
import type { LogFact, LogsRequest } from "../../model/logs.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { limitInput, serviceInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { chooseAgents } from "../contract/match-agents.ts";
import { missingNotes } from "../contract/missing-data.ts";
import { type CompletenessNote, completenessOf } from "../schemas/completeness.ts";
import { type LogRecord, type LogResult, logLevels, logResultSchema } from "../schemas/logs.ts";
import { ownStoreNotes, ownStoresOf } from "../schemas/own-stores.ts";
import { findSender } from "../services/find-service.ts";

/** Limit of all bodies and attributes in one answer, in characters. */
const maxAnswerLength = 200_000;
const dayMs = 86_400_000;

export const queryLogs = defineTool({
  name: "coral_query_logs",
  title: "Logs",
  description:
    "Search log records, newest first, by service, minimum severity, text, pattern or trace. by=pattern groups them by template: start there, then pass a pattern.",
  input: z.object({
    service: serviceInput(),
    level: z.enum(logLevels).optional().describe("minimum severity"),
    grep: z.string().min(1).max(1_000).optional().describe("text in body or attributes, ignoring case; or /regex/"),
    pattern: z.string().min(1).max(1_000).optional().describe("only this pattern: its id, or text of its template"),
    traceId: z
      .string()
      .regex(/^[0-9a-fA-F]{32}$/, "write 32 hex digits")
      .optional()
      .describe("only this trace: 32 hex digits"),
    by: z.enum(["record", "pattern"]).default("record").describe("one row per record or pattern"),
    agent: z.string().min(1).optional().describe("one agent, from its own store"),
    since: sinceInput("15m", { maxMs: 90 * 86_400_000 }),
    limit: limitInput(50, 1_000),
    page: z.string().max(40).optional().describe('cursor for older records: "next" of the previous answer'),
  }),
  output: logResultSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const { agents, chosen, which } = await chooseAgents(backend, input.agent, context);
    const request: LogsRequest = {
      sinceMs: input.since,
      limit: input.limit,
      ...(input.level === undefined ? {} : { minSeverity: logLevels.indexOf(input.level) * 4 + 1 }),
      ...given({
        service: input.service,
        grep: input.grep,
        pattern: input.pattern,
        traceId: input.traceId?.toLowerCase(),
        page: input.page,
      }),
      ...which,
    };
    const notes = await missingNotes(backend, { agents: chosen ?? agents, which, signals: ["log"], sinceMs: input.since }, context);
    if (agents.length === 0) notes.push({ kind: "no-data", message: "no agent has joined this colony; start one with coral agent start" });
    const answer = input.by === "pattern" ? await byPattern(backend, request, context) : await byRecord(backend, request, context);
    return { output: answer.output, completeness: completenessOf([...notes, ...answer.notes]) };
  },
});

interface Part {
  output: LogResult;
  notes: CompletenessNote[];
}

async function byRecord(backend: ColonyBackend, request: LogsRequest, context: ToolCallContext): Promise<Part> {
  const facts = await withNearName(backend, request, context, (named) => backend.logs(named, context));
  const records: LogRecord[] = [];
  let length = 0;
  for (const fact of facts.rows) {
    length += fact.body.length + (fact.attributes?.length ?? 0);
    records.push(recordOf(fact, length <= maxAnswerLength));
  }
  const notes: CompletenessNote[] = ownStoreNotes(facts);
  if (length > maxAnswerLength) {
    notes.push({ kind: "limit", message: "the answer is too long: its last records are shown without body and attributes; lower limit" });
  }
  if (facts.next !== null) {
    const message = `the newest ${records.length} records are shown; for older ones pass page ${facts.next}, or narrow with service, level, grep or since`;
    notes.push({ kind: "limit", message });
  }
  return { output: { sinceMs: request.sinceMs, by: "record", records, patterns: [], next: facts.next, ...ownStoresOf(facts) }, notes };
}

async function byPattern(backend: ColonyBackend, request: LogsRequest, context: ToolCallContext): Promise<Part> {
  const facts = await withNearName(backend, request, context, (named) => backend.logPatterns(named, context));
  const { rows, total, records } = facts;
  const perMinute = (count: number): number => (count * 60_000) / request.sinceMs;
  const patterns = rows.map((row) => ({ ...row, perMinute: perMinute(row.records) }));
  const notes: CompletenessNote[] = ownStoreNotes(facts);
  if (total > rows.length) {
    const message = `${rows.length} of ${total} patterns of ${records} records are shown; narrow with service, level or grep, or raise limit`;
    notes.push({ kind: "limit", message });
  }
  return { output: { sinceMs: request.sinceMs, by: "pattern", records: [], patterns, next: null, ...ownStoresOf(facts) }, notes };
}

/** Resolves a name without records among the services with records, then among all known services. */
async function withNearName<T extends { services: string[]; rows: unknown[] }>(
  backend: ColonyBackend,
  request: LogsRequest,
  context: ToolCallContext,
  ask: (request: LogsRequest) => Promise<T>,
): Promise<T> {
  const facts = await ask(request);
  const { service } = request;
  if (service === undefined || facts.rows.length > 0 || facts.services.includes(service)) return facts;
  const wanted = service.toLowerCase();
  const near = facts.services.filter((name) => name.toLowerCase() === wanted);
  const [only, ...others] = near.length > 0 ? near : facts.services.filter((name) => name.toLowerCase().includes(wanted));
  if (only !== undefined && others.length === 0) return await ask({ ...request, service: only });
  // A known service may just be idle in this window.
  const day = await ask({ ...request, sinceMs: Math.max(request.sinceMs, dayMs), limit: 1 });
  if (day.rows.length > 0 || day.services.includes(service)) return facts;
  const known = await findSender(backend, service, context);
  return known === service ? facts : await ask({ ...request, service: known });
}

function recordOf(fact: LogFact, isShown: boolean): LogRecord {
  const { bodyLength, attributes, body, ...rest } = fact;
  return {
    ...rest,
    body: isShown ? body : "",
    isCut: !isShown || body.length < bodyLength,
    attributes: isShown ? objectIn(attributes) : null,
  };
}

function objectIn(json: string | null): Record<string, unknown> | null {
  if (json === null) return null;
  try {
    const value = parseExactJson(json);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : { value };
  } catch {
    // Attributes that are not valid JSON are shown as text.
    return { text: json };
  }
}
