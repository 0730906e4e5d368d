/** The audit trail: what was run, by whom, and how it ended. */

export interface AuditRequest {
  /** From now back, milliseconds. */
  sinceMs: number;
  limit: number;
  /** Part of the caller. */
  caller?: string;
  /** Part of the command. */
  command?: string;
  /** Part of the target or the place. */
  target?: string;
  /** Agents that `target` may also mean. */
  targetAgentIds?: readonly string[];
  /** Only these agents; excludes the colony's own entries. */
  agentIds?: readonly string[];
  kind?: string;
  /** `denied`; `failed`: denied, or exited other than 0; `open`: without an end. */
  outcome?: "denied" | "failed" | "open";
}

/** All entries that one agent, or the colony, wrote about one command; an approval decision is a record of its own. */
export interface AuditRecord {
  /** Shared by the entries of colony and agents; empty for entries about the audit itself. */
  id: string;
  /** ISO 8601. */
  at: string;
  /** Null: written by the colony. */
  agentId: string | null;
  kind: string;
  /** Of the newest entry. */
  phase: string;
  caller: string;
  callerFrom: string;
  through: string;
  questionId: string;
  target: string;
  place: string;
  command: string;
  rule: string;
  runAs: string;
  reason: string;
  exitCode: number | null;
  stdoutBytes: number;
  stderrBytes: number;
  durationMs: number;
  recording: string;
}

/** One entry with its position in its hash chain. */
export interface AuditEntry extends AuditRecord {
  entry: number;
  hash: string;
  previousHash: string;
  /** JSON object. */
  details: string;
}
