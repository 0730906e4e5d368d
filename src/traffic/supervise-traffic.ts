/** Starts the traffic process, receives its reports, and restarts it when it ends unexpectedly. Runs in the agent, which survives any failure of it. */

import { type Clock, systemClock } from "../base/clock.ts";
import { type ProcessStatus, SupervisedProcess, type SuperviseOptions } from "../base/supervised-process.ts";
import { smallEngineFlags } from "./core/engine-flags.ts";
import type { CaptureOrder, TrafficOrder, TrafficReport, TrafficSettings, TrafficState } from "./core/messages.ts";
import { UnobservedTime } from "./core/unobserved-time.ts";

export interface SuperviseTrafficOptions extends SuperviseOptions {
  settings: TrafficSettings;
  /** Processes of Coral, which are not observed; the traffic process adds itself. */
  ownPids: readonly number[];
  /** Must not throw. Unobserved seconds come as a window that holds only this loss. */
  onReport: (report: TrafficReport) => void;
  /** The process ended unexpectedly; `reason` is such as `SIGKILL` or `exit code 1: <last line of stderr>`. It is restarted after `restartMs`. */
  onUnexpectedEnd?: (reason: string, restartMs: number) => void;
}

export type TrafficStatus = ProcessStatus<TrafficState>;

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

export function superviseTraffic(options: SuperviseTrafficOptions): TrafficSupervisor {
  return new Supervisor(options);
}

class Supervisor implements TrafficSupervisor {
  readonly #options: SuperviseTrafficOptions;
  readonly #clock: Clock;
  readonly #unobserved: UnobservedTime;
  readonly #process: SupervisedProcess<TrafficOrder, TrafficReport>;
  #settings: TrafficSettings;

  constructor(options: SuperviseTrafficOptions) {
    this.#options = options;
    this.#settings = options.settings;
    this.#clock = options.clock ?? systemClock;
    this.#unobserved = new UnobservedTime(this.#clock.monotonicMs());
    const { settings: _, ownPids: __, ...common } = options;
    this.#process = new SupervisedProcess({
      ...common,
      name: "traffic process",
      file: "traffic-process.js",
      engineFlags: smallEngineFlags,
      // Two wait for rings to fill; two more suffice to load and to detach.
      poolThreads: 4,
      firstOrder: () => this.#settingsOrder(),
      offState: (problem) => ({ kind: "state", hooks: "off", problem, tls: [], step: 0 }),
      onReport: (report) => this.#takeReport(report),
      // A process that observes only connections sends no windows.
      windowMs: () => (this.#process.status().state?.hooks === "off" ? null : this.#settings.windowMs),
      onOff: () => this.#unobserved.suspend(this.#clock.monotonicMs()),
      onRetry: () => this.#unobserved.resume(this.#clock.monotonicMs()),
      onRestart: () => this.#reportUnobserved(),
    });
  }

  status(): TrafficStatus {
    return this.#process.status();
  }

  changeSettings(settings: TrafficSettings): void {
    this.#settings = settings;
    this.#process.send(this.#settingsOrder());
    // Unsupported settings may have become supported ones.
    this.#process.retry();
  }

  capture(order: CaptureOrder): boolean {
    return this.#process.send({ kind: "capture", order });
  }

  stopCapture(captureId: string): void {
    this.#process.send({ kind: "stop-capture", captureId });
  }

  markScan(phase: "begin" | "end", mark: number): boolean {
    return this.#process.send({ kind: "scan", phase, mark });
  }

  #settingsOrder(): TrafficOrder {
    return { kind: "settings", settings: this.#settings, ownPids: [...this.#options.ownPids] };
  }

  #takeReport(report: TrafficReport): void {
    const nowMs = this.#clock.monotonicMs();
    if (report.kind === "state") {
      if (report.hooks === "off") this.#unobserved.suspend(nowMs);
      else this.#reportUnobserved(true);
    }
    if (report.kind === "window") this.#unobserved.observed(nowMs);
    this.#options.onReport(report);
  }

  /** Sends a window that holds only the unobserved seconds. */
  #reportUnobserved(isAttached = false): void {
    const nowMs = this.#clock.monotonicMs();
    const gap = isAttached ? this.#unobserved.takeAtAttach(nowMs) : this.#unobserved.takeWhileDown(nowMs);
    // The time before the first start is not a loss.
    if (gap === null || this.#process.status().restarts === 0) return;
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
  [Symbol.asyncDispose](): Promise<void> {
    return this.#process[Symbol.asyncDispose]();
  }
}
