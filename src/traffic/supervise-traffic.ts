/** Starts the traffic process, receives its reports, and restarts it when it ends unexpectedly. Runs in the agent, which survives any failure of it. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { type Clock, sleep, systemClock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import { type Backoff, createBackoff } from "../base/retry.ts";
import { smallEngineFlags } from "./core/engine-flags.ts";
import type { CaptureOrder, TrafficOrder, TrafficReport, TrafficSettings, TrafficState } from "./core/messages.ts";
import { UnobservedTime } from "./core/unobserved-time.ts";

/** Exit code of a traffic process that this host does not support. It is not restarted; its last state has the reason. */
export const exitCodeOff = 3;

export interface SuperviseTrafficOptions {
  settings: TrafficSettings;
  /** Processes of Coral, which are not observed; the traffic process adds itself. */
  ownPids: readonly number[];
  /** Must not throw. Unobserved seconds come as a window that holds only this loss. */
  onReport: (report: TrafficReport) => void;
  /** The process ended unexpectedly; `reason` is such as `SIGKILL` or `exit code 1: <last line of stderr>`. It is restarted after `restartMs`. */
  onUnexpectedEnd?: (reason: string, restartMs: number) => void;
  log: Logger;
  signal?: AbortSignal;
  clock?: Clock;
  /** For tests: a program other than the bundle's, and faster restarts. */
  childPath?: string;
  backoff?: Backoff;
  /** How often the watchdog checks for reports. Default 5 s. */
  checkMs?: number;
}

export interface TrafficStatus {
  /** The last state report; null until there is one. */
  state: TrafficState | null;
  /** Null while no process runs. */
  pid: number | null;
  /** Unexpected ends since the start. */
  restarts: number;
  lastEnd: string | null;
}

export interface TrafficSupervisor extends AsyncDisposable {
  status(): TrafficStatus;
  /** Applies to the running process and to later ones. */
  changeSettings(settings: TrafficSettings): void;
  /** False when no process runs. A capture ends with its process. */
  capture(order: CaptureOrder): boolean;
  stopCapture(captureId: string): void;
  /** Reports that a socket scan starts or has finished; false when no process runs. */
  markScan(phase: "begin" | "end", mark: number): boolean;
}

/** A process that ran this long resets the backoff. */
const settledMs = 60_000;
const killAfterMs = 3_000;
/** Watchdog checks without a first state, and windows missed in a row, after which a process counts as hung. */
const maxSilentStart = 24;
const maxMissedWindows = 5;
const maxLineLength = 500;

/** In the bundle every file is in dist/; from sources (tests) dist/ is two levels up. */
function builtChild(): string | undefined {
  return ["./traffic-process.js", "../../dist/traffic-process.js"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
}

export function superviseTraffic(options: SuperviseTrafficOptions): TrafficSupervisor {
  return new Supervisor(options);
}

class Supervisor implements TrafficSupervisor {
  readonly #options: SuperviseTrafficOptions;
  readonly #clock: Clock;
  readonly #backoff: Backoff;
  readonly #stop = new AbortController();
  readonly #unobserved: UnobservedTime;
  readonly #loop: Promise<void>;
  #settings: TrafficSettings;
  #child: ChildProcess | undefined;
  #state: TrafficState | null = null;
  #restarts = 0;
  #lastEnd: string | null = null;
  /** Set while this host does not support the process with its current settings. */
  #wake: (() => void) | undefined;

  constructor(options: SuperviseTrafficOptions) {
    this.#options = options;
    this.#settings = options.settings;
    this.#clock = options.clock ?? systemClock;
    this.#backoff = options.backoff ?? createBackoff({ initialMs: 1_000, maxMs: 60_000 });
    this.#unobserved = new UnobservedTime(this.#clock.monotonicMs());
    options.signal?.addEventListener("abort", () => this.#stop.abort(), { once: true, signal: this.#stop.signal });
    if (options.signal?.aborted) this.#stop.abort();
    this.#loop = this.#run();
  }

  status(): TrafficStatus {
    return { state: this.#state, pid: this.#child?.pid ?? null, restarts: this.#restarts, lastEnd: this.#lastEnd };
  }

  changeSettings(settings: TrafficSettings): void {
    this.#settings = settings;
    this.#send({ kind: "settings", settings, ownPids: [...this.#options.ownPids] });
    // Unsupported settings may have become supported ones.
    this.#wake?.();
  }

  capture(order: CaptureOrder): boolean {
    return this.#send({ kind: "capture", order });
  }

  stopCapture(captureId: string): void {
    this.#send({ kind: "stop-capture", captureId });
  }

  markScan(phase: "begin" | "end", mark: number): boolean {
    return this.#send({ kind: "scan", phase, mark });
  }

  #send(order: TrafficOrder): boolean {
    if (this.#child?.connected !== true) return false;
    // Errors are ignored: the exit of the process is handled in #runChild().
    this.#child.send(order, () => undefined);
    return true;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const startedMs = this.#clock.monotonicMs();
      const { code, reason } = await this.#runChild();
      if (signal.aborted) return;
      if (code === exitCodeOff) {
        this.#unobserved.suspend(this.#clock.monotonicMs());
        await this.#untilSettingsChange();
        this.#unobserved.resume(this.#clock.monotonicMs());
        continue;
      }
      if (this.#clock.monotonicMs() - startedMs > settledMs) this.#backoff.reset();
      const restartMs = this.#backoff.nextMs();
      this.#restarts++;
      this.#lastEnd = reason;
      // Nothing is observed until the next process reports that its hooks are attached.
      this.#state = null;
      this.#options.log.warn(`traffic process ended: ${reason}; restarting it`, { restartMs: Math.round(restartMs) });
      this.#options.onUnexpectedEnd?.(reason, restartMs);
      await sleep(restartMs, signal).catch(() => undefined); // aborted: the loop's condition ends it
      this.#reportUnobserved();
    }
  }

  #untilSettingsChange(): Promise<void> {
    const { signal } = this.#stop;
    return new Promise<void>((resolve) => {
      this.#wake = resolve;
      signal.addEventListener("abort", () => resolve(), { once: true });
    }).then(() => {
      this.#wake = undefined;
    });
  }

  async #runChild(): Promise<{ code: number | null; reason: string }> {
    const path = this.#options.childPath ?? builtChild();
    if (path === undefined) {
      this.#takeReport({ kind: "state", hooks: "off", problem: 'the traffic process is not built; run "npm run setup"', tls: [], step: 0 });
      return { code: exitCodeOff, reason: "not built" };
    }
    const child = spawn(process.execPath, [...smallEngineFlags, path], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      serialization: "advanced",
      // One malloc arena for all threads. Two threads of the pool wait for rings to fill; two more suffice to load and to detach.
      env: { ...process.env, MALLOC_ARENA_MAX: "1", UV_THREADPOOL_SIZE: "4" },
    });
    this.#child = child;
    let lastLine = "";
    const errors = createInterface({ input: child.stderr ?? Readable.from([]) });
    errors.on("line", (line) => {
      if (line.trim() === "") return;
      const { level, message } = readLogLine(line.slice(0, maxLineLength));
      lastLine = message;
      this.#options.log[level](`traffic process: ${message}`);
    });
    const silent = once(errors, "close");
    child.on("message", (message) => this.#takeReport(message as TrafficReport));
    this.#send({ kind: "settings", settings: this.#settings, ownPids: [...this.#options.ownPids] });
    const ended = new Promise<{ code: number | null; reason: string }>((resolve) => {
      child.once("error", (error) => {
        if (child.pid === undefined) resolve({ code: null, reason: error.message });
      });
      // Not "close": that is never emitted after this side has closed the channel.
      child.once("exit", (code, signalName) => {
        void silent.then(() => resolve({ code, reason: signalName ?? `exit code ${code}${lastLine === "" ? "" : `: ${lastLine}`}` }));
      });
    });
    const stopChild = this.#endWhenStopped(child);
    const watchdog = this.#endWhenSilent(child);
    const end = await ended;
    watchdog[Symbol.dispose]();
    stopChild[Symbol.dispose]();
    this.#child = undefined;
    return end.reason === "SIGKILL" && watchdog.problem !== null ? { code: null, reason: watchdog.problem } : end;
  }

  /**
   * Kills a process that hangs. Counts checks instead of time: when this process itself was blocked, it made as few checks as it received
   * messages.
   */
  #endWhenSilent(child: ChildProcess): Disposable & { readonly problem: string | null } {
    const checkMs = this.#options.checkMs ?? 5_000;
    let silentChecks = 0;
    let hasState = false;
    let problem: string | null = null;
    child.on("message", (message) => {
      const { kind } = message as TrafficReport;
      if (kind === "state") hasState = true;
      if (kind === "state" || kind === "window") silentChecks = 0;
    });
    const timer = setInterval(() => {
      // A process that observes only connections sends no windows.
      if (hasState && this.#state?.hooks === "off") return;
      const maxChecks = hasState ? Math.ceil((maxMissedWindows * this.#settings.windowMs) / checkMs) + 2 : maxSilentStart;
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

  /** Closes the channel, upon which the process exits, and kills it if it does not. */
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

  #takeReport(report: TrafficReport): void {
    if (this.#stop.signal.aborted) return;
    if (report.kind === "state") {
      this.#state = report;
      if (report.hooks === "off") this.#unobserved.suspend(this.#clock.monotonicMs());
      else this.#reportUnobserved(true);
    }
    if (report.kind === "window") this.#unobserved.observed(this.#clock.monotonicMs());
    this.#options.onReport(report);
  }

  /** Sends a window that holds only the unobserved seconds. */
  #reportUnobserved(isAttached = false): void {
    const nowMs = this.#clock.monotonicMs();
    const gap = isAttached ? this.#unobserved.takeAtAttach(nowMs) : this.#unobserved.takeWhileDown(nowMs);
    // The time before the first start is not a loss.
    if (gap === null || this.#restarts === 0) return;
    const ns = (ms: number): bigint => BigInt(Math.round(ms * 1e6));
    this.#options.onReport({
      kind: "window",
      fromNs: ns(gap.fromMs),
      toNs: ns(nowMs),
      requests: [],
      losses: [{ loss: "away-seconds", count: gap.seconds }],
      names: [],
      peerNames: [],
      cost: { bpfNs: null, bpfRuns: null, cpuNs: 0, rssBytes: 0, mapBytes: 0 },
    });
  }

  /** Idempotent; resolves when the process has exited. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#loop;
  }
}

/** The process writes JSON lines; other lines come from Node when it crashes. */
function readLogLine(line: string): { level: "debug" | "info" | "warn" | "error"; message: string } {
  const [, level, message] =
    /^\{"at":"[^"]*","level":"(debug|info|warn|error)","scope":"[^"]*","message":("(?:[^"\\]|\\.)*")/.exec(line) ?? [];
  if (level === undefined || message === undefined) return { level: "debug", message: line };
  return { level: level as "debug" | "info" | "warn" | "error", message: JSON.parse(message) as string };
}
