/**
 * What a client and a daemon say to each other about a command, as control frames of a FrameStream on `POST /v1/commands`. The same at the colony
 * and at an agent's own socket. The client begins with a CommandAsk; its other frames are input. Data frames of a daemon are output.
 */

/** What is wanted, and at the colony: of which agents. */
export interface CommandAsk {
  kind: "command";
  command: "exec" | "shell" | "run";
  /** One of the two; a shell may have neither. See CommandOrder in commands.proto. */
  argv?: string[];
  text?: string;
  /** Which agents; for the colony only. */
  targets?: CommandTargets;
  /** Where at the agent. Absent: on the host, or in the service of `targets`. */
  where?: CommandPlace;
  workingDirectory?: string;
  environment?: Record<string, string>;
  timeoutMs?: number;
  maxOutputBytes?: number;
  terminal?: TerminalShape;
  /** Of run. */
  serviceName?: string;
  isDetached?: boolean;
  /** Only what changes nothing, whatever the agent's policy allows. */
  readOnly?: boolean;
  /** For the audit. Default http. */
  through?: "cli" | "http";
}

/** All that are given must fit. */
export interface CommandTargets {
  /** Ids or host names. */
  agents?: string[];
  /** Agents that have it; the command runs there unless `where` says host. */
  service?: string;
  labels?: Record<string, string>;
  environment?: string;
  all?: boolean;
  /** Any one of those that fit, in place of all of them. */
  one?: boolean;
}

export interface CommandPlace {
  kind: "host" | "service" | "container";
  service?: string;
  container?: string;
  pid?: number;
}

export interface TerminalShape {
  columns: number;
  rows: number;
  /** TERM. */
  type?: string;
}

/** One of the agents that the command goes to; its place in the list is the `target` of frames. */
export interface RoutedTarget {
  agentId: string;
  hostname: string;
}

/** One that cannot, and why. */
export interface SkippedTarget extends RoutedTarget {
  reason: string;
  /** What to do about it; absent when nothing can be done. */
  fix?: string;
}

export interface CommandStart {
  kind: "started";
  pid: number;
  programs: string[];
  where: string;
  rule: string;
  user: string;
  timeoutMs: number;
  maxOutputBytes: number;
}

/** `lost`: the connection to the agent broke; nobody can say how it went on. */
export interface CommandEnd {
  kind: "target-ended";
  reason: "exited" | "signalled" | "timeout" | "output-limit" | "cancelled" | "denied" | "failed" | "lost";
  exitCode: number;
  signal: string;
  problem: string;
  /** Kind of the problem, as src/base/errors.ts names it; empty without one. */
  code: string;
  rule: string;
  stdoutBytes: number;
  stderrBytes: number;
  durationMs: number;
  recording: string;
}

export interface CommandApproval {
  kind: "approval-needed";
  approvalId: string;
  rule: string;
  expiresAtMs: number;
}

/** From the daemon. The frame's `target` says whose; of `credit`, `routed`, `ended` and `error` it means nothing. */
export type DaemonMessage =
  /** The first of all: where it goes. */
  | { kind: "routed"; commandId: string; targets: RoutedTarget[]; skipped: SkippedTarget[]; warnings: string[] }
  /** So many more bytes of input may be sent. The first one comes with `routed`. */
  | { kind: "credit"; bytes: number }
  | CommandStart
  | CommandApproval
  | CommandEnd
  /** The last: every target has ended. */
  | { kind: "ended" }
  /** The last: nothing was done, or it cannot go on. */
  | { kind: "error"; error: { code: string; message: string; details: Record<string, unknown> } };

/** Input that may be on its way to a command that does not read it. */
export const inputCreditBytes = 256 * 1024;
