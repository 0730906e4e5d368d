import { dirname, resolve } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { KeptFact, UnobservedFact } from "../../model/events.ts";
import { storedColumns } from "../columns/column-batch.ts";
import type { Database, Opened, Transaction } from "../engine/database.ts";
import { isUnexplained } from "../engine/duckdb-errors.ts";
import type { Engine } from "../engine/engine.ts";
import type { Row, SqlParameters } from "../engine/sql-values.ts";
import { type ColonySegments, type ColonySegmentsOptions, openColonySegments } from "../segments/colony-segments.ts";
import { deriveSpanEdges, type EdgePace } from "../segments/derived/derive-span-edges.ts";
import { type DerivingStore, deriveSpanRed } from "../segments/derived/derive-span-red.ts";
import { DerivedProgress } from "../segments/derived/derived-progress.ts";
import type { SegmentEntry } from "../segments/segment-manifest.ts";
import type { Signal } from "../signals/define-signal.ts";
import { event } from "../signals/discovery.ts";
import { derivedSignals } from "../signals/signal-list.ts";
import { span } from "../signals/span.ts";
import { spanEdge, spanRed } from "../signals/spans-derived.ts";
import { SqlProcesses } from "../sql/process/sql-processes.ts";
import { type PublishedView, publishViews, viewSchema } from "../sql/published-views.ts";
import { segmentVariables, segmentView, type ViewPreparation, type ViewUse } from "../sql/segment-views.ts";
import { ensureCoverage, insertUnobserved, readUnobserved } from "../tables/coverage-ledger.ts";
import { type Gap, type GapFilter, insertGap, readGaps } from "../tables/gap-ledger.ts";
import { type AgentPull, type PullPlan, planPull } from "../tables/pull-plan.ts";
import type { PruneResult, StoreStats } from "../tables/store-stats.ts";
import { appendPulled } from "./append-pulled.ts";
import { type AgingTable, colonyRowGroupRows, notePruned, pruneByAge, pruneByBytes, readKeptSignals } from "./colony-retention.ts";
import { colonyMigrations } from "./colony-schema.ts";
import { agingTables, type LastIngests, lastIngests, loadProgress, openTables, type SignalTables } from "./colony-tables.ts";
import { pruneLedgers } from "./prune-ledgers.ts";
import { type RollupResult, Rollups } from "./rollups.ts";
import { SourceRegistry, type StagedSources } from "./source-registry.ts";

/** How often rows are removed by age. */
const agingIntervalMs = 10 * 60_000;

export interface ColonyStoreOptions {
  file: string;
  signals: readonly Signal[];
  /** Size limit of the file; the oldest rows are evicted. The newest 30,720 rows of each table always stay. */
  maxBytes: number;
  clock: Clock;
  log: Logger;
  /** Signals that are pulled as segments, beside the file. Absent: none. */
  segments?: ColonySegmentsOptions;
  /** Called after each write: with its failure, when that was the store's. */
  onWrite?: (failure: CoralError | undefined) => void;
}

/** Where the next pull of an agent resumes. */
export interface AgentCheckpoint {
  /** Absent before the first pull. */
  epoch?: string;
  /** By signal: the highest stored sequence. A signal that was never pulled is absent and starts at 0. */
  afterSeq: ReadonlyMap<string, number>;
}

/** Outcome of one AgentPull, in the order given. */
export interface PullOutcome {
  agentId: string;
  storedRows: number;
  /** Rows that this pull recorded in the gap ledger. */
  lostRows: number;
  /** Set when the response was malformed; then nothing of it was stored and its checkpoint did not move. */
  error?: CoralError;
}

/** The colony's store. */
export interface ColonyStore extends AsyncDisposable {
  readonly opened: Opened;
  readonly database: Database;
  /** Present when the options have segments. */
  readonly segments: ColonySegments | undefined;
  /** Runs users' SQL. */
  readonly sqlProcesses: SqlProcesses;
  /** Served from memory. With an epoch, its checkpoint; without, that of the epoch in the agent's last response. */
  checkpoints(agentId: string, epoch?: string): AgentCheckpoint;
  /** Stores rows, checkpoints, gaps and losses of all agents in one transaction. A malformed response fails only its own agent. */
  applyPulls(pulls: readonly AgentPull[]): Promise<PullOutcome[]>;
  /** Number of the last transaction that stored rows; it only increases. Served from memory. */
  lastIngest(): number;
  /** The same for rows of these signals: what is derived from them is up to date while it does not change. Kept in memory. */
  lastIngestOf(...signals: readonly Signal[]): number;
  /** Newest first, at most 1,000. Signal or agent `*` in a gap means all of them. */
  gaps(filter?: GapFilter): Promise<Gap[]>;
  /** Time in which agents observed nothing, newest first, at most 1,000 that end after `sinceMs`. */
  unobserved(sinceMs: number): Promise<UnobservedFact[]>;
  /** Signals that lost rows to retention, and since when they are kept. `edge_totals` stands for the totals of edges. */
  kept(): Promise<KeptFact[]>;
  /** Derives `span_red` and `span_edge` from segments that arrived since the last call. The owner calls it every few seconds. */
  derive(): Promise<void>;
  /** Consumes new raw rows into `_1m` and, every ten minutes, `_10m`. The owner calls it about once a minute. */
  rollup(): Promise<RollupResult>;
  /** Retention by age and size; rolls up first. The owner calls it every few minutes. */
  prune(): Promise<PruneResult>;
  stats(): Promise<StoreStats>;
  publishedViews(): readonly PublishedView[];
  /** For SQL over segment views: statements for the connection that set the files to read. */
  prepareViews(views: readonly ViewUse[]): Promise<ViewPreparation>;
  /** Unqualified names refer to the published views. */
  query(sql: string, parameters?: SqlParameters, signal?: AbortSignal): Promise<Row[]>;
  /** For very many rows: passes each in the same object, which must not be kept. */
  visit(sql: string, parameters: SqlParameters | undefined, visit: (row: Row) => void): Promise<void>;
  write<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export async function openColonyStore(engine: Engine, options: ColonyStoreOptions): Promise<ColonyStore> {
  // Rows and checkpoints are committed together, so rows of a lost log are pulled again: keep the rest of the file.
  const database = await engine.attach("colony", options.file, colonyMigrations, {
    rowGroupRows: colonyRowGroupRows,
    // Rows wait for a checkpoint in two blocks per column. With DuckDB's default of 256 KiB, the roll-ups alone would take 200 MB of
    // memory.
    blockBytes: 65_536,
    keepCheckpoint: true,
    readSchema: viewSchema,
    ...(options.onWrite ? { onWrite: options.onWrite } : {}),
  });
  try {
    return await DuckDbColonyStore.open(database, options, sqlProcessesOf(engine, options));
  } catch (error) {
    await database.close();
    throw error;
  }
}

function sqlProcessesOf(engine: Engine, { file, log }: ColonyStoreOptions): SqlProcesses {
  const { dataDirectories, memoryLimitBytes, threads, tempDirectory } = engine.options;
  const scratchDirectory = tempDirectory ?? dirname(resolve(file));
  return new SqlProcesses({ dataDirectories, memoryLimitBytes, threads, scratchDirectory, maySpill: tempDirectory !== undefined, log });
}

interface Opening {
  tables: Map<string, SignalTables>;
  sources: SourceRegistry;
  views: readonly PublishedView[];
  ingests: LastIngests;
  progress: Map<string, number>;
  segments: ColonySegments | undefined;
  derived: DerivedProgress;
  sqlProcesses: SqlProcesses;
}

class DuckDbColonyStore implements ColonyStore {
  readonly database: Database;
  readonly segments: ColonySegments | undefined;
  readonly sqlProcesses: SqlProcesses;
  readonly #options: ColonyStoreOptions;
  readonly #tables: Map<string, SignalTables>;
  readonly #columns: ReadonlyMap<string, ReturnType<typeof storedColumns>>;
  readonly #sources: SourceRegistry;
  readonly #views: readonly PublishedView[];
  /** Numbers the transactions that store rows. Roll-ups follow this number; clocks play no part. */
  #ingest: number;
  /** By signal, of committed rows. */
  readonly #ingests: Map<string, number>;
  readonly #rollups: Rollups;
  #agedAtMs = Number.NEGATIVE_INFINITY;
  #maintenance: Promise<unknown> = Promise.resolve();
  readonly #derived: DerivedProgress;
  readonly #edgePace: EdgePace = { steppedAtMs: Number.NEGATIVE_INFINITY };
  #deriving: Promise<void> | undefined;
  #isClosed = false;

  private constructor(database: Database, options: ColonyStoreOptions, opening: Opening) {
    this.database = database;
    this.#options = options;
    this.#tables = opening.tables;
    this.#columns = new Map(options.signals.map((signal) => [signal.name, storedColumns(signal)]));
    this.#sources = opening.sources;
    this.#views = opening.views;
    this.#ingest = opening.ingests.last;
    this.#ingests = opening.ingests.bySignal;
    this.#rollups = new Rollups(
      {
        database,
        tables: opening.tables,
        clock: options.clock,
        lastIngest: () => this.lastIngest(),
        lastIngestOf: (signal) => this.lastIngestOf(signal),
      },
      opening.progress,
    );
    this.segments = opening.segments;
    this.sqlProcesses = opening.sqlProcesses;
    this.#derived = opening.derived;
  }

  static async open(database: Database, options: ColonyStoreOptions, sqlProcesses: SqlProcesses): Promise<DuckDbColonyStore> {
    const tables = new Map<string, SignalTables>();
    for (const signal of options.signals) tables.set(signal.name, await openTables(database, signal));
    await ensureCoverage(database);
    const { clock, log } = options;
    const products = productsOf(options);
    const derived = products.length > 0 ? await DerivedProgress.open(database) : new DerivedProgress();
    const mayMerge = (entry: SegmentEntry): boolean =>
      products.every((product) => product.from !== entry.signal || derived.isDone(product.name, entry));
    const segments = options.segments && (await openColonySegments({ database, clock, log }, { mayMerge, ...options.segments }));
    const segmentViews = (options.segments?.signals ?? []).map((signal) => segmentView(signal, segments?.emptyFileOf(signal) ?? ""));
    const views = await database.write((transaction) => publishViews(transaction, database.name, options.signals, segmentViews));
    const sources = new SourceRegistry(await database.query("SELECT * FROM internal.sources ORDER BY last_pull, source"));
    const progress = await loadProgress(database, tables);
    const ingests = await lastIngests(database, tables, progress);
    const store = new DuckDbColonyStore(database, options, { tables, sources, views, ingests, progress, segments, derived, sqlProcesses });
    if (database.opened.how === "recovered") await store.#recordRecovery(database.opened);
    return store;
  }

  get opened(): Opened {
    return this.database.opened;
  }

  checkpoints(agentId: string, epoch?: string): AgentCheckpoint {
    const source = epoch === undefined ? this.#sources.latest(agentId) : this.#sources.find(agentId, epoch);
    const known = epoch ?? source?.epoch;
    const afterSeq = new Map([...(source?.cursors ?? [])].map(([signal, { seq }]) => [signal, seq]));
    return { ...(known !== undefined && { epoch: known }), afterSeq };
  }

  async applyPulls(pulls: readonly AgentPull[]): Promise<PullOutcome[]> {
    const { outcomes } = await this.database.write(
      async (transaction) => {
        // Planned inside the transaction, so that two calls cannot plan from the same checkpoint.
        const staged = this.#sources.stage();
        const plans: PullPlan[] = [];
        const planned = pulls.map((pull) => this.#plan(pull, staged, plans));
        const ingest = staged.changed().length > 0 ? await this.#store(transaction, staged, plans) : 0;
        return { outcomes: planned, staged, ingest, stored: plans.flatMap(({ rows }) => rows.map(({ signal }) => signal)) };
      },
      ({ staged, ingest, stored }) => {
        this.#sources.commit(staged);
        for (const name of stored) this.#ingests.set(name, ingest);
      },
    );
    return outcomes;
  }

  lastIngest(): number {
    return this.#ingest;
  }

  lastIngestOf(...wanted: readonly Signal[]): number {
    return Math.max(0, ...wanted.map(({ name }) => this.#ingests.get(name) ?? 0));
  }

  gaps(filter: GapFilter = {}): Promise<Gap[]> {
    return readGaps(this.database, filter);
  }

  unobserved(sinceMs: number): Promise<UnobservedFact[]> {
    return readUnobserved(this.database, sinceMs);
  }

  kept(): Promise<KeptFact[]> {
    return readKeptSignals(this.database, [...this.#tables.values()]);
  }

  derive(): Promise<void> {
    this.#deriving ??= this.#derive().finally(() => {
      this.#deriving = undefined;
    });
    return this.#deriving;
  }

  rollup(): Promise<RollupResult> {
    return this.#maintain(() => this.#rollups.run(false));
  }

  prune(): Promise<PruneResult> {
    return this.#maintain(() => this.#prune());
  }

  async stats(): Promise<StoreStats> {
    const rows: Record<string, number> = {};
    for (const { signal } of this.#tables.values()) {
      const [row] = await this.database.query(`SELECT count(*) AS rows FROM raw."${signal.name}"`);
      rows[signal.name] = Number(row?.["rows"] ?? 0);
    }
    return { ...(await this.database.size()), rows };
  }

  publishedViews(): readonly PublishedView[] {
    return this.#views;
  }

  async prepareViews(views: readonly ViewUse[]): Promise<ViewPreparation> {
    const { segments } = this;
    return segments ? await segmentVariables(segments, this.#options.segments?.signals ?? [], views) : { before: [], after: [] };
  }

  async query(sql: string, parameters?: SqlParameters, signal?: AbortSignal): Promise<Row[]> {
    try {
      return await this.database.query(sql, parameters, signal);
    } catch (error) {
      if (isUnexplained(error)) this.segments?.suspect();
      throw error;
    }
  }

  visit(sql: string, parameters: SqlParameters | undefined, visit: (row: Row) => void): Promise<void> {
    return this.database.visit(sql, parameters, visit);
  }

  write<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.database.write(work);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.sqlProcesses.close();
    await Promise.allSettled([this.#maintenance, this.#deriving]);
    await this.segments?.close();
    await this.database.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #nowUs(): number {
    return Math.floor(this.#options.clock.wallMs() * 1_000);
  }

  #plan(pull: AgentPull, staged: StagedSources, plans: PullPlan[]): PullOutcome {
    const { agentId, epoch } = pull;
    try {
      const known = staged.find(agentId, epoch);
      const plan = planPull(pull, known ?? staged.fresh(agentId, epoch), known ? undefined : staged.latest(agentId), this.#columns);
      staged.put(plan.source);
      plans.push(plan);
      const storedRows = plan.rows.reduce((total, { batch }) => total + batch.rows, 0);
      const lostRows = plan.gaps.reduce((total, gap) => total + (gap.rows ?? 0), 0);
      return { agentId, storedRows, lostRows };
    } catch (error) {
      const failure = CoralError.from(error);
      this.#options.log.warn("discarding a malformed response of an agent; nothing of it was stored", { agentId, error: failure });
      return { agentId, storedRows: 0, lostRows: 0, error: failure };
    }
  }

  /** The number of the transaction. */
  async #store(transaction: Transaction, staged: StagedSources, plans: readonly PullPlan[]): Promise<number> {
    const nowUs = this.#nowUs();
    // Also if the transaction fails: a number is never reused.
    const ingest = ++this.#ingest;
    await appendPulled(transaction, this.#tables.values(), plans, { ingest, nowUs });
    await staged.save(transaction, nowUs);
    for (const { gaps } of plans) for (const gap of gaps) await insertGap(transaction, gap, nowUs);
    const hasEvents = plans.some(({ rows }) => rows.some(({ signal }) => signal === event.name));
    if (hasEvents) await insertUnobserved(transaction, ingest);
    return ingest;
  }

  async #derive(): Promise<void> {
    const { segments } = this;
    if (segments === undefined) return;
    const store: DerivingStore = {
      database: this.database,
      segments,
      progress: this.#derived,
      write: (entries, work, committed) => this.#writeDerived(entries, work, committed),
      log: this.#options.log,
    };
    const isMade = (name: string): boolean => productsOf(this.#options).some((product) => product.name === name);
    if (isMade(spanRed.name)) while (!this.#isClosed && (await deriveSpanRed(store)));
    const nowMs = (): number => this.#options.clock.monotonicMs();
    if (isMade(spanEdge.name)) while (!this.#isClosed && (await deriveSpanEdges(store, this.#edgePace, nowMs())));
  }

  async #writeDerived<T>(
    entries: readonly SegmentEntry[],
    work: (transaction: Transaction, step: { ingest: number; nowUs: number; sources: readonly number[] }) => Promise<T>,
    committed: (result: T) => void,
  ): Promise<T> {
    const { result } = await this.database.write(
      async (transaction) => {
        const staged = this.#sources.stage();
        const sources = entries.map(({ agentId, epoch }) => staged.numberOf(agentId, epoch));
        const nowUs = this.#nowUs();
        const ingest = ++this.#ingest;
        await staged.save(transaction, nowUs);
        return { result: await work(transaction, { ingest, nowUs, sources }), staged, ingest };
      },
      (done) => {
        this.#sources.commit(done.staged);
        for (const { name } of derivedSignals) this.#ingests.set(name, done.ingest);
        committed(done.result);
      },
    );
    return result;
  }

  /** Roll-ups and retention run one after the other, so that no row is removed before it is rolled up. */
  async #maintain<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#maintenance;
    const run = (async () => {
      await Promise.allSettled([before]);
      return await work();
    })();
    this.#maintenance = run;
    return await run;
  }

  async #prune(): Promise<PruneResult> {
    const tables = [...this.#tables.values()].flatMap(agingTables);
    const pruned = await this.#pruneByAge(tables);
    const beforeDropping = async (): Promise<void> => {
      await this.#rollups.run(true);
    };
    for (const [name, rows] of await pruneByBytes(this.database, tables, this.#options.maxBytes, beforeDropping)) {
      pruned.set(name, (pruned.get(name) ?? 0) + rows);
    }
    if (pruned.size > 0) await notePruned(this.database, tables, pruned, this.#nowUs());
    await this.segments?.maintain();
    return { prunedRows: Object.fromEntries(pruned), usedBytes: (await this.database.size()).usedBytes };
  }

  /** Looks at every table and ledger, so not each time: limits are hours at least. */
  async #pruneByAge(tables: readonly AgingTable[]): Promise<Map<string, number>> {
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs - this.#agedAtMs < agingIntervalMs) return new Map();
    await this.#rollups.run(true);
    const pruned = await pruneByAge(this.database, tables, this.#options.clock.wallMs());
    const forgotten = await pruneLedgers(this.database, {
      nowUs: this.#nowUs(),
      keptSources: this.#sources.latestNumbers(),
      chained: [...this.#tables.keys()].filter((name) => this.#tables.get(name)?.signal.isChained),
    });
    this.#sources.forget(({ source }) => forgotten.has(source));
    this.#agedAtMs = nowMs;
    return pruned;
  }

  async #recordRecovery(opened: Extract<Opened, { how: "recovered" }>): Promise<void> {
    const nowUs = this.#nowUs();
    const message = opened.keptCheckpoint
      ? "The colony's log was damaged: commits since the last checkpoint are pulled again from agents that still have them"
      : "The colony's store was damaged and is empty now: rows are pulled again from agents that still have them";
    await this.database.write(async (transaction) => {
      await transaction.run("INSERT INTO registry.events VALUES (make_timestamp(?), 'store-recovered', NULL, ?, ?)", [
        nowUs,
        message,
        JSON.stringify({ movedTo: opened.movedTo, reason: opened.reason }),
      ]);
      const gap = { agentId: "*", signal: "*", epoch: "", reason: "colony-damaged", rows: null, firstSeq: null, lastSeq: null };
      await insertGap(transaction, gap, nowUs);
    });
  }
}

/** Derived tables that this store has. */
function productsOf({ signals, segments }: ColonyStoreOptions): { name: string; from: string }[] {
  const products = [spanRed, spanEdge].map(({ name }) => ({ name, from: span.name }));
  return products.filter(
    ({ name, from }) => signals.some((signal) => signal.name === name) && segments?.signals.some((signal) => signal.name === from),
  );
}
