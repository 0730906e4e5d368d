/**
 * Operations that the CLI gets from the composition root: running daemons in this process, creating a colony, inspecting the host.
 * `src/main/` implements them with lazy imports, so that `coral version` loads none of them.
 */

export type DaemonKind = "colony" | "agent" | "up";

export interface RunOptions {
  /** Path of a config file; default: the one under CORAL_HOME. */
  config?: string;
  /** Which colony; default: the current context's, or the only one there is. */
  colonyId?: string;
  /** `host:port` or port; overrides the config. Port 0 picks a free one. */
  listen?: string;
  /** Join token for an agent that has not joined yet. */
  token?: string;
  logLevel?: string;
  logFormat?: "json" | "text";
}

export interface DaemonStarted {
  kind: DaemonKind;
  pid: number;
  logFile: string;
  /** URLs and addresses, ready to print. */
  endpoints: Record<string, string>;
}

export interface DaemonReady {
  /** URLs and addresses, ready to print. */
  endpoints: Record<string, string>;
  /** What this host cannot do, with the reason and the fix. */
  degraded: { name: string; reason: string }[];
}

export type DaemonStopped = { kind: "stopped"; pid: number; tookMs: number } | { kind: "not-running" };

export interface ColonyInitialised {
  colonyId: string;
  directory: string;
  caFingerprint: string;
  contextName: string;
}

/** One line of `coral doctor`. */
export interface DoctorCheck {
  area: "runtime" | "host" | "ebpf" | "mesh" | "storage" | "daemons";
  name: string;
  state: "ok" | "degraded" | "unavailable";
  /** Observed state. */
  detail: string;
  /** The fix, unless ok. */
  fix?: string;
}

export interface CliRuntime {
  /**
   * Each runs in the foreground until SIGINT or SIGTERM, and resolves after a clean shut-down. `onReady` is called once its sockets
   * accept requests; `up` first creates a colony "local-dev" when there is none.
   */
  run(kind: DaemonKind, options: RunOptions, onReady?: (ready: DaemonReady) => Promise<void>): Promise<void>;
  /** Starts in the background; resolves when the daemon accepts requests. Throws `already-exists` with the pid of a running daemon. */
  start(kind: "colony" | "agent", options: RunOptions): Promise<DaemonStarted>;
  /** Resolves when the process has exited. */
  stop(kind: "colony" | "agent", options: { colonyId?: string; timeoutMs: number }): Promise<DaemonStopped>;
  init(options: { app: string; environment: string }): Promise<ColonyInitialised>;
  doctor(): Promise<DoctorCheck[]>;
  /** Signal names that `retention` of a colony's config accepts. */
  signalNames(): Promise<readonly string[]>;
}
