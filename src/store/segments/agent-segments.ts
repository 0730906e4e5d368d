/** Segments of one agent: takes bodies, writes files, serves them to colonies, and applies retention. */

import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { Semaphore } from "../../base/semaphore.ts";
import type { Database } from "../engine/database.ts";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import type { LossCounts } from "../tables/loss-counts.ts";
import { adoptOwnSegments } from "./adopted/adopt-own-segments.ts";
import { writePulledMark } from "./adopted/pulled-mark.ts";
import { AgentLane, type LaneHost, type LaneSettings } from "./agent-lane.ts";
import { chooseMerge, replaceByMerged } from "./merge-segments.ts";
import type { ReadySegment } from "./seal-queue.ts";
import { type ChangingSegments, SegmentCatalog } from "./segment-catalog.ts";
import { DelayedUnlinks, damageOf, delayedUnlinkShare, moveAside, readSegmentFile, removeOrphans } from "./segment-files.ts";
import {
  ensureManifest,
  insertEntry,
  loadFilters,
  loadHeads,
  markLost,
  type SegmentEntry,
  type StoredHead,
  saveHead,
} from "./segment-manifest.ts";
import { removeExpired } from "./segment-retention.ts";
import type { SegmentRange, SegmentReader, SegmentSource } from "./segment-source.ts";
import { SegmentVerifier } from "./segment-verifier.ts";
import type { WriteAheadRecord } from "./write-ahead.ts";

export interface AgentSegmentsOptions extends LaneSettings {
  signals: readonly SegmentSignal[];
  /** Contains the directories `segments` and `wal`. DuckDB must have read access. */
  directory: string;
  /** Limit on the size of all segments together; the oldest are evicted. */
  maxBytes: number;
  /** How long a file outlives its manifest row, for running queries. Default 60 s. */
  unlinkDelayMs?: number;
}

/** What an agent offers a colony of one signal. */
export interface SegmentListing {
  signal: string;
  /** Number of the newest stored segment; 0 if there never was one. */
  lastNumber: number;
  /** Rows of all segments ever stored in this epoch. */
  totalRows: number;
  /** Oldest first. Includes lost segments, so that their rows are not counted twice. */
  entries: SegmentEntry[];
  /** True if there are more entries than these. */
  more: boolean;
}

export interface SegmentStats {
  files: number;
  rows: number;
  sizeBytes: number;
  /** Bytes of bodies that are durable but not queryable yet. */
  waitingBytes: number;
}

export interface AgentSegments extends SegmentReader, AsyncDisposable {
  /**
   * Resolves when the body survives a crash of this process. Rejects with `exhausted` (queue full) or `unavailable` (disk full, store
   * closed).
   */
  append(signal: string, record: WriteAheadRecord): Promise<void>;
  /** Resolves when all rows appended so far are queryable. */
  flush(): Promise<void>;
  /** Resolves when all rows appended so far survive a power loss. */
  sync(): Promise<void>;
  has(signal: string): boolean;
  listAfter(signal: string, afterNumber: number, maxEntries: number): SegmentListing;
  /** Look-up filters of the given entries; entries without one are absent. */
  lookupFilters(entries: readonly SegmentEntry[]): Promise<ReadonlyMap<SegmentEntry, Uint8Array>>;
  /** The bytes of a stored segment from an offset on, in pieces of 1 MiB. `not-found` if it was removed or merged meanwhile: list again. */
  read(signal: string, number: number, offsetBytes: number): AsyncGenerator<Uint8Array, void, undefined>;
  /** Path of a stored segment; undefined if it was removed or merged meanwhile. The file may disappear at any time. */
  locate(signal: string, number: number): { path: string; sizeBytes: number } | undefined;
  /** Call when a query failed although its statement was correct: the next `maintain` looks for a damaged file. */
  suspect(): void;
  /** Applies retention and merges small files. The owner calls it about once a minute; exceeding the size limit triggers it at once. */
  maintain(): Promise<void>;
  stats(): Record<string, SegmentStats>;
  /** Seals queued bodies. On a full disk they stay in their write-ahead files. */
  close(): Promise<void>;
}

export interface AgentSegmentsHost {
  database: Database;
  epoch: string;
  losses: LossCounts;
  clock: Clock;
  log: Logger;
}

/** Bytes that `maintain` verifies when damage is suspected. */
const verifyBytes = 256 * 1024 * 1024;
/** A colony that has listed nothing for this long is no longer reading files that a merge replaced. */
const silentColonyMs = 10 * 60_000;
export async function openAgentSegments(host: AgentSegmentsHost, options: AgentSegmentsOptions): Promise<AgentSegments> {
  const segmentsRoot = join(options.directory, "segments");
  await ensureManifest(host.database);
  if (host.database.opened.how !== "existing") {
    const nowUs = Math.floor(host.clock.wallMs() * 1_000);
    await adoptOwnSegments({ ...host, root: segmentsRoot, writeAheadRoot: join(options.directory, "wal"), nowUs }, options.signals);
  }
  const catalog = await SegmentCatalog.load(host.database, segmentsRoot);
  const segments = new FileAgentSegments(host, options, catalog, await loadHeads(host.database));
  await segments.recover();
  return segments;
}

class FileAgentSegments implements AgentSegments {
  readonly #host: AgentSegmentsHost;
  readonly #options: AgentSegmentsOptions;
  readonly #segmentsRoot: string;
  readonly #catalog: SegmentCatalog;
  readonly #lanes = new Map<string, AgentLane>();
  readonly #unlinks: DelayedUnlinks;
  readonly #verifier: SegmentVerifier;
  readonly #changing: ChangingSegments;
  #maintaining: Promise<void> | undefined;
  #closed: Promise<void> | undefined;

  constructor(host: AgentSegmentsHost, options: AgentSegmentsOptions, catalog: SegmentCatalog, heads: readonly StoredHead[]) {
    this.#host = host;
    this.#options = options;
    this.#catalog = catalog;
    this.#verifier = new SegmentVerifier(catalog);
    this.#segmentsRoot = join(options.directory, "segments");
    this.#unlinks = new DelayedUnlinks(options.unlinkDelayMs ?? 60_000, options.maxBytes * delayedUnlinkShare);
    this.#changing = { database: host.database, catalog, unlinks: this.#unlinks, crashPoints: options.crashPoints };
    const laneHost: LaneHost = {
      epoch: host.epoch,
      segmentsRoot: this.#segmentsRoot,
      writeAheadRoot: join(options.directory, "wal"),
      slots: new Semaphore(options.sealConcurrency ?? 1),
      commit: (lane, ready) => this.#commit(lane, ready),
      onDiscarded: (signal, rows) => host.losses.add(signal, "undecodable", rows),
      freeSpace: () => this.#freeSpace(),
      nowMonotonicMs: () => host.clock.monotonicMs(),
      log: host.log,
    };
    for (const signal of options.signals) {
      const stored = heads.find((one) => one.signal === signal.name && one.epoch === host.epoch);
      this.#lanes.set(signal.name, new AgentLane(signal, stored, laneHost, options));
    }
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
    lane.listedAtMs = this.#host.clock.monotonicMs();
    this.#notePulled(lane, afterNumber);
    // Segments of a former epoch were pulled in that epoch.
    const entries = this.#catalog.of(signal).filter(({ epoch, number }) => epoch === lane.head.epoch && number > afterNumber);
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

  read(signal: string, number: number, offsetBytes: number): AsyncGenerator<Uint8Array, void, undefined> {
    return readSegmentFile(this.locate(signal, number), { signal, number, offsetBytes });
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
      [...this.#lanes].map(([name, { intake }]) => [name, { ...this.#catalog.sizeOf(name), waitingBytes: intake.waitingBytes }]),
    );
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** A colony that lists after a number has stored everything up to it. */
  #notePulled(lane: AgentLane, afterNumber: number): void {
    const known = Math.min(afterNumber, lane.head.number);
    if (known <= lane.head.known) return;
    lane.head.known = known;
    try {
      const pulled = Object.fromEntries([...this.#lanes].map(([name, { head }]) => [name, head.known]));
      writePulledMark(this.#segmentsRoot, { epoch: this.#host.epoch, pulled });
    } catch (error) {
      // On a full disk the progress is not saved. That matters only if the database is lost before the next save.
      this.#host.log.debug("cannot save the pull progress; retrying at the next pull", { error });
    }
  }

  /** Reconciles files with the manifest after a crash, and recovers the write-ahead files of the previous process. */
  async recover(): Promise<void> {
    const { log } = this.#host;
    await this.#moveDamagedAside();
    const wanted = new Set([
      ...this.#catalog.all().map((entry) => this.#catalog.fileOf(entry)),
      ...[...this.#lanes.values()].map(({ emptyFile }) => emptyFile),
    ]);
    const removed = removeOrphans(this.#segmentsRoot, wanted);
    if (removed.length > 0) log.info("removed files without a manifest row", { files: removed.length });
    for (const lane of this.#lanes.values()) lane.recover();
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

  async #commit(lane: AgentLane, ready: readonly ReadySegment[]): Promise<void> {
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
    const torn = ready.flatMap(({ cut }): [string, number][] => (cut.tornRows ? [["torn-write-ahead", cut.tornRows]] : []));
    const lost = [...torn, ...ready.flatMap(({ sealed }) => Object.entries(sealed?.lost ?? {}))];
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
    if (this.#catalog.storedBytes() > this.#options.maxBytes)
      void this.maintain().catch((error: unknown) => this.#host.log.warn("retention failed", { error }));
  }

  async #maintain(): Promise<void> {
    await this.#removeExpired();
    for (const { entry, reason } of await this.#verifier.verifySome(verifyBytes)) await this.#lose(entry, reason);
    for (const lane of this.#lanes.values()) {
      // Many small files are slow but correct; a merge may need more memory than is available.
      await this.#mergeSmall(lane).catch((error: unknown) => this.#host.log.warn("cannot merge small segments; keeping them", { error }));
    }
  }

  async #removeExpired(): Promise<void> {
    const retained = [...this.#lanes.values()].map(({ signal }) => ({
      entries: this.#catalog.of(signal.name),
      retention: signal.retention.agent,
    }));
    await removeExpired(this.#changing, retained, this.#options.maxBytes, this.#nowUs());
  }

  /** Removes only what retention removes anyway: a disk filled by others must not cost history. */
  async #freeSpace(): Promise<void> {
    await this.#removeExpired();
    this.#unlinks.flush();
  }

  async #mergeSmall(lane: AgentLane): Promise<void> {
    const { clock } = this.#host;
    for (;;) {
      const own = this.#catalog.of(lane.signal.name).filter(({ epoch }) => epoch === lane.head.epoch);
      // A colony counts each segment once, by number. A segment that it may have read must not come again as part of a merged one.
      const isSilent = clock.monotonicMs() - lane.listedAtMs > silentColonyMs;
      const group = [
        own.filter(({ number }) => number <= lane.head.known),
        isSilent ? own.filter(({ number }) => number > lane.offered) : [],
      ]
        .map((entries) => chooseMerge(entries, lane.signal.version))
        .find((found) => found.length > 0);
      if (group === undefined || this.#closed) return;
      await replaceByMerged(this.#changing, lane.signal, group);
    }
  }

  #nowUs(): number {
    return Math.floor(this.#host.clock.wallMs() * 1_000);
  }

  #lane(name: string): AgentLane {
    const lane = this.#lanes.get(name);
    if (lane === undefined) throw new CoralError({ code: "not-found", message: `Cannot find segments of "${name}": no such signal` });
    return lane;
  }

  async #close(): Promise<void> {
    for (const { intake, sealer } of this.#lanes.values()) {
      intake.close();
      sealer.endRetries();
      await sealer
        .drained()
        .catch((error: unknown) =>
          this.#host.log.warn("closing the store with rows still in write-ahead files; they are stored at the next start", { error }),
        );
    }
    await Promise.allSettled([this.#maintaining]);
    this.#unlinks.flush();
  }
}
