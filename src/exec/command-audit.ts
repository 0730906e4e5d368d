/** Audit records of a command. The agent keeps them in a hash chain; this room only emits them. */

/** The caller, as identified by the colony or the control socket. */
export interface CommandCaller {
  /** `token:abc`, `local:uid=1000`. */
  name: string;
  /** Address or socket of the connection. */
  from: string;
  through: "cli" | "mcp" | "http" | "llm";
  /** Id of the user's question that a model was answering; empty otherwise. */
  questionId: string;
}

/** `held` waits for an approval, whose id is the command's; `decided` carries the decision. Every command has `denied`, or `begun` and later `ended`. */
export type AuditPhase = "denied" | "held" | "decided" | "begun" | "ended";

/** One phase of a command. Entries of a command share its id. */
export interface CommandAuditEntry {
  phase: AuditPhase;
  /** UUID, the same in all entries of a command, at the agent and at the colony. */
  commandId: string;
  kind: "exec" | "shell" | "run";
  caller: CommandCaller;
  /** As requested: `host`, `service api`, `container web`. */
  target: string;
  /** Where it runs: `host`, `container 3f2a… (web), pid 42`; empty before that is known. */
  where: string;
  /** Redacted, bounded. */
  command: string;
  /** The policy rule that decided. */
  rule: string;
  /** The user it runs as. */
  user: string;
  /** exited, signalled, timeout, output-limit, cancelled, failed, or why it was denied; empty while it runs. */
  reason: string;
  exitCode: number | null;
  stdoutBytes: number;
  stderrBytes: number;
  durationMs: number;
  /** Name of the recording of a terminal; empty without one. */
  recording: string;
  /** SHA-256 of the closed recording, hex; a replay compares the file with it. */
  recordingSha256?: string;
}

/** Where entries are written. The runner waits for each write. */
export interface CommandAudit {
  /** Resolves when the entry is on disk; a command starts only then. Throws if the entry cannot be written, and the command is not run. */
  write(entry: CommandAuditEntry): Promise<void>;
}
