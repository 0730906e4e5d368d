/**
 * The write path of one signal at an agent: request bodies go to write-ahead files, and those become segments. On start, recovers what the
 * previous process left.
 */

import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "../../base/log.ts";
import type { Semaphore } from "../../base/semaphore.ts";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import type { CrashPoints } from "./crash-points.ts";
import { emptySegmentPath, writeEmptySegment } from "./empty-segment.ts";
import { type ReadySegment, SealQueue } from "./seal-queue.ts";
import type { SealSegment } from "./seal-segment.ts";
import { makeFolder, segmentPath, writeAheadNumber, writeAheadPath } from "./segment-files.ts";
import { type CutFile, type CutLimits, SegmentIntake } from "./segment-intake.ts";
import type { StoredHead } from "./segment-manifest.ts";
import { readWriteAhead } from "./write-ahead.ts";

/** Settings shared by all signals of an agent. */
export interface LaneSettings {
  seal: SealSegment;
  /** Files sealed concurrently; the number of workers behind `seal`. Default 1. */
  sealConcurrency?: number;
  /** Default: 20,000 rows, 16 MiB or 0.65 s. The rest of a second is left for sealing the segment. */
  cut?: Partial<CutLimits>;
  /** Limit on queued body bytes per signal. Beyond it, bodies are rejected as `exhausted`. Default 128 MiB. */
  maxWaitingBytes?: number;
  /**
   * Above this many queued bytes, appends are delayed until the queue drains, at most for `maxHoldMs`. Default 20 MiB plus 12 MiB per
   * worker.
   */
  holdBytes?: number;
  /** Must be shorter than the response timeout of exporters. Default 5 s. */
  maxHoldMs?: number;
  /** Retry interval while the disk is full. Default 2 s. */
  retryMs?: number;
  crashPoints?: CrashPoints;
}

export interface LaneHost {
  epoch: string;
  segmentsRoot: string;
  writeAheadRoot: string;
  /** Shared by all signals. */
  slots: Semaphore;
  /** Adds segments to the manifest. A rejection is retried. */
  commit: (lane: AgentLane, ready: readonly ReadySegment[]) => Promise<void>;
  /** Called with the rows of a file that cannot be decoded. */
  onDiscarded: (signal: string, rows: number) => void;
  /** Called when the disk is full. */
  freeSpace: () => Promise<void>;
  nowMonotonicMs: () => number;
  log: Logger;
}

const mebibyte = 1024 * 1024;
const defaultCut: CutLimits = { rows: 20_000, bytes: 16 * mebibyte, ageMs: 650 };

export class AgentLane {
  readonly signal: SegmentSignal;
  readonly intake: SegmentIntake;
  readonly sealer: SealQueue;
  readonly emptyFile: string;
  head: StoredHead;
  /** The last segment that a colony may have read without confirming it. After a start, that is every existing segment. */
  offered: number;
  /** Time of the colony's last listing, monotonic. */
  listedAtMs: number;
  readonly #writeAheadRoot: string;

  constructor(signal: SegmentSignal, stored: StoredHead | undefined, host: LaneHost, settings: LaneSettings) {
    const { epoch, segmentsRoot, writeAheadRoot, log } = host;
    const { crashPoints, sealConcurrency = 1 } = settings;
    const name = signal.name;
    makeFolder(join(segmentsRoot, name));
    makeFolder(join(writeAheadRoot, name));
    this.signal = signal;
    this.#writeAheadRoot = writeAheadRoot;
    this.emptyFile = emptySegmentPath(segmentsRoot, signal);
    this.head = stored ?? { agentId: "", epoch, signal: name, number: 0, rows: 0, known: 0 };
    this.offered = this.head.number;
    this.listedAtMs = host.nowMonotonicMs();
    this.intake = new SegmentIntake({
      signal: name,
      root: writeAheadRoot,
      nextNumber: Math.max(this.head.number, ...this.#writeAheadNumbers()) + 1,
      limits: { ...defaultCut, ...settings.cut },
      maxWaitingBytes: settings.maxWaitingBytes ?? 128 * mebibyte,
      holdBytes: settings.holdBytes ?? (20 + 12 * sealConcurrency) * mebibyte,
      maxHoldMs: settings.maxHoldMs ?? 5_000,
      onCut: (cut) => this.sealer.add(cut),
      crashPoints,
      log,
    });
    const finalFileOf = (number: number): string =>
      segmentPath(segmentsRoot, { agentId: "", epoch, signal: name, firstNumber: number, number });
    this.sealer = new SealQueue({
      signal: name,
      seal: settings.seal,
      slots: host.slots,
      temporaryFileOf: (number) => `${finalFileOf(number)}.tmp`,
      finalFileOf,
      commit: (ready) => host.commit(this, ready),
      onStored: (cut) => this.intake.release(cut),
      onDiscarded: (cut) => host.onDiscarded(name, cut.rows),
      freeSpace: host.freeSpace,
      crashPoints,
      log,
      retryMs: settings.retryMs ?? 2_000,
    });
  }

  /** Recovers the files of the previous process. */
  recover(): void {
    writeEmptySegment(this.emptyFile, this.signal);
    for (const cut of this.#leftovers()) {
      this.intake.adopt(cut);
      this.sealer.add(cut);
    }
  }

  #writeAheadNumbers(): number[] {
    const numbers = readdirSync(join(this.#writeAheadRoot, this.signal.name)).map(writeAheadNumber);
    return numbers.filter((number) => number !== undefined).sort((a, b) => a - b);
  }

  /** Write-ahead files without a segment, oldest first. Deletes those whose segment is already in the manifest. */
  #leftovers(): CutFile[] {
    const cuts: CutFile[] = [];
    for (const number of this.#writeAheadNumbers()) {
      const file = writeAheadPath(this.#writeAheadRoot, this.signal.name, number);
      if (number <= this.head.number) {
        rmSync(file, { force: true });
        continue;
      }
      const { records, tornRows } = readWriteAhead(file);
      const rows = records.reduce((total, record) => total + record.rows, 0);
      cuts.push({ number, file, rows, tornRows, sizeBytes: statSync(file).size, closed: Promise.resolve() });
    }
    return cuts;
  }
}
