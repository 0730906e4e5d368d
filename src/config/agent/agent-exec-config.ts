/** The `exec` section of the agent's config: which commands may run on this host, as whom, and within which limits. */

import * as z from "zod";
import { duration, integer, oneOf, section, size, text } from "../schema/schema-parts.ts";

const actions = ["allow", "deny", "require_approval"] as const;
const profiles = ["off", "diagnostics", "full"] as const;

const flag = (description: string) => z.boolean({ error: "write true or false" }).meta({ kind: "true | false", description });
/** A user's name or number. */
const userName = { expression: /^[A-Za-z0-9_][\w.-]{0,31}$/, message: "write the name or the number of a user" };

function patterns(description: string) {
  const pattern = text(description).max(256, "it must have at most 256 characters");
  return z
    .union([pattern.transform((one) => [one]), z.array(pattern).max(100, "at most 100 patterns are compared")])
    .meta({ kind: "list of text", description })
    .prefault([]);
}

const rule = z.strictObject({
  name: text("Shown in answers and audits", {
    expression: /^[\w .:-]{1,64}$/,
    message: "use 1 to 64 letters, digits, blanks or one of _ . : -",
  }),
  action: oneOf("What becomes of a command that fits", actions),
  program: patterns("Programs by name, or by path when it holds a slash; * stands for anything"),
  args: patterns("Arguments: to allow, each must fit one of these; to deny or hold back, one that fits is enough"),
  user: patterns("Callers, such as token:ci* or local:uid=0"),
  target: patterns('Targets, such as host, "service api" or "container web*"'),
  environment: patterns("Environments: the agent's label env, or that of the colony"),
  kind: patterns("exec, shell, run"),
  run_as: text("User that the command runs as; target: that of the process whose namespaces are entered", userName).optional(),
});

export const agentExecSection = section({
  profile: oneOf("Commands that may run without a rule: none, a reviewed read-only set, or all", profiles).prefault("diagnostics"),
  rules: z
    .array(rule)
    .max(200, "at most 200 rules are compared")
    .meta({
      kind: "list of rules",
      description:
        "Tried in order before the profile, for each program of a command: {name, action: allow | deny | require_approval, program, args, user, target, environment, kind, run_as}",
    })
    .prefault([]),
  run_as: text("User that commands run as; default: nobody when the agent is root, else the agent's own user", userName).optional(),
  timeout: duration("Longest a command may run; programs of `coral run` are not ended by it", { min: "1s", max: "24h" }).prefault("5m"),
  max_output: size("Most output of one command; it is ended when it writes more. Programs of `coral run` and terminals are not", {
    min: "1KiB",
    max: "64GiB",
  }).prefault("16MiB"),
  max_running: integer("Commands that may run at the same time", 1, 1_000).prefault(16),
  limits: section({
    memory: size("Memory of one command with all its processes, where cgroups can be made", { min: "16MiB" }).prefault("512MiB"),
    cpus: z
      .number({ error: "write a number of 0.1 to 1024" })
      .min(0.1, "write a number of 0.1 to 1024")
      .max(1_024, "write a number of 0.1 to 1024")
      .meta({ kind: "number", description: "Cores that one command may use, where cgroups can be made" })
      .prefault(1),
    processes: integer("Processes and threads of one command, where cgroups can be made", 8, 100_000).prefault(256),
  }),
  recordings: section({
    enabled: flag("Keep what terminals show, for `coral audit replay`").prefault(true),
    max_size: size("Disk that all recordings may take; the oldest go first", { min: "1MiB" }).prefault("256MiB"),
    max_age: duration("How long a recording is kept", { min: "1h" }).prefault("30d"),
  }),
  environment_allow: patterns(
    "Variables that a caller may set, * stands for anything; for what a rule allows `*` does not count; with the read-only profile only the language, the time zone and the terminal",
  ).prefault(["*"]),
  approval_timeout: duration("How long a command waits for somebody to approve it", { min: "10s", max: "24h" }).prefault("15m"),
});

/** As the room that runs commands wants it; see there. */
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
    approvalTimeoutMs: file.approval_timeout,
  };
}
