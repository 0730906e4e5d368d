/**
 * A child process of a daemon. It receives orders and sends reports over a channel, is restarted when it exits unexpectedly, and is killed
 * when it hangs. The daemon survives any failure of it.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { type Backoff, createBackoff } from "./backoff.ts";
import { type Clock, sleep, systemClock } from "./clock.ts";
import type { Logger } from "./log.ts";

/** Exit code of a process that this host does not support. It is not restarted; its last state has the reason. */
export const exitCodeOff = 3;

/** Reports of kind "state"; the last one is the state of the process. */
type StateOf<Report extends { kind: string }> = Extract<Report, { kind: "state" }>;

export interface ProcessStatus<State> {
  /** The last state; null until there is one. */
  state: State | null;
  /** Null while no process runs. */
  pid: number | null;
  /** Number of unexpected exits since the start. */
  restarts: number;
  lastEnd: string | null;
}

/** Settings that a daemon may choose for any process; the rest depends on the kind of process. */
export interface SuperviseOptions {
  log: Logger;
  /** Aborting ends the process like disposal. */
  signal?: AbortSignal;
  clock?: Clock;
  /** For tests: a program other than the bundle's, and faster restarts. */
  childPath?: string;
  backoff?: Backoff;
  /** How often the watchdog checks for reports. Default 5 s. */
  checkMs?: number;
}

export interface SupervisedProcessOptions<Order, Report extends { kind: string }> extends SuperviseOptions {
  /** For log lines: `traffic process`. */
  name: string;
  /** File name in dist/. */
  file: string;
  engineFlags: readonly string[];
  /** Threads of libuv's pool. Each call that waits in the kernel occupies one. */
  poolThreads: number;
  /** The order sent to each new process. */
  firstOrder: () => Order;
  /** The report to emit when the file is missing. */
  offState: (problem: string) => Report;
  /** Must not throw. */
  onReport: (report: Report) => void;
  /** Interval of reports of kind "window"; null while none are expected. */
  windowMs: () => number | null;
  /** Called when it cannot work on this host and waits for `retry()`. */
  onOff?: () => void;
  onRetry?: () => void;
  /**
   * Called after an unexpected exit; `reason` is such as `SIGKILL` or `exit code 1: <last line of stderr>`. The process is restarted after
   * `restartMs`.
   */
  onUnexpectedEnd?: (reason: string, restartMs: number) => void;
  /** Called with the downtime after an unexpected exit: before the next start, or when supervision ends. */
  onRestart?: (downMs: number) => void;
}

/** A process that ran this long resets the backoff. */
const settledMs = 60_000;
const killAfterMs = 3_000;
/** Watchdog checks allowed without a first state: loading may take a minute on a busy host. */
const maxSilentStart = 24;
/** Consecutive missed windows after which a process counts as hung. */
const maxMissedWindows = 5;
const maxLineLength = 500;

export class SupervisedProcess<Order extends object, Report extends { kind: string }> implements AsyncDisposable {
  readonly #options: SupervisedProcessOptions<Order, Report>;
  readonly #clock: Clock;
  readonly #backoff: Backoff;
  readonly #stop = new AbortController();
  readonly #loop: Promise<void>;
  #child: ChildProcess | undefined;
  #state: StateOf<Report> | null = null;
  #restarts = 0;
  #lastEnd: string | null = null;
  /** Set while this host does not support the process with its current orders. */
  #wake: (() => void) | undefined;

  /** Starts the process. */
  constructor(options: SupervisedProcessOptions<Order, Report>) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#backoff = options.backoff ?? createBackoff({ initialMs: 1_000, maxMs: 60_000 });
    options.signal?.addEventListener("abort", () => this.#stop.abort(), { once: true, signal: this.#stop.signal });
    if (options.signal?.aborted) this.#stop.abort();
    this.#loop = this.#run();
  }

  status(): ProcessStatus<StateOf<Report>> {
    return { state: this.#state, pid: this.#child?.pid ?? null, restarts: this.#restarts, lastEnd: this.#lastEnd };
  }

  /** Returns false if no process runs. */
  send(order: Order): boolean {
    if (this.#child?.connected !== true) return false;
    // Errors are ignored: the exit of the process is handled in #runChild().
    this.#child.send(order, () => undefined);
    return true;
  }

  /** Starts a process that could not work on this host again, because its next first order may be different. */
  retry(): void {
    this.#wake?.();
  }

  /** Idempotent; resolves when the process has exited. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const { name, log, onOff, onRetry, onUnexpectedEnd, onRestart } = this.#options;
    while (!signal.aborted) {
      const startedMs = this.#clock.monotonicMs();
      const { code, reason } = await this.#runChild();
      if (signal.aborted) return;
      if (code === exitCodeOff) {
        onOff?.();
        await this.#untilRetry();
        onRetry?.();
        continue;
      }
      const endedMs = this.#clock.monotonicMs();
      if (endedMs - startedMs > settledMs) this.#backoff.reset();
      const restartMs = this.#backoff.nextMs();
      this.#restarts++;
      this.#lastEnd = reason;
      // Nothing is observed until the next process reports a state.
      this.#state = null;
      log.warn(`${name} ended: ${reason}; restarting it`, { restartMs: Math.round(restartMs) });
      onUnexpectedEnd?.(reason, restartMs);
      await sleep(restartMs, signal).catch(() => undefined); // aborted: the loop's condition ends it
      onRestart?.(this.#clock.monotonicMs() - endedMs);
    }
  }

  #untilRetry(): Promise<void> {
    const { signal } = this.#stop;
    return new Promise<void>((resolve) => {
      this.#wake = resolve;
      signal.addEventListener("abort", () => resolve(), { once: true });
    }).then(() => {
      this.#wake = undefined;
    });
  }

  async #runChild(): Promise<{ code: number | null; reason: string }> {
    const { name, file, engineFlags, poolThreads, firstOrder, offState, log } = this.#options;
    const path = this.#options.childPath ?? builtFile(file);
    if (path === undefined) {
      this.#take(offState(`the ${name} is not built; run "npm run setup"`));
      return { code: exitCodeOff, reason: "not built" };
    }
    const child = spawn(process.execPath, [...engineFlags, path], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      serialization: "advanced",
      // One malloc arena for all threads.
      env: { ...process.env, MALLOC_ARENA_MAX: "1", UV_THREADPOOL_SIZE: String(poolThreads) },
    });
    this.#child = child;
    let lastLine = "";
    const errors = createInterface({ input: child.stderr ?? Readable.from([]) });
    errors.on("line", (line) => {
      if (line.trim() === "") return;
      const { level, message } = readLogLine(line.slice(0, maxLineLength));
      lastLine = message;
      log[level](`${name}: ${message}`);
    });
    const silent = once(errors, "close");
    child.on("message", (message) => this.#take(message as Report));
    this.send(firstOrder());
    const ended = new Promise<{ code: number | null; reason: string }>((resolve) => {
      child.once("error", (error) => {
        if (child.pid === undefined) resolve({ code: null, reason: error.message });
      });
      // Not "close": that is never emitted after this side has closed the channel.
      child.once("exit", (code, signalName) => {
        void silent.then(() => resolve({ code, reason: signalName ?? `exit code ${code}${lastLine === "" ? "" : `: ${lastLine}`}` }));
      });
    });
    using _stopping = this.#endWhenStopped(child);
    using watchdog = this.#endWhenSilent(child);
    const end = await ended;
    this.#child = undefined;
    return end.reason === "SIGKILL" && watchdog.problem !== null ? { code: null, reason: watchdog.problem } : end;
  }

  /** Kills a hung process. Counts checks instead of time: if this process was blocked, it made as few checks as it received messages. */
  #endWhenSilent(child: ChildProcess): Disposable & { readonly problem: string | null } {
    const checkMs = this.#options.checkMs ?? 5_000;
    let silentChecks = 0;
    let hasState = false;
    let problem: string | null = null;
    child.on("message", (message) => {
      const { kind } = message as Report;
      if (kind === "state") hasState = true;
      if (kind === "state" || kind === "window") silentChecks = 0;
    });
    const timer = setInterval(() => {
      const windowMs = this.#options.windowMs();
      if (hasState && windowMs === null) return;
      const maxChecks = hasState ? Math.ceil((maxMissedWindows * (windowMs ?? 0)) / checkMs) + 2 : maxSilentStart;
      if (++silentChecks <= maxChecks) return;
      problem = `hung: no report for ${Math.round((silentChecks * checkMs) / 1_000)} s`;
      child.kill("SIGKILL");
    }, checkMs);
    return {
      get problem() {
        return problem;
      },
      [Symbol.dispose]: () => clearInterval(timer),
    };
  }

  /** Closes the channel, which makes the process exit, and kills it if it does not. */
  #endWhenStopped(child: ChildProcess): Disposable {
    let timer: NodeJS.Timeout | undefined;
    const stop = (): void => {
      if (child.connected) child.disconnect();
      timer = setTimeout(() => child.kill("SIGKILL"), killAfterMs);
    };
    const { signal } = this.#stop;
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
    return {
      [Symbol.dispose]: () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", stop);
      },
    };
  }

  #take(report: Report): void {
    if (this.#stop.signal.aborted) return;
    if (report.kind === "state") this.#state = report as StateOf<Report>;
    this.#options.onReport(report);
  }
}

/** In the bundle every file is in dist/; from sources (tests) dist/ is two levels up. */
function builtFile(file: string): string | undefined {
  return [`./${file}`, `../../dist/${file}`].map((path) => fileURLToPath(new URL(path, import.meta.url))).find((path) => existsSync(path));
}

/** The process writes JSON lines; other lines come from Node when it crashes. */
function readLogLine(line: string): { level: "debug" | "info" | "warn" | "error"; message: string } {
  const [, level, message] =
    /^\{"at":"[^"]*","level":"(debug|info|warn|error)","scope":"[^"]*","message":("(?:[^"\\]|\\.)*")/.exec(line) ?? [];
  if (level === undefined || message === undefined) return { level: "debug", message: line };
  return { level: level as "debug" | "info" | "warn" | "error", message: JSON.parse(message) as string };
}
