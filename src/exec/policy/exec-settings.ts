/** The agent owner's settings for commands; built from the config, read again for each command. */

export type RuleAction = "allow" | "deny" | "require_approval";

/** Lists are patterns in which `*` stands for anything; an empty list means all. */
export interface ExecRule {
  name: string;
  action: RuleAction;
  /** Names, or paths when they hold a slash. */
  program: readonly string[];
  /** To allow, every argument must fit one of these; to deny or to hold back, one that fits is enough. */
  args: readonly string[];
  /** Of the caller: `token:ci*`, `local:uid=0`. */
  user: readonly string[];
  /** `host`, `service api`, `container web*`. */
  target: readonly string[];
  /** Of the colony, or the agent's label `env`: `production`. */
  environment: readonly string[];
  /** exec, shell, run. */
  kind: readonly string[];
  /** A user's name or number; `target`: that of the process whose namespaces are entered. */
  runAs: string | undefined;
}

export type ExecProfile = "off" | "diagnostics" | "full";

export interface ExecSettings {
  profile: ExecProfile;
  rules: readonly ExecRule[];
  /** Undefined: nobody when the agent is root, else the agent's own user. */
  runAs: string | undefined;
  timeoutMs: number;
  maxOutputBytes: number;
  /** At the same time. */
  maxRunning: number;
  limits: { memoryBytes: number; cpus: number; processes: number };
  recordings: { enabled: boolean; maxSizeBytes: number; maxAgeMs: number };
  /** Names of variables that a caller may set. */
  environmentAllow: readonly string[];
  /** How long a command waits for an approval. */
  approvalTimeoutMs: number;
}
