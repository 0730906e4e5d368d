/** The audit trail: which commands ran, who ran them, and how they ended. */

export interface AuditRequest {
  /** Length of the window back from now, milliseconds. */
  sinceMs: number;
  limit: number;
  /** Substring of the caller. */
  caller?: string;
  /** Substring of the command. */
  command?: string;
  /** Substring of the target or the place. */
  target?: string;
  /** Agents that `target` may also refer to. */
  targetAgentIds?: readonly string[];
  /** Only these agents; excludes the colony's own entries. */
  agentIds?: readonly string[];
  kind?: string;
  /** `denied`; `failed`: denied or non-zero exit; `open`: not ended. */
  outcome?: "denied" | "failed" | "open";
}

/** All entries that one agent, or the colony, wrote about one command. An approval decision is a separate record. */
export interface AuditRecord {
  /** Shared by the entries of colony and agents; empty for entries about the audit itself. */
  id: string;
  /** ISO 8601. */
  at: string;
  /** Null: written by the colony. */
  agentId: string | null;
  kind: string;
  /** Phase of the newest entry. */
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
