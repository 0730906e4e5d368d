/** Starts the profile process, receives its windows, and restarts it when it ends unexpectedly. Runs in the agent, which survives any failure of it. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { type Clock, sleep, systemClock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import { createBackoff } from "../base/retry.ts";
import type { ProfileReport, ProfileSettings, ProfileState } from "./core/messages.ts";

/** Exit code of a process that cannot work on this host: it is not restarted. Its last state has the reason. */
export const exitCodeOff = 3;

export interface SuperviseProfilesOptions {
  settings: ProfileSettings;
  /** Must not throw. */
  onReport: (report: ProfileReport) => void;
  log: Logger;
  clock?: Clock;
  /** For tests: a program other than the bundle's, and how often the watchdog looks. */
  childPath?: string;
  checkMs?: number;
}

export interface ProfileStatus {
  /** The last state; null until there is one. */
  state: ProfileState | null;
  /** Null while no process runs. */
  pid: number | null;
  /** Unexpected ends since the start. */
  restarts: number;
  lastEnd: string | null;
}

export interface ProfileSupervisor extends AsyncDisposable {
  status(): ProfileStatus;
}

/**
 * As those of the traffic process: a small heap, one helper thread, no code for functions that are not hot. At the heap limit the process aborts
 * and is restarted. Most objects live until their window ends: with less room for new ones, each collection would copy them again.
 */
const engineFlags = [
  "--optimize-for-size",
  "--min-semi-space-size=4",
  "--max-semi-space-size=4",
  "--max-old-space-size=128",
  "--v8-pool-size=1",
  "--no-sparkplug",
];
const settledMs = 60_000;
const killAfterMs = 3_000;
/** Looks before the first report. */
const maxSilentStart = 24;
/** Windows missed in a row after which the process counts as hung. */
const maxMissedWindows = 5;
const maxLineLength = 500;

/** In the bundle every file lies in dist/; from sources (tests) dist/ is two levels up. */
function builtChild(): string | undefined {
  return ["./profile-process.js", "../../dist/profile-process.js"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
}

export function superviseProfiles(options: SuperviseProfilesOptions): ProfileSupervisor {
  return new Supervisor(options);
}

class Supervisor implements ProfileSupervisor {
  readonly #options: SuperviseProfilesOptions;
  readonly #clock: Clock;
  readonly #backoff = createBackoff({ initialMs: 1_000, maxMs: 60_000 });
  readonly #stop = new AbortController();
  readonly #loop: Promise<void>;
  #child: ChildProcess | undefined;
  #state: ProfileState | null = null;
  #restarts = 0;
  #lastEnd: string | null = null;

  constructor(options: SuperviseProfilesOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#loop = this.#run();
  }

  status(): ProfileStatus {
    return { state: this.#state, pid: this.#child?.pid ?? null, restarts: this.#restarts, lastEnd: this.#lastEnd };
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const startedMs = this.#clock.monotonicMs();
      const { code, reason } = await this.#runChild();
      if (signal.aborted || code === exitCodeOff) return;
      if (this.#clock.monotonicMs() - startedMs > settledMs) this.#backoff.reset();
      const restartMs = this.#backoff.nextMs();
      this.#restarts++;
      this.#lastEnd = reason;
      this.#state = null;
      this.#options.log.warn(`profile process ended: ${reason}; restarting it`, { restartMs: Math.round(restartMs) });
      const endedMs = this.#clock.monotonicMs();
      await sleep(restartMs, signal).catch(() => undefined); // aborted: the loop's condition ends it
      this.#reportAway(this.#clock.monotonicMs() - endedMs);
    }
  }

  #reportAway(awayMs: number): void {
    const count = Math.round(awayMs / 1_000);
    if (count === 0 || this.#stop.signal.aborted) return;
    const losses = [{ loss: "away-seconds" as const, count }];
    this.#options.onReport({
      kind: "window",
      windowMs: awayMs,
      periodUs: 0,
      frames: [],
      stacks: [],
      losses,
      cost: { bpfNs: null, cpuNs: 0, rssBytes: 0 },
    });
  }

  async #runChild(): Promise<{ code: number | null; reason: string }> {
    const path = this.#options.childPath ?? builtChild();
    if (path === undefined) {
      this.#take({ kind: "state", state: "off", problem: 'the profile process is not built; run "npm run setup"', hz: 0 });
      return { code: exitCodeOff, reason: "not built" };
    }
    const child = spawn(process.execPath, [...engineFlags, path], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      serialization: "advanced",
      // One malloc arena for all threads. A thread of the pool waits for the ring to fill; one more suffices to load.
      env: { ...process.env, MALLOC_ARENA_MAX: "1", UV_THREADPOOL_SIZE: "2" },
    });
    this.#child = child;
    let lastLine = "";
    const errors = createInterface({ input: child.stderr ?? Readable.from([]) });
    errors.on("line", (line) => {
      if (line.trim() === "") return;
      lastLine = messageOf(line.slice(0, maxLineLength));
      this.#options.log.warn(`profile process: ${lastLine}`);
    });
    const silent = once(errors, "close");
    child.on("message", (message) => this.#take(message as ProfileReport));
    // Errors are ignored: the exit of the process is handled below.
    child.send({ kind: "settings", settings: this.#options.settings }, () => undefined);
    const ended = new Promise<{ code: number | null; reason: string }>((resolve) => {
      child.once("error", (error) => {
        if (child.pid === undefined) resolve({ code: null, reason: error.message });
      });
      child.once("exit", (code, signalName) => {
        void silent.then(() => resolve({ code, reason: signalName ?? `exit code ${code}${lastLine === "" ? "" : `: ${lastLine}`}` }));
      });
    });
    using _stopping = this.#endWhenStopped(child);
    using _watchdog = this.#endWhenSilent(child);
    const end = await ended;
    this.#child = undefined;
    return end;
  }

  /** Counts looks instead of time: when this process itself was blocked, it made as few looks as it received messages. */
  #endWhenSilent(child: ChildProcess): Disposable {
    const checkMs = this.#options.checkMs ?? 5_000;
    const maxChecks = Math.ceil((maxMissedWindows * this.#options.settings.windowMs) / checkMs) + 2;
    let silentChecks = 0;
    // Loading may take a minute on a busy host.
    let allowed = Math.max(maxChecks, maxSilentStart);
    child.on("message", () => {
      silentChecks = 0;
      allowed = maxChecks;
    });
    const timer = setInterval(() => {
      if (++silentChecks > allowed) child.kill("SIGKILL");
    }, checkMs);
    return { [Symbol.dispose]: () => clearInterval(timer) };
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

  #take(report: ProfileReport): void {
    if (this.#stop.signal.aborted) return;
    if (report.kind === "state") this.#state = report;
    this.#options.onReport(report);
  }

  /** Idempotent; resolves when the process is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#loop;
  }
}

/** The process writes JSON lines; other lines come from Node when it crashes. */
function messageOf(line: string): string {
  const message = /"message":("(?:[^"\\]|\\.)*")/.exec(line)?.[1];
  return message === undefined ? line : (JSON.parse(message) as string);
}
