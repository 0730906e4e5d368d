/** Segments that a colony has pulled from its agents: whole files, each exactly once. */

import { existsSync, renameSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Database, Transaction } from "../engine/database.ts";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import { ensureCoverage, noteKept } from "../tables/coverage-ledger.ts";
import { insertGap } from "../tables/gap-ledger.ts";
import type { GapEntry } from "../tables/pull-plan.ts";
import { adoptSegments } from "./adopt-segments.ts";
import { checkSegment } from "./check-segment.ts";
import type { CrashPoints } from "./crash-points.ts";
import { emptySegmentPath, writeEmptySegment } from "./empty-segment.ts";
import { chooseMerge, replaceByMerged } from "./merge-segments.ts";
import { planSegments, type SegmentOffer, type SegmentPull } from "./plan-segments.ts";
import type { ChangingSegments } from "./segment-catalog.ts";
import { SegmentCatalog } from "./segment-catalog.ts";
import {
  DelayedUnlinks,
  damageOf,
  delayedUnlinkShare,
  giveToFolderOwner,
  makeFolder,
  moveAside,
  removeOrphans,
  segmentPath,
  sourceFolder,
} from "./segment-files.ts";
import {
  deleteEntries,
  ensureManifest,
  insertEntries,
  loadHeads,
  replaceEntry,
  type SegmentEntry,
  type StoredHead,
  saveHead,
} from "./segment-manifest.ts";
import { removeExpired } from "./segment-retention.ts";
import type { SegmentRange, SegmentReader, SegmentSource } from "./segment-source.ts";
import { SegmentVerifier } from "./segment-verifier.ts";
import { writeReceived } from "./write-received.ts";
import { maxListedServices } from "./write-segment-file.ts";

export interface ColonySegmentsOptions {
  signals: readonly SegmentSignal[];
  /** Contains the directory `segments`. DuckDB must have read access. */
  directory: string;
  /** Limit on the size of all segments together; the oldest are evicted. */
  maxBytes: number;
  /** How long a file outlives its manifest row, for running queries. Default 60 s. */
  unlinkDelayMs?: number;
  /** False for a segment that must not be merged yet because a reader still expects it. Default: all may be merged. */
  mayMerge?: (entry: SegmentEntry) => boolean;
  crashPoints?: CrashPoints;
}

export interface ColonySegmentsHost {
  database: Database;
  clock: Clock;
  log: Logger;
}

export interface SegmentPullOutcome {
  storedRows: number;
  /** Rows recorded in the gap ledger. */
  lostRows: number;
}

export interface ColonySegments extends SegmentReader, AsyncDisposable {
  /** By signal: number of the last stored segment of this epoch, or 0. */
  checkpoints(agentId: string, epoch: string): ReadonlyMap<string, number>;
  /**
   * Receives a segment's bytes. The file is written, checked against hash and schema, synced and renamed, but invisible until `commit`.
   * Takes ownership of the chunks, which may be empty afterwards. `corrupt`: the bytes differ from the offer; `invalid`: they match it but
   * are not a valid segment.
   */
  receive(agentId: string, epoch: string, offer: SegmentOffer, bytes: AsyncIterable<Uint8Array>): Promise<void>;
  /** Stores manifest rows, checkpoint and gaps of one agent's pull in one transaction. Idempotent. */
  commit(pull: SegmentPull): Promise<SegmentPullOutcome>;
  /** Call when a query failed although its statement was correct: the next `maintain` looks for a damaged file. */
  suspect(): void;
  /** Applies retention and merges small files. The owner calls it about once a minute. */
  maintain(): Promise<void>;
  /** Values of the DuckDB variables that name the files behind a signal's view. */
  variablesFor(signal: SegmentSignal, range?: SegmentRange): Promise<{ files: string[]; isMixed: boolean }>;
  emptyFileOf(signal: SegmentSignal): string;
  /** All segments of a signal, including lost ones. */
  entriesOf(signal: string): SegmentEntry[];
  fileOf(entry: SegmentEntry): string;
  stats(): Record<string, { files: number; rows: number; sizeBytes: number }>;
  close(): Promise<void>;
}

/** Allowed agent ids; the id is part of a directory name. */
const agentPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const epochPattern = /^[0-9A-Za-z-]{1,64}$/;
/** Larger segments are rejected before a byte is written. */
const maxSegmentBytes = 256 * 1024 * 1024;
/** Bytes that `maintain` verifies when damage is suspected. */
const verifyBytes = 1024 * 1024 * 1024;
const maxFilterBytes = 1024 * 1024;
const maxServiceLength = 4_096;

const headKey = (epoch: string, signal: string): string => `${epoch} ${signal}`;

export async function openColonySegments(host: ColonySegmentsHost, options: ColonySegmentsOptions): Promise<ColonySegments> {
  const root = join(options.directory, "segments");
  await ensureManifest(host.database);
  await ensureCoverage(host.database);
  const catalog = await SegmentCatalog.load(host.database, root);
  const segments = new FileColonySegments(host, options, root, catalog, await loadHeads(host.database));
  await segments.recover();
  return segments;
}

class FileColonySegments implements ColonySegments {
  readonly #host: ColonySegmentsHost;
  readonly #options: ColonySegmentsOptions;
  readonly #root: string;
  readonly #catalog: SegmentCatalog;
  readonly #signals: ReadonlyMap<string, SegmentSignal>;
  /** As of the last commit. */
  readonly #heads = new Map<string, StoredHead>();
  readonly #unlinks: DelayedUnlinks;
  readonly #verifier: SegmentVerifier;
  readonly #changing: ChangingSegments;
  #maintaining: Promise<void> | undefined;
  #closed = false;

  constructor(
    host: ColonySegmentsHost,
    options: ColonySegmentsOptions,
    root: string,
    catalog: SegmentCatalog,
    heads: readonly StoredHead[],
  ) {
    this.#host = host;
    this.#options = options;
    this.#root = root;
    this.#catalog = catalog;
    this.#verifier = new SegmentVerifier(catalog);
    this.#signals = new Map(options.signals.map((signal) => [signal.name, signal]));
    this.#unlinks = new DelayedUnlinks(options.unlinkDelayMs ?? 60_000, options.maxBytes * delayedUnlinkShare);
    this.#changing = { database: host.database, catalog, unlinks: this.#unlinks, crashPoints: options.crashPoints, noteKept };
    for (const head of heads) this.#heads.set(headKey(head.epoch, head.signal), head);
  }

  checkpoints(_agentId: string, epoch: string): ReadonlyMap<string, number> {
    return new Map([...this.#signals.keys()].map((signal) => [signal, this.#heads.get(headKey(epoch, signal))?.number ?? 0]));
  }

  async receive(agentId: string, epoch: string, offer: SegmentOffer, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const signal = this.#checkedOffer(agentId, epoch, offer);
    const file = segmentPath(this.#root, { ...offer, agentId, epoch });
    const temporary = `${file}.tmp`;
    makeFolder(dirname(file));
    try {
      await writeReceived(temporary, bytes, offer);
      this.#options.crashPoints?.reached("pull-written");
      await checkSegment(this.#host.database, signal, temporary, offer.rows, offer.schemaVersion);
      renameSync(temporary, file);
      giveToFolderOwner(file);
      this.#options.crashPoints?.reached("pull-renamed");
    } catch (error) {
      rmSync(temporary, { force: true });
      throw error;
    }
  }

  async commit(pull: SegmentPull): Promise<SegmentPullOutcome> {
    const nowUs = this.#nowUs();
    // Renames must be durable before a manifest row refers to them: one sync for the whole pull.
    for (const { signal, offers } of pull.signals) {
      if (offers.some(({ isLost, skipReason }) => !isLost && skipReason === undefined)) await this.#syncFolder(pull, signal);
    }
    const { plan } = await this.#host.database.write(
      async (transaction) => {
        // Planned inside the transaction, so that two calls cannot plan from the same checkpoint.
        const plan = planSegments(pull, {
          headOf: (epoch, signal) => this.#heads.get(headKey(epoch, signal)),
          formerHeads: (agentId, signal) => this.#formerHeads(agentId, signal, pull.epoch),
          hasFormer: (agentId, epoch, offer) =>
            this.#catalog
              .of(offer.signal)
              .some(
                (entry) => entry.sha256 === offer.sha256 && entry.agentId === agentId && entry.epoch !== epoch && entry.rows === offer.rows,
              ),
          storedOf: (epoch, signal) => this.#catalog.of(signal).filter((entry) => entry.epoch === epoch),
          nowUs,
        });
        await this.#save(transaction, plan, nowUs);
        return { plan };
      },
      ({ plan: saved }) => this.#apply(saved),
    );
    this.#options.crashPoints?.reached("pull-committed");
    for (const offer of plan.unneeded) this.#removeUnused(pull, offer);
    for (const entry of plan.replaced) this.#unlinks.add(this.#catalog.fileOf(entry));
    // Evicts at once: a fast sender could fill the disk before the next maintenance.
    if (this.#catalog.storedBytes() > this.#options.maxBytes) await this.#removeExpired();
    return {
      storedRows:
        plan.added.reduce((total, { entry }) => total + entry.rows, 0) - plan.replaced.reduce((total, { rows }) => total + rows, 0),
      lostRows: plan.gaps.reduce((total, { rows }) => total + (rows ?? 0), 0),
    };
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

  async segmentSource(signal: SegmentSignal, range?: SegmentRange): Promise<SegmentSource> {
    return await this.#catalog.source(signal, range, this.emptyFileOf(signal));
  }

  async variablesFor(signal: SegmentSignal, range?: SegmentRange): Promise<{ files: string[]; isMixed: boolean }> {
    const { files, isMixed } = await this.#catalog.choose(signal, range);
    return { files: isMixed || files.length === 0 ? [this.emptyFileOf(signal), ...files] : files, isMixed };
  }

  emptyFileOf(signal: SegmentSignal): string {
    return emptySegmentPath(this.#root, signal);
  }

  entriesOf(signal: string): SegmentEntry[] {
    return [...this.#catalog.of(signal)];
  }

  fileOf(entry: SegmentEntry): string {
    return this.#catalog.fileOf(entry);
  }

  stats(): Record<string, { files: number; rows: number; sizeBytes: number }> {
    return Object.fromEntries([...this.#signals.keys()].map((name) => [name, this.#catalog.sizeOf(name)]));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled([this.#maintaining]);
    this.#unlinks.flush();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Removes files without a manifest row, unless the manifest itself was lost; entries whose file is damaged become gaps. */
  async recover(): Promise<void> {
    makeFolder(this.#root);
    for (const signal of this.#signals.values()) makeFolder(join(this.#root, signal.name));
    // With a complete manifest, an unknown file is left from an interrupted pull.
    if (this.#host.database.opened.how !== "existing") await this.#adopt();
    for (const entry of this.#catalog.all()) {
      const file = this.#catalog.fileOf(entry);
      const reason = entry.rows === 0 ? undefined : damageOf(file, entry.sizeBytes);
      if (reason !== undefined) await this.#lose(entry, file, reason);
    }
    const wanted = new Set(this.#catalog.all().map((entry) => this.#catalog.fileOf(entry)));
    const removed = removeOrphans(this.#root, wanted);
    if (removed.length > 0) this.#host.log.info("removed files without a manifest row", { files: removed.length });
    for (const signal of this.#signals.values()) writeEmptySegment(this.emptyFileOf(signal), signal);
  }

  async #adopt(): Promise<void> {
    const { database, log } = this.#host;
    const { entries, heads } = await adoptSegments(
      { database, root: this.#root, log, nowUs: this.#nowUs() },
      [...this.#signals.values()],
      (epoch, signal) => this.#heads.has(headKey(epoch, signal)),
    );
    this.#catalog.add(entries);
    for (const head of heads) this.#heads.set(headKey(head.epoch, head.signal), head);
  }

  async #lose(entry: SegmentEntry, file: string, reason: string): Promise<void> {
    moveAside(file, this.#host.log, reason);
    const { agentId, epoch, signal, rows } = entry;
    const gap: GapEntry = { agentId, epoch, signal, reason: "colony-damaged", rows, firstSeq: null, lastSeq: null };
    await this.#host.database.write(
      async (transaction) => {
        await deleteEntries(transaction, [entry]);
        await insertGap(transaction, gap, this.#nowUs());
      },
      () => this.#catalog.remove([entry]),
    );
  }

  #checkedOffer(agentId: string, epoch: string, offer: SegmentOffer): SegmentSignal {
    const fail = (why: string): never => {
      throw new CoralError({ code: "invalid", message: `Cannot accept a segment of agent "${agentId.slice(0, 64)}": ${why}` });
    };
    if (!agentPattern.test(agentId) || !epochPattern.test(epoch)) fail("its agent id or epoch is not a valid directory name");
    if (![offer.minTimeUs, offer.maxTimeUs].every(Number.isSafeInteger)) fail("its times are out of range");
    if (!/^[0-9a-f]{64}$/.test(offer.sha256)) fail("its hash is not a SHA-256");
    if ((offer.lookupFilter?.length ?? 0) > maxFilterBytes) fail("its look-up filter is too long");
    if (offer.services?.some((service) => service.length > maxServiceLength) || (offer.services?.length ?? 0) > maxListedServices) {
      fail("it lists too many services, or too long names");
    }
    if (offer.sizeBytes > maxSegmentBytes) fail(`it has ${offer.sizeBytes} bytes, more than ${maxSegmentBytes}`);
    return this.#signals.get(offer.signal) ?? fail(`unknown signal "${offer.signal.slice(0, 64)}"`);
  }

  async #syncFolder(source: SegmentPull, signal: string): Promise<void> {
    const handle = await open(join(this.#root, signal, sourceFolder(source)), "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }

  async #save(transaction: Transaction, plan: ReturnType<typeof planSegments>, nowUs: number): Promise<void> {
    await deleteEntries(
      transaction,
      plan.replaced.filter((entry) => !plan.added.some((one) => one.entry.number === entry.number && one.entry.signal === entry.signal)),
    );
    await insertEntries(
      transaction,
      plan.added.filter(({ replaces }) => !replaces),
    );
    for (const { entry, filter, replaces } of plan.added) if (replaces) await replaceEntry(transaction, entry, filter);
    for (const head of plan.heads) await saveHead(transaction, head, nowUs);
    for (const gap of plan.gaps) await insertGap(transaction, gap, nowUs);
  }

  #apply(plan: ReturnType<typeof planSegments>): void {
    this.#catalog.remove(plan.replaced);
    this.#catalog.addWithFilters(plan.added);
    for (const head of plan.heads) this.#heads.set(headKey(head.epoch, head.signal), head);
  }

  #formerHeads(agentId: string, signal: string, epoch: string): StoredHead[] {
    return [...this.#heads.values()].filter((head) => head.agentId === agentId && head.signal === signal && head.epoch !== epoch);
  }

  /** Removes a received file that is not needed, unless a manifest entry refers to it. */
  #removeUnused({ agentId, epoch }: SegmentPull, offer: SegmentOffer): void {
    const file = segmentPath(this.#root, { ...offer, agentId, epoch });
    const isNamed = this.#catalog.of(offer.signal).some((entry) => entry.epoch === epoch && this.#catalog.fileOf(entry) === file);
    if (!isNamed && existsSync(file)) rmSync(file);
  }

  async #removeExpired(): Promise<void> {
    const retained = [...this.#signals.values()].map((signal) => ({
      entries: this.#catalog.of(signal.name),
      retention: signal.retention.colony,
    }));
    await removeExpired(this.#changing, retained, this.#options.maxBytes, this.#nowUs());
  }

  async #maintain(): Promise<void> {
    await this.#removeExpired();
    for (const { entry, reason } of await this.#verifier.verifySome(verifyBytes)) {
      await this.#lose(entry, this.#catalog.fileOf(entry), reason);
    }
    for (const signal of this.#signals.values()) {
      // Many small files are slow but correct; a merge may need more memory than is available.
      await this.#mergeSmall(signal).catch((error: unknown) => this.#host.log.warn("cannot merge small segments; keeping them", { error }));
    }
  }

  async #mergeSmall(signal: SegmentSignal): Promise<void> {
    const bySource = new Map<string, SegmentEntry[]>();
    const { mayMerge = () => true } = this.#options;
    for (const entry of this.#catalog.of(signal.name)) {
      if (!mayMerge(entry)) continue;
      const source = sourceFolder(entry);
      const entries = bySource.get(source);
      if (entries) entries.push(entry);
      else bySource.set(source, [entry]);
    }
    for (const entries of bySource.values()) {
      const group = chooseMerge(
        entries.toSorted((a, b) => a.number - b.number),
        signal.version,
      );
      if (group.length === 0 || this.#closed) continue;
      await replaceByMerged(this.#changing, signal, group);
    }
  }

  #nowUs(): number {
    return Math.floor(this.#host.clock.wallMs() * 1_000);
  }
}
