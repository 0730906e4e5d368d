/** The write path of one signal at an agent: request bodies into write-ahead files, those into segments; on start, recovers what a former process left. */

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

/** The same for every signal of an agent. */
export interface LaneSettings {
  seal: SealSegment;
  /** Files sealed concurrently; the number of workers behind `seal`. Default 1. */
  sealConcurrency?: number;
  /** Default: 20,000 rows, 16 MiB, 0.65 s, which leaves the rest of a second for sealing the segment. */
  cut?: Partial<CutLimits>;
  /** Limit on the bytes of bodies per signal that wait to become segments; beyond it, bodies are refused as `exhausted`. Default 128 MiB. */
  maxWaitingBytes?: number;
  /** Above this many waiting bytes, an append is delayed until there is room, at most for `maxHoldMs`. Default 20 MiB plus 12 per worker. */
  holdBytes?: number;
  /** Shorter than the response timeout of exporters. Default 5 s. */
  maxHoldMs?: number;
  /** Retry interval on a full disk. Default 2 s. */
  retryMs?: number;
  crashPoints?: CrashPoints;
}

export interface LaneHost {
  epoch: string;
  segmentsRoot: string;
  writeAheadRoot: string;
  /** Shared by all signals. */
  slots: Semaphore;
  /** Enters segments into the manifest; a rejection is tried again. */
  commit: (lane: AgentLane, ready: readonly ReadySegment[]) => Promise<void>;
  /** Rows of a file that cannot be decoded. */
  onGivenUp: (signal: string, rows: number) => void;
  /** Asked for when the disk is full. */
  makeRoom: () => Promise<void>;
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
  /** A colony may have read up to here without confirming it: what it was offered, and all that existed when this process began. */
  offered: number;
  /** Last request of a colony, monotonic. */
  askedAtMs: number;
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
    this.askedAtMs = host.nowMonotonicMs();
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
      onGivenUp: (cut) => host.onGivenUp(name, cut.rows),
      makeRoom: host.makeRoom,
      crashPoints,
      log,
      retryMs: settings.retryMs ?? 2_000,
    });
  }

  /** Takes up what a former process left. */
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

  /** Write-ahead files without a segment, oldest first. Those whose segment is in the manifest are only removed. */
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
