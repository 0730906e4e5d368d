/** The audit signal: who did what, where, and the outcome, as entries of a hash chain. */

import type { Row, SqlValue } from "../engine/sql-values.ts";
import { defineSignal, type RowOf } from "./define-signal.ts";
import { type ChainLink, type ChainRow, chainHash } from "./hash-chain.ts";

const dayMs = 86_400_000;

/**
 * One row per entry. A command has an entry when it is allowed or denied, and one when it ends. The agent's table, its copy at the colony
 * and the colony's own chain have the same columns.
 */
export const audit = defineSignal({
  name: "audit",
  description: "Commands, captures and decisions: who, from where, what, and how it ended; each row holds the hash of the one before",
  columns: {
    /** Counts from 1 within a chain. Equals `seq` unless the row was moved from outside. */
    entry: "int",
    prev_hash: "text",
    hash: "text",
    /** `exec`, `shell`, `run`, `capture`, `database`, `sql`, `approval`, `token`, `agent`; of the chain itself: `chain`, `pruned`, `anchor`. */
    kind: "text",
    /** `asked`, `held`, `decided`, `denied`, `begun`, `ended`, `noted`. */
    phase: "text",
    /** Shared by all entries of a command, at agents and colony. */
    command_id: "text",
    /** `token:abc`, `local:uid=1000`; empty for Coral's own actions. */
    caller: "text",
    caller_from: "text",
    /** `cli`, `mcp`, `http`, `llm`; empty for Coral's own actions. */
    through: "text",
    question_id: "text",
    target: "text",
    /** Where it ran. */
    place: "text",
    /** Redacted, at most 4,096 characters. */
    command: "text",
    rule: "text",
    run_as: "text",
    reason: "text",
    exit_code: "int?",
    stdout_bytes: "int",
    stderr_bytes: "int",
    duration_ms: "int",
    recording: "text",
    /** JSON object. */
    details: "text",
  },
  retention: {
    agent: { maxAgeMs: 90 * dayMs, weight: 4 },
    colony: { maxAgeMs: 400 * dayMs, weight: 4 },
  },
  isChained: true,
  isPrivate: true,
});

export type AuditRow = RowOf<typeof audit.columns>;

/** The content of an entry: a row without its position in a chain. Set every field, or start from `blankAuditEntry`. */
export type AuditEntry = Omit<AuditRow, "entry" | "prev_hash" | "hash">;

/** An entry with only a time. */
export function blankAuditEntry(at: number, monoMs: number): AuditEntry {
  const empty = { command_id: "", caller: "", caller_from: "", through: "", question_id: "", target: "", place: "", command: "" };
  const result = { rule: "", run_as: "", reason: "", exit_code: null, stdout_bytes: 0, stderr_bytes: 0, duration_ms: 0 };
  return { at, mono_ms: monoMs, kind: "", phase: "", ...empty, ...result, recording: "", details: "{}" };
}

/** Links the entry as the next one of a chain. */
export function linkAuditEntry(previous: ChainLink, entry: AuditEntry): AuditRow {
  const row = { ...entry, entry: previous.entry + 1 };
  return { ...row, prev_hash: previous.hash, hash: chainHash(previous.hash, row) };
}

/** Converts a stored row (`SELECT seq, …`) for the verification of its chain. */
export function auditChainRow(row: Row): ChainRow {
  const fields: Record<string, string | number | boolean | null> = {};
  for (const name of ["mono_ms", ...Object.keys(audit.columns)]) {
    if (name !== "prev_hash" && name !== "hash") fields[name] = plain(row[name]);
  }
  fields["at"] = plain(row["time"]);
  return {
    position: Number(row["seq"]),
    entry: Number(row["entry"]),
    previousHash: String(row["prev_hash"]),
    hash: String(row["hash"]),
    fields,
  };
}

function plain(value: SqlValue | undefined): string | number | boolean | null {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? value : null;
}

/** Columns of a stored row that chain verification reads. */
export const auditChainColumns: string = ["seq", '"time"', "mono_ms", ...Object.keys(audit.columns).map((name) => `"${name}"`)].join(", ");
