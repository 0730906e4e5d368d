/** Connection events from kernel hooks, received from the traffic process and synchronised with scans. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { ConnectionEvent, ConnectionsReport, ConnectionsState, PeerConnections } from "../../traffic/index.ts";
import { ScanBarrier } from "./scan-barrier.ts";
import { ScanLimiter } from "./scan-limiter.ts";

/** Events since the previous batch. */
export interface KernelBatch {
  events: ConnectionEvent[];
  peers: PeerConnections[];
}

/** The part that the traffic process reports to. */
export interface KernelReports {
  accept(report: ConnectionsReport | ConnectionsState): void;
  /** The process exited unexpectedly, or its hooks failed; scans work alone until it is back. */
  lost(reason: string): void;
  /** Like lost(), for a process that was stopped on purpose: no warning. */
  stopped(reason: string): void;
  /** Sets the reason why there are no events yet; ignored once the process has reported its state. */
  explain(reason: string): void;
}

/** Between `beginScan` and `endScan`, events and scan may show the same connection; marks in the event stream separate them. */
export interface KernelConnections extends KernelReports {
  /** Await before sockets are read. True when kernel events before and after this point can be separated. */
  beginScan(signal?: AbortSignal): Promise<boolean>;
  /** Await after the scan. True when the next batch has every event from before this point. */
  endScan(signal?: AbortSignal): Promise<boolean>;
  take(): KernelBatch;
  /** True between beginScan() and endScan(): events of that time belong to the batch after the scan. */
  readonly isScanning: boolean;
  /** Null while kernel events are counted. */
  problem(): string | null;
  /** For the registration; reported as available while BPF programs are loading. */
  capability(): { name: string; available: boolean; reason: string };
}

export interface KernelConnectionsOptions {
  /** False when the config selects another backend: events are ignored. */
  isWanted: () => boolean;
  /** Sends a mark to the traffic process; false when there is none. */
  mark: (phase: "begin" | "end", mark: number) => boolean;
  /** Events arrived outside a scan and can be stored now. */
  onEvents: () => void;
  /** A scan is wanted soon: there is a new peer, or the hooks have just started. */
  onScanWanted: () => void;
  clock: Clock;
  log: Logger;
  /** Until a mark must be confirmed; default 2 s. */
  timeoutMs?: number;
}

/** Limits of one batch. */
const maxEvents = 50_000;
/** Aggregated peers of one batch. */
const maxPeers = 50_000;
const beginning = "kernel events are counted from the next scan on";
const starting = "the traffic process is starting";

/** Counts nothing until the first marked scan. */
export function createKernelConnections(options: KernelConnectionsOptions): KernelConnections {
  return new ReportedConnections(options);
}

/** Buffers reports between scans; marks in the stream decide which batch an event belongs to. */
class ReportedConnections implements KernelConnections {
  readonly #options: KernelConnectionsOptions;
  readonly #barrier: ScanBarrier;
  /** Limits scans on behalf of new peers. */
  readonly #scanLimiter: ScanLimiter;
  #problem: string | null = starting;
  #batch: KernelBatch = { events: [], peers: [] };
  #isScanning = false;
  /** Set by the first marked scan; before it, events and scans would count connections twice. */
  #isCounting = false;

  constructor(options: KernelConnectionsOptions) {
    this.#options = options;
    this.#barrier = new ScanBarrier(options.mark, options.timeoutMs ?? 2_000);
    this.#scanLimiter = new ScanLimiter(options.clock);
  }

  get isScanning(): boolean {
    return this.#isScanning;
  }

  accept(report: ConnectionsReport | ConnectionsState): void {
    if (!this.#options.isWanted()) return;
    if (report.kind === "connections") this.#acceptEvents(report);
    else if (report.problem !== null) this.lost(report.problem);
    else this.#restarted();
  }

  lost(reason: string): void {
    if (this.#problem === null) this.#options.log.warn(`no connection events from the kernel: ${reason}; relying on scans`);
    this.stopped(reason);
  }

  stopped(reason: string): void {
    this.#problem = reason;
    this.#isCounting = false;
    this.#isScanning = false;
    this.#barrier.cancel();
    this.take();
  }

  explain(reason: string): void {
    if (this.#problem === starting) this.#problem = reason;
  }

  async beginScan(signal?: AbortSignal): Promise<boolean> {
    if (!this.#options.isWanted()) {
      this.#isCounting = false;
      return false;
    }
    if (this.#problem !== null || !(await this.#mark("begin", signal))) return false;
    this.#isScanning = true;
    this.#isCounting = true;
    return true;
  }

  async endScan(signal?: AbortSignal): Promise<boolean> {
    if (!this.#isScanning) return false;
    const isReached = await this.#mark("end", signal);
    this.#isScanning = false;
    return isReached;
  }

  take(): KernelBatch {
    const taken = this.#batch;
    this.#batch = { events: [], peers: [] };
    return taken;
  }

  problem(): string | null {
    return this.#problem ?? (this.#isCounting ? null : beginning);
  }

  capability(): { name: string; available: boolean; reason: string } {
    const problem = this.#problem === starting ? null : this.#problem;
    const reason = this.#options.isWanted() ? problem : "the config selects another backend for connections";
    return { name: "connections", available: reason === null, reason: reason ?? "" };
  }

  async #mark(phase: "begin" | "end", signal: AbortSignal | undefined): Promise<boolean> {
    const isReached = await this.#barrier.reach(phase, signal);
    if (!isReached && signal?.aborted !== true && this.#problem === null) this.lost("the traffic process does not respond");
    return isReached;
  }

  /** Freshly loaded BPF programs have seen no scan. */
  #restarted(): void {
    this.#problem = null;
    this.#isCounting = false;
    this.#isScanning = false;
    this.#options.onScanWanted();
  }

  #acceptEvents({ events, peers, mark }: ConnectionsReport): void {
    if (this.#isCounting) {
      if (this.#batch.events.length < maxEvents) this.#batch.events.push(...events);
      if (this.#batch.peers.length < maxPeers) this.#batch.peers.push(...peers);
      if (events.some(({ kind }) => kind === "opened") && this.#scanLimiter.take()) this.#options.onScanWanted();
      if (!this.#isScanning && (events.length > 0 || peers.length > 0)) this.#options.onEvents();
    }
    if (mark !== null) this.#barrier.acknowledge(mark);
  }
}
