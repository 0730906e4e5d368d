/** Finds audit entries of the colony and all agents, as commands with their outcome or one by one. */

import type { AuditEntry, AuditRecord, AuditRequest } from "../../model/audit.ts";
import type { ColonyStore } from "../colony/colony-store.ts";
import type { Row, SqlParameter } from "../engine/sql-values.ts";
import { audit } from "../signals/audit.ts";

export interface AuditQuery extends Omit<AuditRequest, "sinceMs"> {
  /** Microseconds since 1970. */
  sinceUs: number;
}

/** Entries about the chains themselves, not about user actions. */
const innerKinds = "('anchor', 'pruned', 'chain')";

function everyEntry(database: string): string {
  const columns = ['"time"', "seq", ...Object.keys(audit.columns)].map((name) => `r.${name}`).join(", ");
  return `SELECT s.agent_id, ${columns} FROM "${database}".raw."${audit.name}" r JOIN "${database}".internal.sources s USING (source)
    UNION ALL SELECT NULL, ${columns} FROM "${database}".audit.entries r`;
}

/** Newest first. The colony's entries about a command are omitted if the agent has its own, which have more detail. */
export async function queryAudit(store: ColonyStore, query: AuditQuery): Promise<AuditRecord[]> {
  const { filters, parameters } = filtersOf(query);
  const rows = await store.query(
    `WITH every AS (${everyEntry(store.database.name)}),
     records AS (
       SELECT agent_id, command_id, kind, min("time") AS "time", arg_max(phase, seq) AS phase,
         max(caller) AS caller, max(caller_from) AS caller_from, max(through) AS through, max(question_id) AS question_id,
         max(target) AS target, max(place) AS place, arg_min(command, seq) AS command, coalesce(arg_max(rule, seq) FILTER (rule <> ''), '') AS rule,
         max(run_as) AS run_as, arg_max(reason, seq) AS reason, arg_max(exit_code, seq) AS exit_code, max(stdout_bytes) AS stdout_bytes,
         max(stderr_bytes) AS stderr_bytes, max(duration_ms) AS duration_ms, max(recording) AS recording
       FROM every WHERE "time" >= make_timestamp($since) GROUP BY agent_id, command_id, kind, CASE WHEN command_id = '' THEN seq END)
     SELECT * FROM records r WHERE ${filters.join(" AND ")}
       AND (agent_id IS NOT NULL OR command_id = '' OR NOT EXISTS (
         SELECT 1 FROM records o WHERE o.command_id = r.command_id AND o.kind = r.kind AND o.agent_id IS NOT NULL))
     ORDER BY "time" DESC, command_id LIMIT ${Math.floor(query.limit)}`,
    parameters,
  );
  return rows.map(recordOf);
}

function filtersOf(query: AuditQuery): { filters: string[]; parameters: Record<string, SqlParameter> } {
  const parameters: Record<string, SqlParameter> = { since: Math.floor(query.sinceUs) };
  const filters = [query.kind === undefined ? `kind NOT IN ${innerKinds}` : "kind = $kind"];
  if (query.kind !== undefined) parameters["kind"] = query.kind;
  const part = (name: string, columns: readonly string[], text: string, more = ""): void => {
    parameters[name] = text;
    filters.push(`(${columns.map((column) => `contains(lower(${column}), lower($${name}))`).join(" OR ")}${more})`);
  };
  if (query.caller !== undefined) part("caller", ["caller"], query.caller);
  if (query.command !== undefined) part("command", ["command"], query.command);
  const list = (name: string, ids: readonly string[]): string =>
    ids
      .map((id, index) => {
        parameters[`${name}${index}`] = id;
        return `$${name}${index}`;
      })
      .join(", ");
  if (query.target !== undefined) {
    const named = query.targetAgentIds ?? [];
    part("target", ["target", "place"], query.target, named.length === 0 ? "" : ` OR agent_id IN (${list("named", named)})`);
  }
  if (query.agentIds !== undefined) filters.push(query.agentIds.length === 0 ? "false" : `agent_id IN (${list("agent", query.agentIds)})`);
  if (query.outcome === "denied") filters.push("phase = 'denied'");
  if (query.outcome === "failed") filters.push("(phase = 'denied' OR (phase = 'ended' AND coalesce(exit_code, -1) <> 0))");
  if (query.outcome === "open") filters.push("phase IN ('asked', 'begun', 'held', 'decided')");
  return { filters, parameters };
}

/** Every entry of the commands with this id prefix, at most `limit`: the colony's first, then by agent, each in chain order. */
export async function queryAuditEntries(store: ColonyStore, idPrefix: string, limit: number): Promise<AuditEntry[]> {
  const rows = await store.query(
    `SELECT * FROM (${everyEntry(store.database.name)}) WHERE starts_with(command_id, ?) AND command_id <> ''
     ORDER BY command_id, agent_id NULLS FIRST, seq LIMIT ${Math.floor(limit)}`,
    [idPrefix],
  );
  return rows.map((row) => ({
    ...recordOf(row),
    entry: Number(row["entry"]),
    hash: text(row["hash"]),
    previousHash: text(row["prev_hash"]),
    details: text(row["details"]),
  }));
}

/** Commands that the colony began but did not complete before a crash; they are closed as `lost`. */
export async function openCommands(store: ColonyStore, limit: number): Promise<AuditRecord[]> {
  const entries = `"${store.database.name}".audit.entries`;
  const rows = await store.query(
    `SELECT NULL AS agent_id, * FROM ${entries} WHERE phase IN ('asked', 'begun') AND command_id NOT IN (
       SELECT command_id FROM ${entries} WHERE phase IN ('ended', 'denied')) ORDER BY seq LIMIT ${Math.floor(limit)}`,
  );
  return rows.map(recordOf);
}

function recordOf(row: Row): AuditRecord {
  return {
    id: text(row["command_id"]),
    at: new Date(Number(row["time"]) / 1_000).toISOString(),
    agentId: row["agent_id"] === null ? null : text(row["agent_id"]),
    kind: text(row["kind"]),
    phase: text(row["phase"]),
    caller: text(row["caller"]),
    callerFrom: text(row["caller_from"]),
    through: text(row["through"]),
    questionId: text(row["question_id"]),
    target: text(row["target"]),
    place: text(row["place"]),
    command: text(row["command"]),
    rule: text(row["rule"]),
    runAs: text(row["run_as"]),
    reason: text(row["reason"]),
    exitCode: row["exit_code"] === null || row["exit_code"] === undefined ? null : Number(row["exit_code"]),
    stdoutBytes: Number(row["stdout_bytes"] ?? 0),
    stderrBytes: Number(row["stderr_bytes"] ?? 0),
    durationMs: Number(row["duration_ms"] ?? 0),
    recording: text(row["recording"]),
  };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
