/** A command that runs, whatever keeps it: processes of this host, a terminal, or a container runtime. */

/** Why and how it ended. */
export interface CommandEnd {
  reason: "exited" | "signalled" | "timeout" | "output-limit" | "cancelled" | "failed";
  /** As a shell reports it: 128 + n for a signal, 124 for a timeout. */
  exitCode: number;
  /** `SIGTERM`; empty when it exited by itself. */
  signal: string;
  /** For `failed`: what to print. */
  problem: string;
  stdoutBytes: number;
  stderrBytes: number;
  durationMs: number;
}

export interface CommandOutput {
  stream: "stdout" | "stderr";
  data: Uint8Array;
}

export interface RunningCommand extends AsyncDisposable {
  /** Of the first program; 0 when a runtime keeps it. */
  readonly pid: number;
  /** Read at most once. A reader that stops blocks the command; `drain` lets it run unread. */
  output(): AsyncIterable<CommandOutput>;
  drain(): void;
  /** Resolves when more can be written. What comes after its end is dropped. */
  write(data: Uint8Array): Promise<void>;
  endInput(): void;
  /** Of a terminal; nothing without one. */
  resize(columns: number, rows: number): void;
  /** `INT`, `TERM` …: to all its programs. */
  signal(name: string): void;
  /** Asks it to end, and a moment later ends it with all that came of it. */
  stop(reason: CommandEnd["reason"]): void;
  /** After the last output was taken and its last process is gone. */
  readonly ended: Promise<CommandEnd>;
}

/** What bounds a command. */
export interface CommandBounds {
  /** Undefined: as long as it likes. */
  timeoutMs: number | undefined;
  maxOutputBytes: number | undefined;
  /** It is interrupted then, which is not a failure. */
  stopAfterMs: number | undefined;
}

const signals = ["HUP", "INT", "QUIT", "TERM", "KILL", "USR1", "USR2", "CONT", "STOP", "TSTP", "WINCH", "PIPE"] as const;

/** `INT` or `SIGINT`; undefined for one that is not passed on. */
export function signalOf(name: string): NodeJS.Signals | undefined {
  const short = name.toUpperCase().replace(/^SIG/, "");
  const found = signals.find((known) => known === short);
  return found === undefined ? undefined : `SIG${found}`;
}
