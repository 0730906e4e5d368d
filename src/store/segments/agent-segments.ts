/** Segments of one agent: bodies in, files out, what a colony asks for, and what must go. */

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
import { damageOf, LateUnlinks, lateUnlinkShare, moveAside, readSegmentFile, removeOrphans } from "./segment-files.ts";
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
  /** Holds folders `segments` and `wal`; DuckDB must be allowed to read it. */
  directory: string;
  /** What all segments together may take before the oldest go. */
  maxBytes: number;
  /** How long a file outlives its manifest row. Default 60 s. */
  unlinkDelayMs?: number;
}

/** What a colony is offered of one signal. */
export interface SegmentListing {
  signal: string;
  /** Of the newest segment stored; 0 when there never was one. */
  lastNumber: number;
  /** Of all segments ever stored in this epoch. */
  totalRows: number;
  /** Oldest first; includes lost ones, so that their rows are not counted twice. */
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

/** What `maintain` reads when damage is suspected. */
const verifyBytes = 256 * 1024 * 1024;
/** A colony that has not asked for this long no longer reads files that a merge replaced. */
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
  readonly #unlinks: LateUnlinks;
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
    this.#unlinks = new LateUnlinks(options.unlinkDelayMs ?? 60_000, options.maxBytes * lateUnlinkShare);
    this.#changing = { database: host.database, catalog, unlinks: this.#unlinks, crashPoints: options.crashPoints };
    const laneHost: LaneHost = {
      epoch: host.epoch,
      segmentsRoot: this.#segmentsRoot,
      writeAheadRoot: join(options.directory, "wal"),
      slots: new Semaphore(options.sealConcurrency ?? 1),
      commit: (lane, ready) => this.#commit(lane, ready),
      onGivenUp: (signal, rows) => host.losses.add(signal, "undecodable", rows),
      makeRoom: () => this.#makeRoom(),
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
    lane.askedAtMs = this.#host.clock.monotonicMs();
    this.#notePulled(lane, afterNumber);
    // Those of a former epoch were pulled in that one.
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

  /** What a colony asks after, it has. */
  #notePulled(lane: AgentLane, afterNumber: number): void {
    const known = Math.min(afterNumber, lane.head.number);
    if (known <= lane.head.known) return;
    lane.head.known = known;
    try {
      const pulled = Object.fromEntries([...this.#lanes].map(([name, { head }]) => [name, head.known]));
      writePulledMark(this.#segmentsRoot, { epoch: this.#host.epoch, pulled });
    } catch (error) {
      // On a full disk the mark stays behind: it matters only if the database is lost before the next one.
      this.#host.log.debug("cannot note how far segments were pulled", { error });
    }
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
      // Many small files are slow, not wrong; a merge may need more memory than there is.
      await this.#mergeSmall(lane).catch((error: unknown) => this.#host.log.warn("small segments stay as they are", { error }));
    }
  }

  async #removeExpired(): Promise<void> {
    const retained = [...this.#lanes.values()].map(({ signal }) => ({
      entries: this.#catalog.of(signal.name),
      retention: signal.retention.agent,
    }));
    await removeExpired(this.#changing, retained, this.#options.maxBytes, this.#nowUs());
  }

  /** Only what must go anyway: a disk that others fill must not cost the history. */
  async #makeRoom(): Promise<void> {
    await this.#removeExpired();
    this.#unlinks.flush();
  }

  async #mergeSmall(lane: AgentLane): Promise<void> {
    const { clock } = this.#host;
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
      await replaceByMerged(this.#changing, lane.signal, group);
    }
  }

  #nowUs(): number {
    return Math.floor(this.#host.clock.wallMs() * 1_000);
  }

  #lane(name: string): AgentLane {
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
