/** A running command: processes of this host, a terminal, or a container runtime. */

/** Why and how it ended. */
export interface CommandEnd {
  reason: "exited" | "signalled" | "timeout" | "output-limit" | "cancelled" | "failed";
  /** As a shell reports it: 128 + n for a signal, 124 for a timeout. */
  exitCode: number;
  /** `SIGTERM`; empty if it was not killed by a signal. */
  signal: string;
  /** For `failed`: the message. */
  problem: string;
  stdoutBytes: number;
  stderrBytes: number;
  durationMs: number;
}

/** One chunk, as the program wrote it. */
export interface CommandOutput {
  stream: "stdout" | "stderr";
  data: Uint8Array;
}

/** Disposing it ends the command and waits for its last process. */
export interface RunningCommand extends AsyncDisposable {
  /** Pid of the first program; 0 if a container runtime runs it. */
  readonly pid: number;
  /** Read at most once. A reader that stops blocks the command; `drain` lets it run unread. */
  output(): AsyncIterable<CommandOutput>;
  drain(): void;
  /** Resolves when more can be written. Input after its end is dropped. */
  write(data: Uint8Array): Promise<void>;
  endInput(): void;
  /** Resizes the terminal; no effect without one. */
  resize(columns: number, rows: number): void;
  /** Sends `INT`, `TERM` … to all programs. */
  signal(name: string): void;
  /** Sends SIGTERM, then kills all its processes after a grace period. */
  stop(reason: CommandEnd["reason"]): void;
  /** Resolves after the last output was read and the last process has exited. */
  readonly ended: Promise<CommandEnd>;
}

/** Limits of a command. */
export interface CommandBounds {
  /** Undefined: no timeout. */
  timeoutMs: number | undefined;
  maxOutputBytes: number | undefined;
  /** SIGINT is sent after this time, which is not a failure. */
  stopAfterMs: number | undefined;
}

const signals = ["HUP", "INT", "QUIT", "TERM", "KILL", "USR1", "USR2", "CONT", "STOP", "TSTP", "WINCH", "PIPE"] as const;

/** `INT` or `SIGINT`; undefined for a signal that is not forwarded. */
export function signalOf(name: string): NodeJS.Signals | undefined {
  const short = name.toUpperCase().replace(/^SIG/, "");
  const found = signals.find((known) => known === short);
  return found === undefined ? undefined : `SIG${found}`;
}
