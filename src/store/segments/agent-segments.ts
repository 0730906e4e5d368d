/** Segments of one agent: bodies in, files out, what a colony asks for, and what must go. */

import { readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { Semaphore } from "../../base/semaphore.ts";
import type { Database } from "../database.ts";
import type { LossCounts } from "../loss-counts.ts";
import type { CrashPoints } from "./crash-points.ts";
import type { SegmentSignal } from "./define-segment-signal.ts";
import { chooseMerge, replaceByMerged } from "./merge-segments.ts";
import { encodeParquet } from "./parquet/encode-parquet.ts";
import { SegmentCatalog } from "./segment-catalog.ts";
import {
  damageOf,
  giveToFolderOwner,
  LateUnlinks,
  makeFolder,
  moveAside,
  removeOrphans,
  segmentPath,
  writeAheadNumber,
  writeAheadPath,
} from "./segment-files.ts";
import { type CutFile, type CutLimits, SegmentIntake } from "./segment-intake.ts";
import {
  deleteEntries,
  ensureManifest,
  insertEntry,
  loadFilters,
  loadHeads,
  markLost,
  type SegmentEntry,
  type StoredHead,
  saveHead,
} from "./segment-manifest.ts";
import { chooseExpired } from "./segment-retention.ts";
import { type ReadySegment, SegmentSealer } from "./segment-sealer.ts";
import type { SealSegment } from "./segment-sealing.ts";
import type { SegmentRange, SegmentReader, SegmentSource } from "./segment-source.ts";
import { SegmentVerifier } from "./segment-verifier.ts";
import { readWriteAhead, type WriteAheadRecord } from "./write-ahead.ts";

export interface AgentSegmentsOptions {
  signals: readonly SegmentSignal[];
  /** Holds folders `segments` and `wal`; DuckDB must be allowed to read it. */
  directory: string;
  /** What all segments together may take before the oldest go. */
  maxBytes: number;
  seal: SealSegment;
  /** Files that are sealed at once; the number of workers behind `seal`. Default 1. */
  sealConcurrency?: number;
  /** Default: 20,000 rows, 16 MiB, 0.65 s: the rest of a second is for making the segment of them. */
  cut?: Partial<CutLimits>;
  /** Bytes of bodies per signal that may wait to become segments; more are refused as `exhausted`. Default 128 MiB. */
  maxWaitingBytes?: number;
  /** While more than these wait, an append takes until there is room, `maxHoldMs` at most. Default 20 MiB and 12 for each worker. */
  holdBytes?: number;
  /** Less than senders wait for an answer. Default 5 s. */
  maxHoldMs?: number;
  /** How long a file outlives its manifest row. Default 60 s. */
  unlinkDelayMs?: number;
  /** Between attempts on a full disk. Default 2 s. */
  retryMs?: number;
  crashPoints?: CrashPoints;
}

/** What a colony is told of one signal. */
export interface SegmentListing {
  signal: string;
  /** Of the newest segment stored; 0 when there never was one. */
  lastNumber: number;
  /** Of all segments ever stored in this epoch. */
  totalRows: number;
  /** Oldest first; a lost one is told too, so that its rows are not counted twice. */
  entries: SegmentEntry[];
  /** There are more than these. */
  more: boolean;
}

export interface SegmentStats {
  files: number;
  rows: number;
  sizeBytes: number;
  /** Bodies that are safe and cannot be queried yet. */
  waitingBytes: number;
}

export interface AgentSegments extends SegmentReader, AsyncDisposable {
  /** Resolves when the body survives the end of this process. Rejects with `exhausted` (too much waits) or `unavailable` (full disk, closed). */
  append(signal: string, record: WriteAheadRecord): Promise<void>;
  /** What was appended so far can be queried when this resolves. */
  flush(): Promise<void>;
  /** What was appended so far survives a power loss when this resolves. */
  sync(): Promise<void>;
  has(signal: string): boolean;
  listAfter(signal: string, afterNumber: number, maxEntries: number): SegmentListing;
  /** Of the given entries, those that have one. */
  lookupFilters(entries: readonly SegmentEntry[]): Promise<ReadonlyMap<SegmentEntry, Uint8Array>>;
  /** A stored segment's bytes from an offset on, in pieces of 1 MiB. `not-found` when it was removed or merged meanwhile: list again. */
  read(signal: string, number: number, offsetBytes: number): AsyncGenerator<Uint8Array, void, undefined>;
  /** Where a stored segment lies; undefined when it was removed or merged meanwhile. It may go at any time. */
  locate(signal: string, number: number): { path: string; sizeBytes: number } | undefined;
  /** A query failed although its statement was right: the next `maintain` looks for a damaged file. */
  suspect(): void;
  /** Retention and merging. The owner calls it about once a minute; too many bytes are noticed at once. */
  maintain(): Promise<void>;
  stats(): Record<string, SegmentStats>;
  /** Stores what waits, unless the disk is full: then it stays in the write-ahead files. */
  close(): Promise<void>;
}

export interface AgentSegmentsHost {
  database: Database;
  epoch: string;
  losses: LossCounts;
  clock: Clock;
  log: Logger;
}

interface Lane {
  signal: SegmentSignal;
  intake: SegmentIntake;
  sealer: SegmentSealer;
  head: StoredHead;
  /** A colony may have read up to here without having said so: what it was offered, and all that was there when this process began. */
  offered: number;
  emptyFile: string;
  /** When a colony last asked, monotonic. */
  askedAtMs: number;
}

const pieceBytes = 1024 * 1024;
/** What `maintain` reads when damage is suspected. */
const verifyBytes = 256 * 1024 * 1024;
/** A colony that has not asked for so long does not read what is merged away. */
const silentColonyMs = 10 * 60_000;
const defaultCut: CutLimits = { rows: 20_000, bytes: 16 * 1024 * 1024, ageMs: 650 };

export async function openAgentSegments(host: AgentSegmentsHost, options: AgentSegmentsOptions): Promise<AgentSegments> {
  const segmentsRoot = join(options.directory, "segments");
  await ensureManifest(host.database);
  const catalog = await SegmentCatalog.load(host.database, segmentsRoot);
  const segments = new FileAgentSegments(host, options, catalog, await loadHeads(host.database));
  await segments.recover();
  return segments;
}

class FileAgentSegments implements AgentSegments {
  readonly #host: AgentSegmentsHost;
  readonly #options: AgentSegmentsOptions;
  readonly #segmentsRoot: string;
  readonly #writeAheadRoot: string;
  readonly #catalog: SegmentCatalog;
  readonly #lanes = new Map<string, Lane>();
  readonly #unlinks: LateUnlinks;
  readonly #verifier: SegmentVerifier;
  #maintaining: Promise<void> | undefined;
  #closed: Promise<void> | undefined;

  constructor(host: AgentSegmentsHost, options: AgentSegmentsOptions, catalog: SegmentCatalog, heads: readonly StoredHead[]) {
    this.#host = host;
    this.#options = options;
    this.#catalog = catalog;
    this.#verifier = new SegmentVerifier(catalog);
    this.#segmentsRoot = join(options.directory, "segments");
    this.#writeAheadRoot = join(options.directory, "wal");
    this.#unlinks = new LateUnlinks(options.unlinkDelayMs ?? 60_000);
    const slots = new Semaphore(options.sealConcurrency ?? 1);
    for (const signal of options.signals) this.#lanes.set(signal.name, this.#openLane(signal, heads, slots));
  }

  async append(signal: string, record: WriteAheadRecord): Promise<void> {
    await this.#lane(signal).intake.append(record);
  }

  async flush(): Promise<void> {
    for (const { intake, sealer } of this.#lanes.values()) {
      intake.cut();
      await sealer.drained();
    }
  }

  async sync(): Promise<void> {
    for (const { intake } of this.#lanes.values()) await intake.sync();
  }

  async segmentSource(signal: SegmentSignal, range?: SegmentRange): Promise<SegmentSource> {
    return await this.#catalog.source(signal, range, this.#lane(signal.name).emptyFile);
  }

  has(signal: string): boolean {
    return this.#lanes.has(signal);
  }

  listAfter(signal: string, afterNumber: number, maxEntries: number): SegmentListing {
    const lane = this.#lane(signal);
    lane.askedAtMs = this.#host.clock.monotonicMs();
    // What a colony asks after, it has.
    lane.head.known = Math.max(lane.head.known, Math.min(afterNumber, lane.head.number));
    const entries = this.#catalog.of(signal).filter(({ number }) => number > afterNumber);
    const listed = entries.slice(0, maxEntries);
    lane.offered = Math.max(lane.offered, listed.at(-1)?.number ?? 0);
    return {
      signal,
      lastNumber: lane.head.number,
      totalRows: lane.head.rows,
      entries: listed,
      more: entries.length > maxEntries,
    };
  }

  lookupFilters(entries: readonly SegmentEntry[]): Promise<ReadonlyMap<SegmentEntry, Uint8Array>> {
    return loadFilters(this.#host.database, entries);
  }

  locate(signal: string, number: number): { path: string; sizeBytes: number } | undefined {
    const entry = this.#catalog.of(signal).find((one) => one.number === number && one.state === "stored");
    return entry && { path: this.#catalog.fileOf(entry), sizeBytes: entry.sizeBytes };
  }

  async *read(signal: string, number: number, offsetBytes: number): AsyncGenerator<Uint8Array, void, undefined> {
    const entry = this.locate(signal, number);
    const gone = (cause?: unknown): CoralError =>
      new CoralError({
        code: "not-found",
        message: `Cannot read segment ${number} of "${signal}": it is not there any more; list again`,
        cause,
      });
    if (entry === undefined) throw gone();
    const handle = await open(entry.path, "r").catch((error: unknown) => {
      throw gone(error);
    });
    try {
      for (let at = offsetBytes; at < entry.sizeBytes; ) {
        const piece = Buffer.allocUnsafe(Math.min(pieceBytes, entry.sizeBytes - at));
        const { bytesRead } = await handle.read(piece, 0, piece.length, at);
        if (bytesRead === 0) throw gone();
        at += bytesRead;
        yield piece.subarray(0, bytesRead);
      }
    } finally {
      await handle.close();
    }
  }

  suspect(): void {
    this.#verifier.suspect();
  }

  maintain(): Promise<void> {
    this.#maintaining ??= this.#maintain().finally(() => {
      this.#maintaining = undefined;
    });
    return this.#maintaining;
  }

  stats(): Record<string, SegmentStats> {
    return Object.fromEntries(
      [...this.#lanes].map(([name, { intake }]) => {
        const stored = this.#catalog.of(name).filter(({ state }) => state === "stored");
        const sum = (part: "rows" | "sizeBytes"): number => stored.reduce((total, entry) => total + entry[part], 0);
        return [name, { files: stored.length, rows: sum("rows"), sizeBytes: sum("sizeBytes"), waitingBytes: intake.waitingBytes }];
      }),
    );
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Puts files in order with the manifest after whatever ended the former process, and takes up what it left. */
  async recover(): Promise<void> {
    const { log } = this.#host;
    await this.#moveDamagedAside();
    const wanted = new Set([
      ...this.#catalog.all().map((entry) => this.#catalog.fileOf(entry)),
      ...[...this.#lanes.values()].map(({ emptyFile }) => emptyFile),
    ]);
    const removed = removeOrphans(this.#segmentsRoot, wanted);
    if (removed.length > 0) log.info("files that no manifest row names were removed", { files: removed.length });
    for (const lane of this.#lanes.values()) {
      writeFileSync(lane.emptyFile, Buffer.concat(encodeParquet(lane.signal, { rows: 0, columns: {} }).parts), { mode: 0o600 });
      giveToFolderOwner(lane.emptyFile);
      for (const cut of this.#leftovers(lane)) {
        lane.intake.adopt(cut);
        lane.sealer.add(cut);
      }
    }
  }

  #openLane(signal: SegmentSignal, heads: readonly StoredHead[], slots: Semaphore): Lane {
    const { host, options } = { host: this.#host, options: this.#options };
    makeFolder(join(this.#segmentsRoot, signal.name));
    makeFolder(join(this.#writeAheadRoot, signal.name));
    const head = heads.find((one) => one.signal === signal.name && one.epoch === host.epoch) ?? {
      agentId: "",
      epoch: host.epoch,
      signal: signal.name,
      number: 0,
      rows: 0,
      known: 0,
    };
    const finalFileOf = (number: number): string =>
      segmentPath(this.#segmentsRoot, { agentId: "", epoch: host.epoch, signal: signal.name, firstNumber: number, number });
    const intake = new SegmentIntake({
      signal: signal.name,
      root: this.#writeAheadRoot,
      nextNumber: Math.max(head.number, ...this.#writeAheadNumbers(signal.name)) + 1,
      limits: { ...defaultCut, ...options.cut },
      maxWaitingBytes: options.maxWaitingBytes ?? 128 * 1024 * 1024,
      holdBytes: options.holdBytes ?? (20 + 12 * (options.sealConcurrency ?? 1)) * 1024 * 1024,
      maxHoldMs: options.maxHoldMs ?? 5_000,
      onCut: (cut) => sealer.add(cut),
      crashPoints: options.crashPoints,
      log: host.log,
    });
    const sealer = new SegmentSealer({
      signal: signal.name,
      seal: options.seal,
      slots,
      temporaryFileOf: (number) => `${finalFileOf(number)}.tmp`,
      finalFileOf,
      commit: (ready) => this.#commit(lane, ready),
      onStored: (cut) => intake.release(cut),
      onGivenUp: (cut) => host.losses.add(signal.name, "undecodable", cut.rows),
      makeRoom: () => this.#makeRoom(),
      crashPoints: options.crashPoints,
      log: host.log,
      retryMs: options.retryMs ?? 2_000,
    });
    const emptyFile = join(this.#segmentsRoot, signal.name, `empty-${signal.version}.parquet`);
    const lane: Lane = { signal, intake, sealer, head, offered: head.number, emptyFile, askedAtMs: host.clock.monotonicMs() };
    return lane;
  }

  #writeAheadNumbers(signal: string): number[] {
    const numbers = readdirSync(join(this.#writeAheadRoot, signal)).map(writeAheadNumber);
    return numbers.filter((number) => number !== undefined).sort((a, b) => a - b);
  }

  /** Write-ahead files without a segment, oldest first. Those whose segment is in the manifest are only removed. */
  #leftovers({ signal, head }: Lane): CutFile[] {
    const cuts: CutFile[] = [];
    for (const number of this.#writeAheadNumbers(signal.name)) {
      const file = writeAheadPath(this.#writeAheadRoot, signal.name, number);
      if (number <= head.number) {
        rmSync(file, { force: true });
        continue;
      }
      const { records } = readWriteAhead(file);
      const rows = records.reduce((total, record) => total + record.rows, 0);
      cuts.push({ number, file, rows, sizeBytes: statSync(file).size, closed: Promise.resolve() });
    }
    return cuts;
  }

  async #moveDamagedAside(): Promise<void> {
    for (const entry of this.#catalog.all()) {
      if (entry.state === "lost" || entry.rows === 0) continue;
      const reason = damageOf(this.#catalog.fileOf(entry), entry.sizeBytes);
      if (reason !== undefined) await this.#lose(entry, reason);
    }
  }

  async #lose(entry: SegmentEntry, reason: string): Promise<void> {
    moveAside(this.#catalog.fileOf(entry), this.#host.log, reason);
    this.#host.losses.add(entry.signal, "segment-damaged", entry.rows);
    await this.#host.database.write((transaction) => markLost(transaction, entry));
    entry.state = "lost";
  }

  async #commit(lane: Lane, ready: readonly ReadySegment[]): Promise<void> {
    const { database, losses } = this.#host;
    const nowUs = this.#nowUs();
    const head = { ...lane.head };
    const added: { entry: SegmentEntry; filter: Uint8Array | undefined }[] = [];
    for (const { cut, sealed } of ready) {
      if (sealed && sealed.rows > 0) {
        const { lookupFilter, lost: _, ...summary } = sealed;
        const names = { agentId: "", epoch: head.epoch, signal: head.signal, firstNumber: cut.number, number: cut.number };
        added.push({ entry: { ...names, rowsBefore: head.rows, ...summary, storedAtUs: nowUs, state: "stored" }, filter: lookupFilter });
        head.rows += sealed.rows;
      }
      head.number = cut.number;
    }
    const lost = ready.flatMap(({ sealed }) => Object.entries(sealed?.lost ?? {}));
    await database.write(
      async (transaction) => {
        for (const { entry, filter } of added) await insertEntry(transaction, entry, filter);
        await saveHead(transaction, head, nowUs);
      },
      () => {
        lane.head = { ...head, known: Math.max(head.known, lane.head.known) };
        this.#catalog.add(added.map(({ entry }) => entry));
        for (const [reason, rows] of lost) losses.add(head.signal, reason, rows);
      },
    );
    if (this.#storedBytes() > this.#options.maxBytes)
      void this.maintain().catch((error: unknown) => this.#host.log.warn("retention failed", { error }));
  }

  async #maintain(): Promise<void> {
    await this.#removeExpired(this.#options.maxBytes);
    for (const { entry, reason } of await this.#verifier.verifySome(verifyBytes)) await this.#lose(entry, reason);
    for (const lane of this.#lanes.values()) {
      // Many small files are slow, not wrong; a merge may need more memory than there is.
      await this.#mergeSmall(lane).catch((error: unknown) => this.#host.log.warn("small segments stay as they are", { error }));
    }
  }

  async #removeExpired(maxBytes: number): Promise<void> {
    const retained = [...this.#lanes.values()].map(({ signal }) => ({
      entries: this.#catalog.of(signal.name),
      retention: signal.retention.agent,
    }));
    const expired = chooseExpired(retained, maxBytes, this.#nowUs());
    if (expired.length === 0) return;
    await this.#host.database.write(
      (transaction) => deleteEntries(transaction, expired),
      () => this.#catalog.remove(expired),
    );
    this.#options.crashPoints?.reached("prune-committed");
    for (const entry of expired) this.#unlinks.add(this.#catalog.fileOf(entry));
  }

  /** Only what must go anyway: a disk that others fill must not cost the history. */
  async #makeRoom(): Promise<void> {
    await this.#removeExpired(this.#options.maxBytes);
    this.#unlinks.flush();
  }

  async #mergeSmall(lane: Lane): Promise<void> {
    const { database, clock } = this.#host;
    for (;;) {
      const own = this.#catalog.of(lane.signal.name).filter(({ epoch }) => epoch === lane.head.epoch);
      // A colony counts each segment once, by its number: one that it may have read must not come again as a part of another.
      const isSilent = clock.monotonicMs() - lane.askedAtMs > silentColonyMs;
      const group = [
        own.filter(({ number }) => number <= lane.head.known),
        isSilent ? own.filter(({ number }) => number > lane.offered) : [],
      ]
        .map((entries) => chooseMerge(entries, lane.signal.version))
        .find((found) => found.length > 0);
      if (group === undefined || this.#closed) return;
      await replaceByMerged(
        { database, catalog: this.#catalog, unlinks: this.#unlinks, crashPoints: this.#options.crashPoints },
        lane.signal,
        group,
      );
    }
  }

  #storedBytes(): number {
    return this.#catalog.all().reduce((total, { sizeBytes, state }) => total + (state === "stored" ? sizeBytes : 0), 0);
  }

  #nowUs(): number {
    return Math.floor(this.#host.clock.wallMs() * 1_000);
  }

  #lane(name: string): Lane {
    const lane = this.#lanes.get(name);
    if (lane === undefined)
      throw new CoralError({ code: "not-found", message: `Cannot find segments of "${name}": there is no such signal` });
    return lane;
  }

  async #close(): Promise<void> {
    for (const { intake, sealer } of this.#lanes.values()) {
      intake.close();
      sealer.endRetries();
      await sealer.drained().catch((error: unknown) => this.#host.log.warn("the store closes before all is stored", { error }));
    }
    await Promise.allSettled([this.#maintaining]);
    this.#unlinks.flush();
  }
}
