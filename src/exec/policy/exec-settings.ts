/** The agent's settings for commands, from the config; read again for each command. */

export type RuleAction = "allow" | "deny" | "require_approval";

/** Lists hold patterns in which `*` matches any text; an empty list matches everything. */
export interface ExecRule {
  name: string;
  action: RuleAction;
  /** Names, or paths if they contain a slash. */
  program: readonly string[];
  /** `allow` needs every argument to match one of these; for `deny` and `hold`, one match is enough. */
  args: readonly string[];
  /** Of the caller: `token:ci*`, `local:uid=0`. */
  user: readonly string[];
  /** `host`, `service api`, `container web*`. */
  target: readonly string[];
  /** Of the colony, or the agent's label `env`: `production`. */
  environment: readonly string[];
  /** exec, shell, run. */
  kind: readonly string[];
  /** A user's name or uid; `target`: the user of the process whose namespaces are entered. */
  runAs: string | undefined;
}

export type ExecProfile = "off" | "diagnostics" | "full";

/** The `exec` section of the agent's config, resolved. */
export interface ExecSettings {
  profile: ExecProfile;
  rules: readonly ExecRule[];
  /** Undefined: the user `nobody` for a root agent, else the agent's own user. */
  runAs: string | undefined;
  timeoutMs: number;
  maxOutputBytes: number;
  /** Concurrent commands. */
  maxRunning: number;
  limits: { memoryBytes: number; cpus: number; processes: number };
  recordings: { enabled: boolean; maxSizeBytes: number; maxAgeMs: number };
  /** Names of variables that a caller may set. */
  environmentAllow: readonly string[];
  /** Hosts that models may contact or resolve with programs of the read-only profile, in addition to this host itself. */
  modelHosts: readonly string[];
  /** How long a command waits for an approval. */
  approvalTimeoutMs: number;
}
