/** What the kernel tells about connections, by way of the traffic process, between the scans that also see some of them. */

import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { ConnectionEvent, ConnectionsReport, ConnectionsState, PeerConnections } from "../traffic/index.ts";

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
  /** Null when the kernel is listened to. */
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
/** Scans for the sake of new peers: a few at once, then one each quarter of a minute. */
const scansAtOnce = 3;
const scanRefillMs = 15_000;
const starting = "the traffic process has not said yet whether it can watch them";

export function createKernelConnections(options: KernelConnectionsOptions): KernelConnections {
  const { isWanted, mark, onNews, onNewPeer, clock, log, timeoutMs = 2_000 } = options;
  let problem: string | null = starting;
  let batch: KernelBatch = { events: [], peers: [] };
  let lastMark = 0;
  let waiting: { mark: number; resolve: (isAnswered: boolean) => void } | undefined;
  let isScanning = false;
  /** From the first scan on that the kernel knew of; before it nobody can tell who has seen what. */
  let isCounting = false;
  let scansLeft = scansAtOnce;
  let refilledMs = clock.monotonicMs();

  const stop = (why: string): void => {
    if (problem === null) log.warn(`Connections are only scanned: ${why}`);
    end(why);
  };

  const end = (why: string): void => {
    problem = why;
    isCounting = false;
    isScanning = false;
    waiting?.resolve(false);
    batch = { events: [], peers: [] };
  };

  const say = async (phase: "begin" | "end", signal?: AbortSignal): Promise<boolean> => {
    const number = ++lastMark;
    const answered = new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), timeoutMs);
      const onAbort = (): void => resolve(false);
      signal?.addEventListener("abort", onAbort, { once: true });
      waiting = {
        mark: number,
        resolve: (isAnswered) => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", onAbort);
          resolve(isAnswered);
        },
      };
    });
    if (!mark(phase, number)) waiting?.resolve(false);
    const isAnswered = await answered;
    waiting = undefined;
    if (!isAnswered && signal?.aborted !== true && problem === null) stop("the traffic process does not answer");
    return isAnswered;
  };

  const mayScan = (): boolean => {
    const nowMs = clock.monotonicMs();
    const refills = Math.floor((nowMs - refilledMs) / scanRefillMs);
    if (refills > 0) {
      scansLeft = Math.min(scansAtOnce, scansLeft + refills);
      refilledMs += refills * scanRefillMs;
    }
    if (scansLeft === 0) return false;
    scansLeft--;
    return true;
  };

  const takeReport = ({ events, peers, mark: answered }: ConnectionsReport): void => {
    if (isCounting) {
      if (batch.events.length < maxEvents) batch.events.push(...events);
      if (batch.peers.length < maxPeers) batch.peers.push(...peers);
      if (events.some(({ kind }) => kind === "opened") && mayScan()) onNewPeer();
      if (!isScanning && (events.length > 0 || peers.length > 0)) onNews();
    }
    if (answered !== null && answered === waiting?.mark) waiting.resolve(true);
  };

  return {
    accept: (report) => {
      if (!isWanted()) return;
      if (report.kind === "connections") return takeReport(report);
      if (report.problem !== null) return stop(report.problem);
      problem = null;
      // Programs that were loaded just now know of no scan.
      isCounting = false;
      isScanning = false;
      onNewPeer();
    },
    lost: stop,
    ended: end,
    explain: (why) => {
      if (problem === starting) problem = why;
    },
    beginScan: async (signal) => {
      if (!isWanted()) {
        isCounting = false;
        return false;
      }
      if (problem !== null || !(await say("begin", signal))) return false;
      isScanning = true;
      isCounting = true;
      return true;
    },
    endScan: async (signal) => {
      if (!isScanning) return false;
      const isAnswered = await say("end", signal);
      isScanning = false;
      return isAnswered;
    },
    take: () => {
      const taken = batch;
      batch = { events: [], peers: [] };
      return taken;
    },
    get isScanning() {
      return isScanning;
    },
    problem: () => problem,
    capability: () => {
      const reason = isWanted() ? (problem === starting ? null : problem) : "the config wants another backend for connections";
      return { name: "connections", available: reason === null, reason: reason ?? "" };
    },
  };
}
