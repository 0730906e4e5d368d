/** Commands on agents: targets and outcomes. */

import * as z from "zod";

/** Capability that the agent needs. */
export const commandKindSchema = z.enum(["exec", "shell", "run"]);
export type CommandKind = z.infer<typeof commandKindSchema>;

/** A matching agent, and whether it can run the command. */
export const targetAgentSchema = z.object({
  agentId: z.string(),
  hostname: z.string(),
  supported: z.boolean(),
  connected: z.boolean(),
  /** `Kubernetes Sidecar (Passive mode)`; `legacy agent` without a runtime context. */
  runtime: z.string(),
  /** Why it is skipped; empty when it gets the command. */
  reason: z.string(),
  /** The fix; empty when there is none. */
  fix: z.string(),
});
export type TargetAgent = z.infer<typeof targetAgentSchema>;

/** Output of coral_resolve_targets. */
export const resolvedTargetsSchema = z.object({
  command: commandKindSchema,
  /** The selector: `service=api env=prod`. */
  target: z.string(),
  /** The service's full name; null when none was selected. */
  service: z.string().nullable(),
  total: z.number(),
  /** Agents that get the command. */
  usable: z.number(),
  agents: z.array(targetAgentSchema),
});
export type ResolvedTargets = z.infer<typeof resolvedTargetsSchema>;

/** `lost`: the connection to the agent broke; the outcome is unknown. */
export const commandEndReasonSchema = z.enum([
  "exited",
  "signalled",
  "timeout",
  "output-limit",
  "cancelled",
  "denied",
  "failed",
  "lost",
  "approval-needed",
]);

/** The outcome of a command at one agent, with its output up to the limit. */
export const commandOutcomeSchema = z.object({
  agentId: z.string(),
  hostname: z.string(),
  reason: commandEndReasonSchema,
  /** Null when it was killed. */
  exitCode: z.number().nullable(),
  signal: z.string(),
  /** Why it was denied or failed; empty otherwise. */
  problem: z.string(),
  /** Kind of the problem: `not-permitted`, `unavailable`; empty without one. */
  code: z.string(),
  /** The deciding rule of the agent's policy. */
  rule: z.string(),
  /** `host`, or the container or process whose namespaces it ran in. */
  where: z.string(),
  user: z.string(),
  stdout: z.string(),
  stderr: z.string(),
  /** Bytes of output that are not shown. */
  cutBytes: z.number(),
  durationMs: z.number(),
});
export type CommandOutcome = z.infer<typeof commandOutcomeSchema>;

/** Output of coral_agent_exec. */
export const commandResultSchema = z.object({
  commandId: z.string(),
  outcomes: z.array(commandOutcomeSchema),
});
export type CommandResult = z.infer<typeof commandResultSchema>;

/** Selects agents; an agent must match every given field. */
export interface TargetSelector {
  /** Ids or host names. */
  agents?: readonly string[];
  service?: string;
  labels?: Readonly<Record<string, string>>;
  environment?: string;
  all?: boolean;
  /** Any one of the matches. */
  one?: boolean;
}

/** A command for the colony to run to completion, without input. */
export interface CommandRequest {
  argv?: string[];
  text?: string;
  agents: { agentId: string; hostname: string }[];
  /** Where the agent runs it. */
  where: { kind: "host" | "service" | "container"; service?: string; container?: string };
  workingDirectory?: string;
  timeoutMs: number;
  /** Limit of shown output per agent. */
  maxOutputBytes: number;
  readOnly: boolean;
}

/** A command that no agent can run: the request and the reason. */
export interface CommandRefusal {
  argv?: string[];
  text?: string;
  /** The requested targets: `service=api env=prod`. */
  target: string;
  reason: string;
}
