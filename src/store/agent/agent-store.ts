import { randomUUID } from "node:crypto";
import { type Clock, sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { batchFromRows, type ColumnBatch } from "../columns/column-batch.ts";
import type { Database, Opened, Transaction } from "../engine/database.ts";
import { isUnexplained } from "../engine/duckdb-errors.ts";
import type { Engine } from "../engine/engine.ts";
import type { Migration } from "../engine/migrations.ts";
import type { Row, SqlParameters } from "../engine/sql-values.ts";
import { type AgentSegments, type AgentSegmentsOptions, openAgentSegments } from "../segments/agent-segments.ts";
import type { Columns, RowOf, Signal } from "../signals/define-signal.ts";
import { maxAttempts, planByteRetention } from "../tables/byte-retention.ts";
import { type LossCount, LossCounts } from "../tables/loss-counts.ts";
import type { ReadLimits, SeqRange, SignalHead, SignalSlice } from "../tables/signal-slice.ts";
import type { PruneResult, StoreStats } from "../tables/store-stats.ts";
import {
  agentRowGroupRows,
  appendBatches,
  loadHeads,
  moveHead,
  openSignal,
  readRows,
  retainedTable,
  type SignalState,
  saveHead,
} from "./agent-signal.ts";

export type { SignalSlice } from "../tables/signal-slice.ts";

export interface AgentStoreOptions {
  file: string;
  /** Database name in the engine; must be unique. Default `agent`. */
  name?: string;
  signals: readonly Signal[];
  /** Size limit of the file; the oldest rows are evicted. The newest 8,192 rows of each signal always stay. */
  maxBytes: number;
  clock: Clock;
  log: Logger;
  /** Limit on rows queued for a commit; more are rejected and counted as lost. Default 20,000. */
  maxQueuedRows?: number;
  /** Why an existing file must not be used; it is moved aside and replaced by an empty one. */
  discard?: string;
  /** Signals stored as segments, beside the file. Absent: none. */
  segments?: AgentSegmentsOptions;
  /** Called before the oldest rows of a chained signal are evicted; if it throws or is absent, they stay. */
  beforePrune?: (signal: string, range: SeqRange) => Promise<void>;
}

/** The last hours of one agent's signals. */
export interface AgentStore extends AsyncDisposable {
  /** UUID created with the file; sequences are comparable within one epoch only. */
  readonly epoch: string;
  readonly opened: Opened;
  /**
   * Resolves after the rows are durable. Rejects with `exhausted` (queue full) or `unavailable` (disk full); both count the rows as lost.
   */
  append<C extends Columns>(signal: Signal<C>, rows: readonly RowOf<C>[]): Promise<SeqRange>;
  /** By signal name. Served from memory. */
  heads(): ReadonlyMap<string, SignalHead>;
  /** Rows after a sequence, oldest first. An unknown signal is `not-found`. */
  readAfter(signal: string, afterSeq: number, limits: ReadLimits): Promise<SignalSlice>;
  losses(): LossCount[];
  /** Present when the options have segments. */
  readonly segments: AgentSegments | undefined;
  /** Retention by age and size, oldest sequences first. The owner calls it about once a minute. */
  prune(): Promise<PruneResult>;
  stats(): Promise<StoreStats>;
  /** Tables are named after their signals. A row's `at` is column `time`: `SELECT * FROM host ORDER BY seq DESC LIMIT 1`. */
  query(sql: string, parameters?: SqlParameters, signal?: AbortSignal): Promise<Row[]>;
  /** Commits pending rows, then closes. */
  close(): Promise<void>;
}

const migrations: readonly Migration[] = [
  {
    version: 1,
    sql: `
      CREATE SCHEMA internal;
      CREATE TABLE internal.meta (key VARCHAR NOT NULL, value VARCHAR NOT NULL);
      CREATE TABLE internal.heads (signal VARCHAR NOT NULL, next_seq UBIGINT NOT NULL);
      CREATE TABLE internal.losses (signal VARCHAR NOT NULL, reason VARCHAR NOT NULL, rows UBIGINT NOT NULL);
    `,
  },
  // No longer written with each commit: an older build that reads it as the next sequence would assign numbers twice.
  { version: 2, sql: "ALTER TABLE internal.heads RENAME next_seq TO least_next_seq" },
];

export async function openAgentStore(engine: Engine, options: AgentStoreOptions): Promise<AgentStore> {
  // An agent's tables are small. With DuckDB's defaults the file would be mostly padding, and a day of host rows would never be freed.
  const database = await engine.attach(options.name ?? "agent", options.file, migrations, {
    blockBytes: 16_384,
    rowGroupRows: agentRowGroupRows,
    ...(options.discard === undefined ? {} : { discard: options.discard }),
  });
  try {
    return await DuckDbAgentStore.open(database, options);
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** How often retention by age runs; rows are kept for hours. */
const agingIntervalMs = 5 * 60_000;
/** Each pruning of a chain adds an entry to it, so prune rarely: rows may become this much older than the limit. */
const chainSlackMs = 86_400_000;

/** How long queued rows wait for memory that something else holds. */
const memoryWaitMs = 30_000;
const memoryRetryMs = 200;

interface Waiting {
  state: SignalState;
  batch: ColumnBatch;
  resolve: (range: SeqRange) => void;
  reject: (error: unknown) => void;
}

class DuckDbAgentStore implements AgentStore {
  readonly epoch: string;
  readonly opened: Opened;
  readonly #database: Database;
  readonly #options: AgentStoreOptions;
  readonly #states: Map<string, SignalState>;
  readonly #losses = new LossCounts();
  segments: AgentSegments | undefined;
  #queue: Waiting[] = [];
  #queuedRows = 0;
  #draining: Promise<void> | undefined;
  #agedAtMs = Number.NEGATIVE_INFINITY;
  #pruning: Promise<PruneResult> | undefined;
  #closed: Promise<void> | undefined;

  private constructor(database: Database, options: AgentStoreOptions, epoch: string, states: Map<string, SignalState>) {
    this.#database = database;
    this.#options = options;
    this.#states = states;
    this.epoch = epoch;
    this.opened = database.opened;
  }

  static async open(database: Database, options: AgentStoreOptions): Promise<DuckDbAgentStore> {
    const epoch = await loadEpoch(database);
    const states = new Map<string, SignalState>();
    const heads = await loadHeads(database);
    for (const signal of options.signals) states.set(signal.name, await openSignal(database, signal, heads.get(signal.name)));
    const store = new DuckDbAgentStore(database, options, epoch, states);
    store.#losses.load(await database.query("SELECT signal, reason, rows FROM internal.losses"));
    if (options.segments) {
      const { clock, log } = options;
      store.segments = await openAgentSegments({ database, epoch, losses: store.#losses, clock, log }, options.segments);
    }
    return store;
  }

  async append<C extends Columns>(signal: Signal<C>, rows: readonly RowOf<C>[]): Promise<SeqRange> {
    if (this.#closed) throw new CoralError({ code: "unavailable", message: `Cannot append to "${signal.name}": the store is closed` });
    const state = this.#state(signal.name);
    if (rows.length === 0) return { firstSeq: state.head.nextSeq, lastSeq: state.head.nextSeq - 1 };
    const batch = batchFromRows(signal, rows, state.columns);
    const bound = this.#options.maxQueuedRows ?? 20_000;
    if (this.#queuedRows + rows.length > bound) {
      this.#losses.add(signal.name, "queue-full", rows.length);
      throw new CoralError({
        code: "exhausted",
        message: `Cannot append to "${signal.name}": ${this.#queuedRows} of ${bound} rows are already queued`,
      });
    }
    this.#queuedRows += rows.length;
    return await new Promise<SeqRange>((resolve, reject) => {
      this.#queue.push({ state, batch, resolve, reject });
      this.#draining ??= this.#drain();
    });
  }

  heads(): ReadonlyMap<string, SignalHead> {
    return new Map([...this.#states].map(([name, { head }]) => [name, { ...head }]));
  }

  async readAfter(signal: string, afterSeq: number, limits: ReadLimits): Promise<SignalSlice> {
    const state = this.#state(signal);
    const { oldestSeq, nextSeq } = state.head;
    const firstSeq = Math.max(afterSeq + 1, oldestSeq);
    const fitting = Math.max(1, Math.floor(limits.maxBytes / state.rowBytes));
    const lastSeq = Math.min(nextSeq - 1, firstSeq + Math.min(fitting, Math.max(1, limits.maxRows)) - 1);
    const batch = firstSeq <= lastSeq ? await readRows(this.#database, state, { firstSeq, lastSeq }, limits.maxBytes) : undefined;
    // Rows deleted from a chain from outside must not block later ones; chain verification reports them.
    if (state.signal.isChained && firstSeq <= lastSeq && batch?.firstSeq !== firstSeq)
      return { signal, nextSeq, oldestSeq: batch?.firstSeq ?? lastSeq + 1, ...(batch && { batch }) };
    return { signal, ...state.head, ...(batch && { batch }) };
  }

  losses(): LossCount[] {
    return this.#losses.list();
  }

  prune(): Promise<PruneResult> {
    this.#pruning ??= this.#prune().finally(() => {
      this.#pruning = undefined;
    });
    return this.#pruning;
  }

  async #prune(): Promise<PruneResult> {
    const prunedRows: Record<string, number> = {};
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs - this.#agedAtMs >= agingIntervalMs) {
      this.#agedAtMs = nowMs;
      for (const state of this.#states.values()) await this.#drop(state, await this.#lastAgedSeq(state), prunedRows);
    }
    const usedBytes = await this.#pruneBytes(prunedRows);
    await this.segments?.maintain();
    return { prunedRows, usedBytes };
  }

  async stats(): Promise<StoreStats> {
    const rows = Object.fromEntries([...this.#states].map(([name, { head }]) => [name, head.nextSeq - head.oldestSeq]));
    return { ...(await this.#database.size()), rows };
  }

  async query(sql: string, parameters?: SqlParameters, signal?: AbortSignal): Promise<Row[]> {
    try {
      return await this.#database.query(sql, parameters, signal);
    } catch (error) {
      if (isUnexplained(error)) this.segments?.suspect();
      throw error;
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #state(name: string): SignalState {
    const state = this.#states.get(name);
    if (state === undefined)
      throw new CoralError({ code: "not-found", message: `Cannot find signal "${name}": no such signal at this agent` });
    return state;
  }

  /** Group commit: appends gather while a transaction is being written. Never rejects. */
  async #drain(): Promise<void> {
    // Waits one microtask, so that the appends of one sample share a commit.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const group = this.#queue;
      this.#queue = [];
      const outcome = await this.#commitInTime(group).catch((error: unknown) => CoralError.from(error));
      for (const { batch } of group) this.#queuedRows -= batch.rows;
      if (outcome instanceof CoralError) this.#refuse(group, outcome);
      else for (const [index, waiting] of group.entries()) waiting.resolve(outcome[index] as SeqRange);
    }
    // In the same tick as the last check of the queue, so that no append is missed.
    this.#draining = undefined;
  }

  /**
   * A merge or a query may hold the shared memory until it ends. Rows wait for that instead of being lost; the queue grows up to its limit.
   */
  async #commitInTime(group: readonly Waiting[]): Promise<SeqRange[]> {
    const deadlineMs = this.#options.clock.monotonicMs() + memoryWaitMs;
    for (;;) {
      try {
        return await this.#commit(group);
      } catch (error) {
        const isOver = this.#closed !== undefined || this.#options.clock.monotonicMs() >= deadlineMs;
        if (isOver || CoralError.from(error).details["failure"] !== "out-of-memory") throw error;
        await sleep(memoryRetryMs);
      }
    }
  }

  #refuse(group: readonly Waiting[], failure: CoralError): void {
    const reason = failure.details["failure"] === "no-space" ? "disk-full" : "store-error";
    for (const { state, batch, reject } of group) {
      this.#losses.add(state.signal.name, reason, batch.rows);
      reject(failure);
    }
  }

  async #commit(group: readonly Waiting[]): Promise<SeqRange[]> {
    const nextSeqs = new Map<SignalState, number>();
    const ranges = group.map(({ state, batch }) => {
      const firstSeq = nextSeqs.get(state) ?? state.head.nextSeq;
      nextSeqs.set(state, firstSeq + batch.rows);
      return { firstSeq, lastSeq: firstSeq + batch.rows - 1 };
    });
    const losses = this.#losses.unsaved();
    const batchesOf = (state: SignalState): ColumnBatch[] => group.filter((waiting) => waiting.state === state).map(({ batch }) => batch);
    const work = async (transaction: Transaction): Promise<void> => {
      for (const [state, nextSeq] of nextSeqs) {
        appendBatches(transaction, state, batchesOf(state));
        if (state.signal.isChained) await saveHead(transaction, state.signal, nextSeq);
      }
      if (losses) await saveLosses(transaction, losses.counts);
    };
    await this.#database.write(work, () => {
      losses?.saved();
      for (const [state, nextSeq] of nextSeqs) moveHead(state, nextSeq, batchesOf(state).at(-1));
    });
    return ranges;
  }

  /**
   * The last sequence of the leading rows that are all expired. Going by sequence keeps a young row whose wall clock was behind. A row from
   * a clock that was ahead holds back the rows after it until its time has passed or the size limit evicts it.
   */
  async #lastAgedSeq({ signal, head }: SignalState): Promise<number> {
    const cutoffUs = (this.#options.clock.wallMs() - signal.retention.agent.maxAgeMs) * 1_000;
    // Before the query: rows that are committed while it runs are young, and it does not see them.
    const { nextSeq } = head;
    if (signal.isChained) {
      const [oldest] = await this.query(`SELECT "time" FROM "${signal.name}" ORDER BY seq LIMIT 1`);
      if (Number(oldest?.["time"] ?? cutoffUs) > cutoffUs - chainSlackMs * 1_000) return 0;
    }
    const [row] = await this.query(`SELECT min(seq) AS seq FROM "${signal.name}" WHERE "time" >= make_timestamp(?)`, [
      Math.floor(cutoffUs),
    ]);
    const youngest = row?.["seq"];
    return (typeof youngest === "number" ? youngest : nextSeq) - 1;
  }

  async #drop(state: SignalState, lastSeq: number, prunedRows: Record<string, number>): Promise<void> {
    const { signal, head } = state;
    const end = Math.min(lastSeq, head.nextSeq - 1);
    if (end < head.oldestSeq) return;
    if (signal.isChained) {
      const { beforePrune } = this.#options;
      if (!beforePrune) return;
      await beforePrune(signal.name, { firstSeq: head.oldestSeq, lastSeq: end });
    }
    await this.#database.write(async (transaction) => {
      await transaction.run(`DELETE FROM "${signal.name}" WHERE seq <= ?`, [end]);
      await saveHead(transaction, signal, head.nextSeq);
    });
    prunedRows[signal.name] = (prunedRows[signal.name] ?? 0) + end + 1 - head.oldestSeq;
    head.oldestSeq = end + 1;
  }

  async #pruneBytes(prunedRows: Record<string, number>): Promise<number> {
    const { maxBytes } = this.#options;
    let size = await this.#database.size();
    // Rows in the log are not compressed yet, so try a checkpoint first.
    for (let attempt = 0; attempt < maxAttempts && size.usedBytes + size.walBytes > maxBytes; attempt++) {
      if (attempt > 0) {
        const plan = planByteRetention([...this.#states.values()].map(retainedTable), size.usedBytes, maxBytes * 0.8);
        if (plan.size === 0) break;
        for (const [name, rows] of plan) {
          const state = this.#state(name);
          await this.#drop(state, state.head.oldestSeq + rows - 1, prunedRows);
        }
      }
      await this.#database.checkpoint();
      size = await this.#database.size();
    }
    return size.usedBytes;
  }

  async #close(): Promise<void> {
    await Promise.allSettled([this.#draining, this.#pruning]);
    await this.segments?.close();
    await this.#saveLosses().catch((error: unknown) =>
      this.#options.log.warn("cannot store loss counts; they stay in memory until the next append", { error }),
    );
    await this.#database.close();
  }

  /** Saves what segments lost since the last append. */
  async #saveLosses(): Promise<void> {
    const losses = this.#losses.unsaved();
    if (losses) await this.#database.write((transaction) => saveLosses(transaction, losses.counts), losses.saved);
  }
}

async function saveLosses(transaction: Transaction, losses: readonly LossCount[]): Promise<void> {
  await transaction.run("DELETE FROM internal.losses");
  for (const { signal, reason, rows } of losses)
    await transaction.run("INSERT INTO internal.losses VALUES (?, ?, ?)", [signal, reason, rows]);
}

async function loadEpoch(database: Database): Promise<string> {
  const [row] = await database.query("SELECT value FROM internal.meta WHERE key = 'epoch'");
  if (typeof row?.["value"] === "string") return row["value"];
  const epoch = randomUUID();
  await database.write((transaction) => transaction.run("INSERT INTO internal.meta VALUES ('epoch', ?)", [epoch]));
  return epoch;
}
