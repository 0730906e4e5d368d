/** The `exec` section of the agent's config: which commands may run on this host, as which user, within which limits. */

import * as z from "zod";
import { duration, flag, integer, oneOf, section, size, text } from "../schema/schema-parts.ts";

const actions = ["allow", "deny", "require_approval"] as const;
const profiles = ["off", "diagnostics", "full"] as const;

/** A user name or uid. */
const userName = { expression: /^[A-Za-z0-9_][\w.-]{0,31}$/, message: "write a user name or uid" };

function patterns(description: string) {
  const pattern = text(description).max(256, "it must have at most 256 characters");
  return z
    .union([pattern.transform((one) => [one]), z.array(pattern).max(100, "list at most 100 patterns")])
    .meta({ kind: "list of text", description })
    .prefault([]);
}

const rule = z.strictObject({
  name: text("Name shown in results and in the audit log", {
    expression: /^[\w .:-]{1,64}$/,
    message: "use 1 to 64 letters, digits, spaces or any of _ . : -",
  }),
  action: oneOf("Action for a matching command", actions),
  program: patterns("Programs by name, or by path if it contains a slash; * matches anything"),
  args: patterns("Arguments: allow requires every argument to match; deny and require_approval apply if any argument matches"),
  user: patterns("Callers, such as token:ci* or local:uid=0"),
  target: patterns('Targets, such as host, "service api" or "container web*"'),
  environment: patterns("Environments: the agent's env label, else the colony's environment"),
  kind: patterns("exec, shell, run"),
  run_as: text("User that the command runs as; target: the user of the process whose namespaces are entered", userName).optional(),
});

export const agentExecSection = section({
  profile: oneOf("Commands allowed without a rule: none, a reviewed read-only set, or all", profiles).prefault("diagnostics"),
  rules: z
    .array(rule)
    .max(200, "list at most 200 rules")
    .meta({
      kind: "list of rules",
      description:
        "Rules matched in order, before the profile, for each program of a command: {name, action: allow | deny | require_approval, program, args, user, target, environment, kind, run_as}",
    })
    .prefault([]),
  run_as: text("User that commands run as; default: nobody when the agent is root, else the agent's own user", userName).optional(),
  timeout: duration("Timeout of a command; does not apply to `coral run`", { min: "1s", max: "24h" }).prefault("5m"),
  max_output: size("Output limit of a command, which is killed above it; does not apply to `coral run` and terminals", {
    min: "1KiB",
    max: "64GiB",
  }).prefault("16MiB"),
  max_running: integer("Maximum number of concurrent commands", 1, 1_000).prefault(16),
  limits: section({
    memory: size("Memory limit of a command and its child processes, where cgroups are available", { min: "16MiB" }).prefault("512MiB"),
    cpus: z
      .number({ error: "write a number from 0.1 to 1024" })
      .min(0.1, "write a number from 0.1 to 1024")
      .max(1_024, "write a number from 0.1 to 1024")
      .meta({ kind: "number", description: "CPU limit of a command in cores, where cgroups are available" })
      .prefault(1),
    processes: integer("Maximum number of processes and threads of a command, where cgroups are available", 8, 100_000).prefault(256),
  }),
  recordings: section({
    enabled: flag("Record terminal sessions for `coral audit replay`").prefault(true),
    max_size: size("Maximum disk usage of all recordings; the oldest are deleted first", { min: "1MiB" }).prefault("256MiB"),
    max_age: duration("How long a recording is kept", { min: "1h" }).prefault("30d"),
  }),
  environment_allow: patterns(
    "Environment variables that a caller may set; * matches anything. A bare `*` does not apply to commands allowed by a rule; the read-only profile allows only locale, time zone and terminal variables",
  ).prefault(["*"]),
  model_hosts: patterns(
    "Hosts that MCP and HTTP callers may contact or look up with programs of the read-only profile (curl, dig, ping and similar): names or addresses, * matches anything. Loopback is always allowed; rules and profile full are not affected",
  ),
  approval_timeout: duration("How long a command waits for approval", { min: "10s", max: "24h" }).prefault("15m"),
});

/** Has the shape of `ExecSettings` in `src/exec`. */
export interface AgentExecConfig {
  profile: (typeof profiles)[number];
  rules: {
    name: string;
    action: (typeof actions)[number];
    program: string[];
    args: string[];
    user: string[];
    target: string[];
    environment: string[];
    kind: string[];
    runAs: string | undefined;
  }[];
  runAs: string | undefined;
  timeoutMs: number;
  maxOutputBytes: number;
  maxRunning: number;
  limits: { memoryBytes: number; cpus: number; processes: number };
  recordings: { enabled: boolean; maxSizeBytes: number; maxAgeMs: number };
  environmentAllow: string[];
  modelHosts: string[];
  approvalTimeoutMs: number;
}

export function toAgentExec(file: z.output<typeof agentExecSection>): AgentExecConfig {
  return {
    profile: file.profile,
    rules: file.rules.map(({ run_as: runAs, ...rest }) => ({ ...rest, runAs })),
    runAs: file.run_as,
    timeoutMs: file.timeout,
    maxOutputBytes: file.max_output,
    maxRunning: file.max_running,
    limits: { memoryBytes: file.limits.memory, cpus: file.limits.cpus, processes: file.limits.processes },
    recordings: { enabled: file.recordings.enabled, maxSizeBytes: file.recordings.max_size, maxAgeMs: file.recordings.max_age },
    environmentAllow: file.environment_allow,
    modelHosts: file.model_hosts.map((pattern) => pattern.toLowerCase()),
    approvalTimeoutMs: file.approval_timeout,
  };
}
