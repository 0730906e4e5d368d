/** Starts the traffic process, takes its reports, and starts it again when it ends unasked. Used by the agent, which goes on whatever happens here. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { type Clock, sleep, systemClock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import { type Backoff, createBackoff } from "../base/retry.ts";
import { AwayTime } from "./core/away-time.ts";
import { smallEngineFlags } from "./core/engine-flags.ts";
import type { CaptureOrder, TrafficOrder, TrafficReport, TrafficSettings, TrafficState } from "./core/messages.ts";

/** How the traffic process says that it has nothing to do here, and why is in its last state: it is not started again. */
export const exitCodeOff = 3;

export interface SuperviseTrafficOptions {
  settings: TrafficSettings;
  /** Processes of Coral that are not observed; the traffic process adds itself. */
  ownPids: readonly number[];
  /** Must not throw. Seconds without observation come as a window that holds this loss only. */
  onReport: (report: TrafficReport) => void;
  /** The process ended unasked; `reason` such as `SIGKILL` or `exit code 1: <last line it wrote>`. It is started again after `restartMs`. */
  onUnexpectedEnd?: (reason: string, restartMs: number) => void;
  log: Logger;
  signal?: AbortSignal;
  clock?: Clock;
  /** For tests: another program than that of the bundle, and faster restarts. */
  childPath?: string;
  backoff?: Backoff;
  /** How often a silent process is looked at. Default 5 s. */
  checkMs?: number;
}

export interface TrafficStatus {
  /** What the process said last; null until it has said something. */
  state: TrafficState | null;
  /** Null while there is none. */
  pid: number | null;
  /** Unexpected ends since the start. */
  restarts: number;
  lastEnd: string | null;
}

export interface TrafficSupervisor extends AsyncDisposable {
  status(): TrafficStatus;
  /** Also given to processes that are started later. */
  changeSettings(settings: TrafficSettings): void;
  /** False when there is no process to capture with. A capture ends with the process. */
  capture(order: CaptureOrder): boolean;
  stopCapture(captureId: string): void;
  /** Tells that a scan of sockets begins or has ended; false when there is no process to tell it to. */
  markScan(phase: "begin" | "end", mark: number): boolean;
}

/** A process that lived this long gets its first, short pause again. */
const settledMs = 60_000;
const killAfterMs = 3_000;
/** Looks at a process that has not yet said what it can see, and at one that has missed windows, before it is taken to hang. */
const maxSilentStart = 24;
const maxMissedWindows = 5;
const maxLineLength = 500;

/** In the bundle every file lies in dist/; from sources (tests) dist/ is two levels up. */
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
  readonly #away: AwayTime;
  readonly #loop: Promise<void>;
  #settings: TrafficSettings;
  #child: ChildProcess | undefined;
  #state: TrafficState | null = null;
  #restarts = 0;
  #lastEnd: string | null = null;
  /** Set while the process has said that it cannot work here. */
  #wake: (() => void) | undefined;

  constructor(options: SuperviseTrafficOptions) {
    this.#options = options;
    this.#settings = options.settings;
    this.#clock = options.clock ?? systemClock;
    this.#backoff = options.backoff ?? createBackoff({ initialMs: 1_000, maxMs: 60_000 });
    this.#away = new AwayTime(this.#clock.monotonicMs());
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
    // What was refused may be possible with other settings.
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
    // A process that is ending has closed its end; its end is handled where it is waited for.
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
        this.#away.none(this.#clock.monotonicMs());
        await this.#untilSettingsChange();
        this.#away.begin(this.#clock.monotonicMs());
        continue;
      }
      if (this.#clock.monotonicMs() - startedMs > settledMs) this.#backoff.reset();
      const restartMs = this.#backoff.nextMs();
      this.#restarts++;
      this.#lastEnd = reason;
      // Until the next one says that its hooks are there, nothing is watched.
      this.#state = null;
      this.#options.log.warn(`the traffic process ended: ${reason}`, { restartMs: Math.round(restartMs) });
      this.#options.onUnexpectedEnd?.(reason, restartMs);
      await sleep(restartMs, signal).catch(() => undefined); // aborted: the loop's condition ends it
      this.#tellAway();
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
      // Threads of the C library share one heap. Two of the pool wait for rings that fill, and two more are enough to load and to detach.
      env: { ...process.env, MALLOC_ARENA_MAX: "1", UV_THREADPOOL_SIZE: "4" },
    });
    this.#child = child;
    let lastLine = "";
    const errors = createInterface({ input: child.stderr ?? Readable.from([]) });
    errors.on("line", (line) => {
      if (line.trim() === "") return;
      const { level, message } = readLogLine(line.slice(0, maxLineLength));
      lastLine = message;
      this.#options.log[level](`the traffic process says: ${message}`);
    });
    const silent = once(errors, "close");
    child.on("message", (message) => this.#takeReport(message as TrafficReport));
    this.#send({ kind: "settings", settings: this.#settings, ownPids: [...this.#options.ownPids] });
    const ended = new Promise<{ code: number | null; reason: string }>((resolve) => {
      child.once("error", (error) => {
        if (child.pid === undefined) resolve({ code: null, reason: error.message });
      });
      // Not "close": that never comes when this side has closed the channel.
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
   * Ends a process that hangs. Counts looks and not time: when it is this process that was held up, there are as few looks as there were
   * messages taken.
   */
  #endWhenSilent(child: ChildProcess): Disposable & { readonly problem: string | null } {
    const checkMs = this.#options.checkMs ?? 5_000;
    let silentLooks = 0;
    let hasState = false;
    let problem: string | null = null;
    child.on("message", (message) => {
      const { kind } = message as TrafficReport;
      if (kind === "state") hasState = true;
      if (kind === "state" || kind === "window") silentLooks = 0;
    });
    const timer = setInterval(() => {
      // Where requests cannot be seen there are no windows.
      if (hasState && this.#state?.hooks === "off") return;
      const maxLooks = hasState ? Math.ceil((maxMissedWindows * this.#settings.windowMs) / checkMs) + 2 : maxSilentStart;
      if (++silentLooks <= maxLooks) return;
      problem = `it hung: no report for ${Math.round((silentLooks * checkMs) / 1_000)} s`;
      child.kill("SIGKILL");
    }, checkMs);
    return {
      get problem() {
        return problem;
      },
      [Symbol.dispose]: () => clearInterval(timer),
    };
  }

  /** Closing the channel asks it to end; what does not listen is killed. */
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
      if (report.hooks === "off") this.#away.none(this.#clock.monotonicMs());
      else this.#tellAway(true);
    }
    if (report.kind === "window") this.#away.seen(this.#clock.monotonicMs());
    this.#options.onReport(report);
  }

  /** A window that holds nothing but the seconds that nobody watched. */
  #tellAway(isBack = false): void {
    const nowMs = this.#clock.monotonicMs();
    const gap = isBack ? this.#away.back(nowMs) : this.#away.still(nowMs);
    // The first start is no loss: nothing was promised before it.
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

  /** Idempotent; resolves when the process is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#loop;
  }
}

/** Its own lines are JSON; what else it writes comes from Node, when it crashes. */
function readLogLine(line: string): { level: "debug" | "info" | "warn" | "error"; message: string } {
  const [, level, message] =
    /^\{"at":"[^"]*","level":"(debug|info|warn|error)","scope":"[^"]*","message":("(?:[^"\\]|\\.)*")/.exec(line) ?? [];
  if (level === undefined || message === undefined) return { level: "debug", message: line };
  return { level: level as "debug" | "info" | "warn" | "error", message: JSON.parse(message) as string };
}
