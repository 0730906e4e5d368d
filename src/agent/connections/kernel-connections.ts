/** What the kernel tells about connections, by way of the traffic process, between the scans that also see some of them. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { ConnectionEvent, ConnectionsReport, ConnectionsState, PeerConnections } from "../../traffic/index.ts";
import { ScanAllowance } from "./scan-allowance.ts";
import { ScanMarks } from "./scan-marks.ts";

/** What has arrived since the last time. */
export interface KernelBatch {
  events: ConnectionEvent[];
  peers: PeerConnections[];
}

/** The side of the traffic process. */
export interface KernelReports {
  accept(report: ConnectionsReport | ConnectionsState): void;
  /** The process is gone; scans do without it until it is back. */
  lost(why: string): void;
  /** The process was ended on purpose: as lost(), but nothing to warn of. */
  ended(why: string): void;
  /** Why nothing is to be expected; says nothing while something is told. */
  explain(why: string): void;
}

export interface KernelConnections extends KernelReports {
  /** To be awaited before sockets are read: true when what the kernel tells and what the scan sees can be told apart. */
  beginScan(signal?: AbortSignal): Promise<boolean>;
  /** After a scan that was begun: true when everything that ended before is in the next batch. */
  endScan(signal?: AbortSignal): Promise<boolean>;
  take(): KernelBatch;
  /** True between the two: what arrives then is for after the scan. */
  readonly isScanning: boolean;
  /** Null when what the kernel tells is counted. */
  problem(): string | null;
  /** For the registration; while programs are being loaded they are taken to work. */
  capability(): { name: string; available: boolean; reason: string };
}

export interface KernelConnectionsOptions {
  /** What the config says: with another backend nothing is marked and nothing is taken. */
  isWanted: () => boolean;
  /** False when there is no process to tell it to. */
  mark: (phase: "begin" | "end", mark: number) => boolean;
  /** Something has arrived that a scan need not wait for. */
  onNews: () => void;
  /** A scan soon would tell more: a new peer, or the kernel has just begun to be listened to. */
  onNewPeer: () => void;
  clock: Clock;
  log: Logger;
  /** How long a mark may take; default 2 s. */
  timeoutMs?: number;
}

/** What waits for the next batch at most. */
const maxEvents = 50_000;
const maxPeers = 50_000;
const beginning = "the kernel is listened to from the next scan on";
const starting = "the traffic process has not said yet whether it can watch them";

export function createKernelConnections(options: KernelConnectionsOptions): KernelConnections {
  return new ReportedConnections(options);
}

class ReportedConnections implements KernelConnections {
  readonly #options: KernelConnectionsOptions;
  readonly #marks: ScanMarks;
  /** Scans for the sake of new peers. */
  readonly #allowance: ScanAllowance;
  #problem: string | null = starting;
  #batch: KernelBatch = { events: [], peers: [] };
  #isScanning = false;
  /** From the first scan on that the kernel knew of; before it nobody can tell who has seen what. */
  #isCounting = false;

  constructor(options: KernelConnectionsOptions) {
    this.#options = options;
    this.#marks = new ScanMarks(options.mark, options.timeoutMs ?? 2_000);
    this.#allowance = new ScanAllowance(options.clock);
  }

  get isScanning(): boolean {
    return this.#isScanning;
  }

  accept(report: ConnectionsReport | ConnectionsState): void {
    if (!this.#options.isWanted()) return;
    if (report.kind === "connections") this.#takeReport(report);
    else if (report.problem !== null) this.lost(report.problem);
    else this.#startAnew();
  }

  lost(why: string): void {
    if (this.#problem === null) this.#options.log.warn(`Connections are only scanned: ${why}`);
    this.ended(why);
  }

  ended(why: string): void {
    this.#problem = why;
    this.#isCounting = false;
    this.#isScanning = false;
    this.#marks.giveUp();
    this.take();
  }

  explain(why: string): void {
    if (this.#problem === starting) this.#problem = why;
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
    const isAnswered = await this.#mark("end", signal);
    this.#isScanning = false;
    return isAnswered;
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
    const reason = this.#options.isWanted() ? problem : "the config wants another backend for connections";
    return { name: "connections", available: reason === null, reason: reason ?? "" };
  }

  async #mark(phase: "begin" | "end", signal: AbortSignal | undefined): Promise<boolean> {
    const isAnswered = await this.#marks.set(phase, signal);
    if (!isAnswered && signal?.aborted !== true && this.#problem === null) this.lost("the traffic process does not answer");
    return isAnswered;
  }

  /** Programs that were loaded just now know of no scan. */
  #startAnew(): void {
    this.#problem = null;
    this.#isCounting = false;
    this.#isScanning = false;
    this.#options.onNewPeer();
  }

  #takeReport({ events, peers, mark }: ConnectionsReport): void {
    if (this.#isCounting) {
      if (this.#batch.events.length < maxEvents) this.#batch.events.push(...events);
      if (this.#batch.peers.length < maxPeers) this.#batch.peers.push(...peers);
      if (events.some(({ kind }) => kind === "opened") && this.#allowance.take()) this.#options.onNewPeer();
      if (!this.#isScanning && (events.length > 0 || peers.length > 0)) this.#options.onNews();
    }
    if (mark !== null) this.#marks.answer(mark);
  }
}
