/** The heart of the traffic process: empties the ring, closes windows, measures what it costs and steps down its ladder. Driven by the beat, and by a ring that fills. */

import type { Logger } from "../base/log.ts";
import type { RecordVisitor, RingBuffer } from "../bpf/index.ts";
import type { Beat } from "./core/beat.ts";
import { initialLadder, type LadderState, type MeasuredCost, nextStep } from "./core/ladder.ts";
import type {
  LossKind,
  PeerName,
  RequestGroup,
  TrafficName,
  TrafficReport,
  TrafficSettings,
  TrafficState,
  TrafficWindow,
} from "./core/messages.ts";
import { BpfCostMeter, type CountedPrograms } from "./kernel/bpf-cost.ts";

/** A window in the making. */
export interface WindowDraft {
  requests: RequestGroup[];
  losses: Map<LossKind, number>;
  names: TrafficName[];
  peerNames: PeerName[];
}

/** What makes requests of records and of the kernel's tables. */
export interface TrafficParts {
  onRecord: RecordVisitor;
  /** About once a second: ends what has become quiet, looks for new processes. */
  sweep(nowNs: bigint): void;
  /** Adds what was counted since the last call. */
  collect(draft: WindowDraft, nowNs: bigint): void;
  /** Does what a step of the ladder says. */
  setStep(step: number): void;
  /** For the state: what of TLS can be read. */
  tls(): TrafficState["tls"];
}

export interface RuntimeOptions {
  settings: Pick<TrafficSettings, "windowMs" | "cpuBudget">;
  hooks: TrafficState["hooks"];
  ring: RingBuffer;
  beat: Pick<Beat, "on">;
  programs: CountedPrograms;
  parts: TrafficParts;
  mapBytes: () => number;
  report: (report: TrafficReport) => void;
  /** Called once, when more has waited in the ring than an idle host ever leaves there. */
  onBusy?: () => void;
  /** False while the last report has not left: a window then goes on until it has. */
  isReady: () => boolean;
  log: Logger;
  /** For tests: CLOCK_MONOTONIC in milliseconds, and CPU of this process. */
  nowMs?: () => number;
  cpuMicros?: () => number;
}

const sweepMs = 1_000;
/** One drain, before other work gets its turn. */
const sliceMs = 10;
/** The rest of the ring before a window is closed; what does not fit belongs to the next. */
const closingMs = 100;
/** The part of a window in which the kernel measures its programs. */
const sampledShare = 0.1;
const maxLoggedFailures = 10;
/** Of the ring, at one look. */
const busyShare = 1 / 32;
/** What is below may wait for the next beat: above, every record wakes. The same as in probes/core/ring-wake.h. */
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
  /** Where in the window the kernel measures; another place each time, so that what comes in beats is met. */
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
        // Bytes that anybody may send must not end the process; what they were is lost, and counted.
        this.#failed("a record", error);
      }
    };
  }

  start(): void {
    this.#tellState();
    this.#listening = this.#options.beat.on(() => this.wake());
  }

  /** Now, besides the beats: the ring fills. Goes on, with others in between, until it is no longer full. */
  wake(): void {
    if (this.#isClosed || this.#next !== undefined) return;
    if (!this.turn()) return;
    this.#next = setImmediate(() => {
      this.#next = undefined;
      this.wake();
    });
  }

  /** What can change without loading anew. */
  change(settings: RuntimeOptions["settings"]): void {
    this.#settings = settings;
  }

  /** One turn: at most a slice of the ring, and whatever else is due. True when the ring is still full. */
  turn(): boolean {
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
      this.#guard("a sweep", () => this.#options.parts.sweep(msToNs(nowMs)));
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
    this.#guard("a window", () => parts.collect(draft, toNs));
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
      cost: { bpfNs: bpf.ns, bpfRuns: bpf.runs, cpuNs, rssBytes: process.memoryUsage.rss(), mapBytes: mapBytes() },
    };
    report(window);
    this.#windowFromMs = toMs;
    this.#windowCpuMicros = cpu;
    const sampleAfterMs = Math.random() * this.#settings.windowMs * (1 - 2 * sampledShare);
    this.#sampleFromMs = toMs + sampleAfterMs;
    // The first window is dear in any case: decoders are compiled, and processes looked at for the first time.
    if (this.#isWarm)
      this.#step({ processShare: cpuNs / 1e6 / windowMs, bpfShare: bpf.ns === null ? null : bpf.ns / 1e6 / windowMs, windowMs });
    this.#isWarm = true;
    this.#tellState();
  }

  #step(cost: MeasuredCost): void {
    const before = this.#ladder.step;
    this.#ladder = nextStep(this.#ladder, cost, this.#settings.cpuBudget);
    if (this.#ladder.step !== before) this.#guard("a step", () => this.#options.parts.setStep(this.#ladder.step));
  }

  #tellState(): void {
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
      // The rest of what was seen is still good.
      this.#failed(what, error);
    }
  }

  #failed(what: string, error: unknown): void {
    this.#losses.set("undecoded", (this.#losses.get("undecoded") ?? 0) + 1);
    if (this.#failures++ < maxLoggedFailures)
      this.#options.log.error(`${what} failed`, { error, stack: error instanceof Error ? error.stack : "" });
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

/** The clock of `process.hrtime`, which is the kernel's CLOCK_MONOTONIC, without a BigInt for each look at it. */
function monotonicMs(): () => number {
  const offsetMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();
  return () => performance.now() + offsetMs;
}
