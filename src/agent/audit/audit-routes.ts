/** This host's audit log on the agent's own socket, available without the colony. */

import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import { type AgentStore } from "../../store/agent/index.ts";
import { type Row, type SqlParameter } from "../../store/engine/index.ts";
import { audit } from "../../store/signals/index.ts";
import type { AuditList, AuditRecordFact, AuditVerification } from "../../tools/index.ts";
import type { Route } from "../../transport/index.ts";
import type { AuditLog } from "./audit-log.ts";

export interface AuditRoutesOptions {
  agentId: string;
  hostname: string;
  log: Pick<AuditLog, "verify" | "head" | "settled">;
  store: Pick<AgentStore, "query">;
  clock: Clock;
}

/** Records of one response. */
const maxRecords = 1_000;
const dayMs = 86_400_000;

/** Lists and verifies; no route changes the audit. */
export function auditRoutes(options: AuditRoutesOptions): Route[] {
  return [
    {
      kind: "json",
      method: "GET",
      path: "/v1/audit",
      permission: "admin",
      handle: async ({ query }) => ({ kind: "json", value: await listRecords(options, query) }),
    },
    {
      kind: "json",
      method: "POST",
      path: "/v1/audit/verify",
      permission: "admin",
      handle: async () => ({ kind: "json", value: await verify(options) }),
    },
  ];
}

async function verify({ agentId, hostname, log }: AuditRoutesOptions): Promise<AuditVerification> {
  const { entries, firstEntry, head, problems, moreProblems } = await log.verify();
  const about = { agentId, hostname, chainId: log.head.chainId, where: "agent" as const };
  const chain = { ...about, entries, firstEntry, lastEntry: head.entry, head: head.hash, problems: [...problems], moreProblems };
  const note = "only this host's own file was checked; coral audit verify at the colony also detects a chain that was rewritten as a whole";
  return { isWhole: problems.length === 0, chains: [chain], notes: [note] };
}

/** Takes the filters of `coral_list_audit`: since (milliseconds back), user, command, target, kind, outcome, limit. */
async function listRecords(options: AuditRoutesOptions, query: URLSearchParams): Promise<AuditList> {
  const { agentId, hostname, store, clock } = options;
  await options.log.settled();
  const sinceMs = numberIn(query, "sinceMs", dayMs, 400 * dayMs);
  const limit = numberIn(query, "limit", 100, maxRecords);
  const parameters: Record<string, SqlParameter> = { since: Math.floor((clock.wallMs() - sinceMs) * 1_000) };
  const filters = [query.has("kind") ? "kind = $kind" : "kind NOT IN ('anchor', 'pruned', 'chain')"];
  if (query.has("kind")) parameters["kind"] = query.get("kind") ?? "";
  for (const [name, column] of [
    ["user", "caller"],
    ["command", "command"],
    ["target", "target || ' ' || place"],
  ] as const) {
    if (!query.has(name)) continue;
    parameters[name] = query.get(name) ?? "";
    filters.push(`contains(lower(${column}), lower($${name}))`);
  }
  filters.push(...outcomeFilters(query.get("outcome")));
  const rows = await store.query(
    `SELECT * FROM (
       SELECT command_id, kind, min("time") AS "time", arg_max(phase, seq) AS phase, max(caller) AS caller, max(caller_from) AS caller_from,
         max(through) AS through, max(question_id) AS question_id, max(target) AS target, max(place) AS place, arg_min(command, seq) AS command,
         coalesce(arg_max(rule, seq) FILTER (rule <> ''), '') AS rule, max(run_as) AS run_as, arg_max(reason, seq) AS reason,
         arg_max(exit_code, seq) AS exit_code, max(stdout_bytes) AS stdout_bytes, max(stderr_bytes) AS stderr_bytes,
         max(duration_ms) AS duration_ms, max(recording) AS recording
       FROM "${audit.name}" WHERE "time" >= make_timestamp($since) GROUP BY command_id, kind, CASE WHEN command_id = '' THEN seq END)
     WHERE ${filters.join(" AND ")} ORDER BY "time" DESC LIMIT ${limit}`,
    parameters,
  );
  return { records: rows.map((row) => recordOf(row, agentId, hostname)) };
}

function outcomeFilters(outcome: string | null): string[] {
  if (outcome === null) return [];
  if (outcome === "denied") return ["phase = 'denied'"];
  if (outcome === "failed") return ["(phase = 'denied' OR (phase = 'ended' AND coalesce(exit_code, -1) <> 0))"];
  if (outcome === "open") return ["phase IN ('begun', 'held', 'decided')"];
  throw new CoralError({ code: "invalid", message: `Cannot list the audit: unknown outcome "${outcome}"; use denied, failed or open` });
}

function numberIn(query: URLSearchParams, name: string, fallback: number, max: number): number {
  const text = query.get(name);
  if (text === null) return fallback;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= max) return value;
  throw new CoralError({ code: "invalid", message: `Cannot list the audit: ${name} "${text}" is not a whole number from 1 to ${max}` });
}

/** A row in the form in which the colony's audit endpoint returns it. */
function recordOf(row: Row, agentId: string, hostname: string): AuditRecordFact {
  const text = (name: string): string => String(row[name] ?? "");
  const count = (name: string): number => Number(row[name] ?? 0);
  return {
    id: text("command_id"),
    at: new Date(Number(row["time"]) / 1_000).toISOString(),
    agentId,
    hostname,
    kind: text("kind"),
    phase: text("phase"),
    caller: text("caller"),
    callerFrom: text("caller_from"),
    through: text("through"),
    questionId: text("question_id"),
    target: text("target"),
    place: text("place"),
    command: text("command"),
    rule: text("rule"),
    runAs: text("run_as"),
    reason: text("reason"),
    exitCode: row["exit_code"] === null ? null : count("exit_code"),
    stdoutBytes: count("stdout_bytes"),
    stderrBytes: count("stderr_bytes"),
    durationMs: count("duration_ms"),
    recording: text("recording"),
  };
}
