/** A program at its own terminal. The terminal library is loaded with the first one. */

import { constants } from "node:os";
import type { IPty } from "@lydell/node-pty";
import { background } from "../../base/background.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { holdTerminal } from "./held-terminal.ts";
import { OutputMeter } from "./output-meter.ts";
import type { ProcessTree } from "./process-tree.ts";
import { endOf } from "./run-pipeline.ts";
import { type CommandBounds, type CommandEnd, type CommandOutput, type RunningCommand, signalOf } from "./running-command.ts";

/** `type` is the value of TERM. */
export interface TerminalShape {
  columns: number;
  rows: number;
  type: string;
}

export interface TerminalOptions {
  /** The file to run and its arguments, see launchArgv. */
  program: readonly [string, ...string[]];
  environment: Readonly<Record<string, string>>;
  terminal: TerminalShape;
  tree: ProcessTree;
  bounds: CommandBounds;
  isWrapped: boolean;
  log: Logger;
}

/** Between SIGHUP and SIGKILL. */
const graceMs = 2_000;
/** Interval of Ctrl-D after the end of input. */
const endAgainMs = 250;
/** Columns or rows; larger values are reduced. */
const maxSize = 10_000;

/** Throws `unsupported` if the native library does not load. */
export async function runTerminal(options: TerminalOptions): Promise<RunningCommand> {
  let library: typeof import("@lydell/node-pty");
  try {
    library = await import("@lydell/node-pty");
  } catch (error) {
    throw new CoralError({
      code: "unsupported",
      message: "Cannot open a terminal: the native library for it does not load on this platform",
      cause: error,
    });
  }
  const [file, ...args] = options.program;
  const { columns, rows } = clamped(options.terminal);
  const pty = library.spawn(file, args, {
    name: options.terminal.type || "xterm-256color",
    cols: columns,
    rows,
    cwd: "/",
    env: { ...options.environment },
    // Bytes, not text: output need not be UTF-8.
    encoding: null,
  });
  return new Terminal(options, pty);
}

/** Has one output stream: a terminal merges stdout and stderr. */
class Terminal implements RunningCommand {
  readonly ended: Promise<CommandEnd>;
  readonly #options: TerminalOptions;
  readonly #pty: IPty;
  readonly #meter: OutputMeter;
  readonly #startedMs = performance.now();
  readonly #timers: NodeJS.Timeout[] = [];
  #reason: CommandEnd["reason"] | undefined;
  /** Chunks are delivered in order, one at a time. */
  #lastTaken: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #isGone = false;
  #inputEnd: NodeJS.Timeout | undefined;
  readonly #release: () => void;

  constructor(options: TerminalOptions, pty: IPty) {
    this.#options = options;
    this.#pty = pty;
    options.tree.add(pty.pid);
    this.#release = holdTerminal(nameOf(pty), pty.pid);
    this.#meter = new OutputMeter(options.bounds.maxOutputBytes, () => this.stop("output-limit"));
    pty.onData((data: string | Buffer) => this.#take(typeof data === "string" ? Buffer.from(data) : data));
    const exited = new Promise<{ exitCode: number; signal?: number | undefined }>((resolve) => pty.onExit(resolve));
    const { timeoutMs, stopAfterMs } = options.bounds;
    if (timeoutMs !== undefined) this.#timers.push(setTimeout(() => this.stop("timeout"), timeoutMs));
    if (stopAfterMs !== undefined) this.#timers.push(setTimeout(() => this.signal("INT"), stopAfterMs));
    this.ended = this.#finish(exited);
  }

  get pid(): number {
    return this.#pty.pid;
  }

  output(): AsyncIterable<CommandOutput> {
    return this.#meter;
  }

  drain(): void {
    this.#meter.drain();
  }

  async write(data: Uint8Array): Promise<void> {
    // The types declare strings only; bytes are passed unchanged.
    if (!this.#isGone) this.#pty.write(Buffer.from(data) as unknown as string);
  }

  /** Sends Ctrl-D repeatedly: every later read must return the end of input, and a key sent while a program sets up its terminal is lost. */
  endInput(): void {
    if (this.#isGone || this.#inputEnd !== undefined) return;
    this.#pty.write("\x04");
    this.#inputEnd = setInterval(() => this.#pty.write("\x04"), endAgainMs);
  }

  resize(columns: number, rows: number): void {
    if (this.#isGone) return;
    const size = clamped({ columns, rows });
    try {
      this.#pty.resize(size.columns, size.rows);
    } catch {
      // It has just exited; the exit event is on its way.
    }
  }

  signal(name: string): void {
    const signal = signalOf(name);
    const wrappers = new Set(this.#options.isWrapped ? [this.#pty.pid] : []);
    if (signal !== undefined) this.#options.tree.signal(signal, wrappers);
  }

  stop(reason: CommandEnd["reason"]): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#meter.drain();
    this.#pty.resume();
    // SIGHUP, as when a terminal hangs up.
    this.signal("HUP");
    const kill = (): void => background(this.#options.log, "Killing the processes of a terminal", this.#options.tree.kill());
    if (reason === "output-limit") kill();
    else if (!this.#isGone) this.#timers.push(setTimeout(kill, graceMs));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop("cancelled");
    await this.ended;
  }

  #take(data: Buffer): void {
    this.#waiting++;
    // A slow reader blocks the program.
    if (this.#waiting === 4) this.#pty.pause();
    this.#lastTaken = this.#lastTaken
      .then(() => this.#meter.take("stdout", data))
      .then(() => {
        this.#waiting--;
        if (this.#waiting === 0 && !this.#isGone) this.#pty.resume();
      });
  }

  async #finish(exited: Promise<{ exitCode: number; signal?: number | undefined }>): Promise<CommandEnd> {
    const { exitCode, signal = 0 } = await exited;
    this.#isGone = true;
    this.#release();
    clearInterval(this.#inputEnd);
    for (const timer of this.#timers) clearTimeout(timer);
    await this.#options.tree.kill();
    await this.#lastTaken;
    this.#meter.end();
    const name = signal === 0 ? null : (Object.entries(constants.signals).find(([, number]) => number === signal)?.[0] ?? null);
    return {
      ...endOf(this.#reason, exitCode, name),
      problem: "",
      stdoutBytes: this.#meter.stdoutBytes,
      stderrBytes: 0,
      durationMs: Math.round(performance.now() - this.#startedMs),
    };
  }
}

/** Missing from its types. Empty: it has none. */
function nameOf(pty: IPty & { ptsName?: string }): string {
  return pty.ptsName ?? "";
}

function clamped({ columns, rows }: { columns: number; rows: number }): { columns: number; rows: number } {
  const fit = (value: number, fallback: number): number => (value > 0 ? Math.min(Math.floor(value), maxSize) : fallback);
  return { columns: fit(columns, 80), rows: fit(rows, 24) };
}
