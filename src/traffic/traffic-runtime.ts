/**
 * The main loop of the traffic process: drains the ring, closes windows, measures its own cost and steps along the budget ladder. Driven by the poll
 * timer, and by the ring when it fills.
 */

import type { Logger } from "../base/log.ts";
import type { RecordVisitor, RingBuffer } from "../bpf/index.ts";
import { initialLadder, type LadderState, type MeasuredCost, nextStep } from "./core/budget-ladder.ts";
import type {
  LossKind,
  PeerName,
  RequestGroup,
  TrafficName,
  TrafficReport,
  TrafficSettings,
  TrafficState,
  TrafficWindow,
  UnseenRequests,
} from "./core/messages.ts";
import type { PollTimer } from "./core/poll-timer.ts";
import { BpfCostMeter, type CountedPrograms } from "./kernel/bpf-cost.ts";

/** The contents of a window that is being closed. */
export interface WindowDraft {
  requests: RequestGroup[];
  losses: Map<LossKind, number>;
  names: TrafficName[];
  peerNames: PeerName[];
  unseen?: UnseenRequests[];
}

/** Turns ring records and kernel tables into requests. */
export interface TrafficParts {
  onRecord: RecordVisitor;
  /** Called about once a second: finishes idle responses, looks for new processes. */
  sweep(nowNs: bigint): void;
  /** Adds what was counted since the last call. */
  collect(draft: WindowDraft, nowNs: bigint): void;
  /** Applies a step of the budget ladder. */
  setStep(step: number): void;
  /** Which TLS libraries can be read, for the state report. */
  tls(): TrafficState["tls"];
}

export interface RuntimeOptions {
  settings: Pick<TrafficSettings, "windowMs" | "cpuBudget">;
  hooks: TrafficState["hooks"];
  ring: RingBuffer;
  timer: Pick<PollTimer, "onTick">;
  programs: CountedPrograms;
  parts: TrafficParts;
  mapBytes: () => number;
  report: (report: TrafficReport) => void;
  /** Called once, when the ring first holds more than it does on an idle host. */
  onBusy?: () => void;
  /** False while the last report is still unsent: the window is extended until it is sent. */
  isReady: () => boolean;
  log: Logger;
  /** For tests: CLOCK_MONOTONIC in milliseconds, and CPU of this process. */
  nowMs?: () => number;
  cpuMicros?: () => number;
}

const sweepMs = 1_000;
/** Longest drain before other work runs. */
const sliceMs = 10;
/** Longest drain when a window closes; records left in the ring belong to the next one. */
const closingMs = 100;
/** Share of a window in which the kernel measures BPF programs. */
const sampledShare = 0.1;
const maxLoggedFailures = 10;
/** Fill level of the ring above which the host is not idle. */
const busyShare = 1 / 32;
/** Below this fill level records wait for the next tick; above it, every record wakes this process. Same as in probes/core/ring-wake.h. */
const fullShare = 1 / 8;

export class TrafficRuntime implements Disposable {
  readonly #options: RuntimeOptions;
  readonly #cost: BpfCostMeter;
  readonly #nowMs: () => number;
  readonly #cpuMicros: () => number;
  readonly #losses = new Map<LossKind, number>();
  readonly #visit: RecordVisitor;
  #settings: RuntimeOptions["settings"];
  #listening: Disposable | undefined;
  #next: NodeJS.Immediate | undefined;
  #windowFromMs: number;
  #windowCpuMicros: number;
  #sweptMs: number;
  /** When measurement starts in this window; random, so that periodic load is sampled fairly. */
  #sampleFromMs: number;
  #ladder: LadderState = initialLadder();
  #isWarm = false;
  #lastState = "";
  #failures = 0;
  #isClosed = false;
  #wasBusy = false;

  constructor(options: RuntimeOptions) {
    this.#options = options;
    this.#settings = options.settings;
    this.#cost = new BpfCostMeter(options.programs);
    this.#nowMs = options.nowMs ?? monotonicMs();
    this.#cpuMicros = options.cpuMicros ?? cpuMicros;
    const now = this.#nowMs();
    this.#windowFromMs = now;
    this.#windowCpuMicros = this.#cpuMicros();
    this.#sweptMs = now;
    this.#sampleFromMs = now;
    this.#visit = (view, offset, length, bytes) => {
      try {
        options.parts.onRecord(view, offset, length, bytes);
      } catch (error) {
        // Foreign bytes must not end the process; the record is dropped and counted.
        this.#failed("decoding a record", error);
      }
    };
  }

  start(): void {
    this.#reportState();
    this.#listening = this.#options.timer.onTick(() => this.wake());
  }

  /** Runs now, because the ring is filling. Repeats, yielding in between, until the ring is below its wake-up level. */
  wake(): void {
    if (this.#isClosed || this.#next !== undefined) return;
    if (!this.runSlice()) return;
    this.#next = setImmediate(() => {
      this.#next = undefined;
      this.wake();
    });
  }

  /** Applies settings that need no reload. */
  change(settings: RuntimeOptions["settings"]): void {
    this.#settings = settings;
  }

  /** Drains for at most one slice, then does other due work. Returns true while the ring is above its wake-up level. */
  runSlice(): boolean {
    const { ring } = this.#options;
    const pendingBytes = ring.pendingBytes();
    if (!this.#wasBusy && pendingBytes > ring.sizeBytes * busyShare) {
      this.#wasBusy = true;
      this.#options.onBusy?.();
    }
    if (pendingBytes > 0) ring.drain(this.#visit, { maxMs: sliceMs });
    const nowMs = this.#nowMs();
    if (nowMs - this.#sweptMs >= sweepMs) {
      this.#sweptMs = nowMs;
      this.#guard("sweeping idle connections", () => this.#options.parts.sweep(msToNs(nowMs)));
    }
    this.#sample(nowMs);
    if (nowMs - this.#windowFromMs >= this.#settings.windowMs && this.#options.isReady()) this.#closeWindow();
    return ring.pendingBytes() > ring.sizeBytes * fullShare;
  }

  #sample(nowMs: number): void {
    if (nowMs >= this.#sampleFromMs + this.#settings.windowMs * sampledShare) this.#cost.end(nowMs);
    else if (nowMs >= this.#sampleFromMs) this.#cost.begin(nowMs);
  }

  #closeWindow(): void {
    const { parts, ring, report, mapBytes } = this.#options;
    ring.drain(this.#visit, { maxMs: closingMs });
    const toMs = this.#nowMs();
    const toNs = msToNs(toMs);
    this.#cost.end(toMs);
    const draft: WindowDraft = { requests: [], losses: new Map(this.#losses), names: [], peerNames: [] };
    this.#losses.clear();
    this.#guard("collecting a window", () => parts.collect(draft, toNs));
    const windowMs = toMs - this.#windowFromMs;
    const bpf = this.#cost.take(windowMs);
    const cpu = this.#cpuMicros();
    const cpuNs = (cpu - this.#windowCpuMicros) * 1_000;
    const window: TrafficWindow = {
      kind: "window",
      fromNs: msToNs(this.#windowFromMs),
      toNs,
      requests: draft.requests,
      losses: [...draft.losses].filter(([, count]) => count > 0).map(([loss, count]) => ({ loss, count })),
      names: draft.names,
      peerNames: draft.peerNames,
      unseen: draft.unseen ?? [],
      cost: { bpfNs: bpf.ns, bpfRuns: bpf.runs, cpuNs, rssBytes: process.memoryUsage.rss(), mapBytes: mapBytes() },
    };
    report(window);
    this.#windowFromMs = toMs;
    this.#windowCpuMicros = cpu;
    const sampleAfterMs = Math.random() * this.#settings.windowMs * (1 - 2 * sampledShare);
    this.#sampleFromMs = toMs + sampleAfterMs;
    // The first window is always expensive: V8 compiles the decoders, and all processes are scanned.
    if (this.#isWarm)
      this.#step({ processShare: cpuNs / 1e6 / windowMs, bpfShare: bpf.ns === null ? null : bpf.ns / 1e6 / windowMs, windowMs });
    this.#isWarm = true;
    this.#reportState();
  }

  #step(cost: MeasuredCost): void {
    const before = this.#ladder.step;
    this.#ladder = nextStep(this.#ladder, cost, this.#settings.cpuBudget);
    if (this.#ladder.step !== before) this.#guard("changing the budget step", () => this.#options.parts.setStep(this.#ladder.step));
  }

  #reportState(): void {
    const { hooks, parts, report } = this.#options;
    const state: TrafficState = { kind: "state", hooks, problem: null, tls: parts.tls(), step: this.#ladder.step };
    const text = JSON.stringify(state);
    if (text === this.#lastState) return;
    this.#lastState = text;
    report(state);
  }

  #guard(what: string, work: () => void): void {
    try {
      work();
    } catch (error) {
      // Everything else in the window is still valid.
      this.#failed(what, error);
    }
  }

  #failed(what: string, error: unknown): void {
    this.#losses.set("undecoded", (this.#losses.get("undecoded") ?? 0) + 1);
    if (this.#failures++ < maxLoggedFailures)
      this.#options.log.error(`${what} failed; counting it as undecoded`, { error, stack: error instanceof Error ? error.stack : "" });
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#cost.end(this.#nowMs());
    this.#listening?.[Symbol.dispose]();
    clearImmediate(this.#next);
  }
}

function cpuMicros(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

function msToNs(ms: number): bigint {
  return BigInt(Math.round(ms * 1e6));
}

/** The clock of `process.hrtime`, which is the kernel's CLOCK_MONOTONIC, without a BigInt per call. */
function monotonicMs(): () => number {
  const offsetMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();
  return () => performance.now() + offsetMs;
}
