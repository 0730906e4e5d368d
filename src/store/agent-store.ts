import { randomUUID } from "node:crypto";
import type { Clock } from "../base/clock.ts";
import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { guessRowBytes, maxAttempts, planByteRetention, type RetainedTable } from "./byte-retention.ts";
import { batchFromRows, type ColumnBatch, type StoredColumn, storedColumns } from "./column-batch.ts";
import { type ColumnSource, readColumns, TableAppender } from "./column-chunks.ts";
import { encodeBatch, encodedBytes, type RowBatch } from "./column-codec.ts";
import type { Database, Opened, Transaction } from "./database.ts";
import type { Columns, RowOf, Signal } from "./define-signal.ts";
import type { Engine } from "./engine.ts";
import { type LossCount, LossCounts } from "./loss-counts.ts";
import type { Migration } from "./migrations.ts";
import { type DeclaredTable, ensureTable, sqlTypeOf } from "./signal-tables.ts";
import type { Row, SqlParameters } from "./sql-values.ts";

export interface AgentStoreOptions {
  file: string;
  signals: readonly Signal[];
  /** What the file may hold before the oldest rows go. The newest 8,192 rows of each signal stay in any case. */
  maxBytes: number;
  clock: Clock;
  log: Logger;
  /** Rows that may wait for a commit; more are refused and counted as lost. Default 20,000. */
  maxQueuedRows?: number;
}

export interface SeqRange {
  firstSeq: number;
  lastSeq: number;
}

export interface SignalHead {
  /** The lowest sequence still stored; nextSeq when none is. */
  oldestSeq: number;
  /** What the next row will get. The first row ever is 1. */
  nextSeq: number;
}

/** What one signal has after a cursor; mirrors the wire message of the same name. */
export interface SignalSlice extends SignalHead {
  signal: string;
  /** Absent when there is nothing new. */
  batch?: RowBatch;
}

export interface ReadLimits {
  /** Bytes of batch data; one row is always given. */
  maxBytes: number;
  maxRows: number;
}

export interface PruneResult {
  /** By signal, or by table where a signal has several. Those that lost nothing are left out. */
  prunedRows: Record<string, number>;
  usedBytes: number;
}

export interface StoreStats {
  fileBytes: number;
  usedBytes: number;
  walBytes: number;
  /** By signal. */
  rows: Record<string, number>;
}

/** The last hours of one agent's signals. */
export interface AgentStore extends AsyncDisposable {
  /** UUID made with the file; sequences are comparable within one epoch only. */
  readonly epoch: string;
  readonly opened: Opened;
  /** Resolves after the rows are durable. Rejects with `exhausted` when the queue is full, `unavailable` when the disk is; both are counted. */
  append<C extends Columns>(signal: Signal<C>, rows: readonly RowOf<C>[]): Promise<SeqRange>;
  /** By signal name; from memory. */
  heads(): ReadonlyMap<string, SignalHead>;
  /** Rows after a sequence, oldest first. An unknown signal is `not-found`. */
  readAfter(signal: string, afterSeq: number, limits: ReadLimits): Promise<SignalSlice>;
  losses(): LossCount[];
  /** Retention by age and by bytes, oldest sequences first. The owner calls it about once a minute. */
  prune(): Promise<PruneResult>;
  stats(): Promise<StoreStats>;
  /** Tables are named after their signals; a row's `at` is column `time`: `SELECT * FROM host ORDER BY seq DESC LIMIT 1`. */
  query(sql: string, parameters?: SqlParameters, signal?: AbortSignal): Promise<Row[]>;
  /** Commits what waits, then closes. */
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
];

/** Space comes back in groups of this many rows, and the last one of each table stays. */
const agentRowGroupRows = 8_192;

export async function openAgentStore(engine: Engine, options: AgentStoreOptions): Promise<AgentStore> {
  // An agent's tables are small: with DuckDB's defaults the file would hold mostly padding, and a day of host rows would never be freed.
  const database = await engine.attach("agent", options.file, migrations, { blockBytes: 16_384, rowGroupRows: agentRowGroupRows });
  try {
    return await DuckDbAgentStore.open(database, options);
  } catch (error) {
    await database.close();
    throw error;
  }
}

interface SignalState {
  signal: Signal;
  table: DeclaredTable;
  columns: readonly StoredColumn[];
  head: SignalHead;
  /** Encoded size of a row, from what was read last. */
  rowBytes: number;
}

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
  #queue: Waiting[] = [];
  #queuedRows = 0;
  #draining: Promise<void> | undefined;
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
    for (const signal of options.signals) states.set(signal.name, await openSignal(database, signal));
    const store = new DuckDbAgentStore(database, options, epoch, states);
    store.#losses.load(await database.query("SELECT signal, reason, rows FROM internal.losses"));
    return store;
  }

  async append<C extends Columns>(signal: Signal<C>, rows: readonly RowOf<C>[]): Promise<SeqRange> {
    if (this.#closed) throw new CoralError({ code: "unavailable", message: `Cannot append to "${signal.name}": the store is closed` });
    const state = this.#state(signal.name);
    if (rows.length === 0) return { firstSeq: state.head.nextSeq, lastSeq: state.head.nextSeq - 1 };
    const batch = batchFromRows(signal, rows);
    const bound = this.#options.maxQueuedRows ?? 20_000;
    if (this.#queuedRows + rows.length > bound) {
      this.#losses.add(signal.name, "queue-full", rows.length);
      throw new CoralError({
        code: "exhausted",
        message: `Cannot append to "${signal.name}": ${this.#queuedRows} of ${bound} rows wait already`,
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
    const batch = firstSeq <= lastSeq ? await this.#read(state, firstSeq, lastSeq, limits.maxBytes) : undefined;
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
    for (const state of this.#states.values()) {
      const lastSeq = await this.#lastAgedSeq(state);
      await this.#drop(state, lastSeq, prunedRows);
    }
    const usedBytes = await this.#pruneBytes(prunedRows);
    return { prunedRows, usedBytes };
  }

  async stats(): Promise<StoreStats> {
    const rows = Object.fromEntries([...this.#states].map(([name, { head }]) => [name, head.nextSeq - head.oldestSeq]));
    return { ...(await this.#database.size()), rows };
  }

  query(sql: string, parameters?: SqlParameters, signal?: AbortSignal): Promise<Row[]> {
    return this.#database.query(sql, parameters, signal);
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
      throw new CoralError({ code: "not-found", message: `Cannot find signal "${name}": this agent has none of that name` });
    return state;
  }

  /** Group commit: while one transaction is written, appends gather for the next. Never rejects. */
  async #drain(): Promise<void> {
    // One turn later, so that the appends of one sample share a commit.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const group = this.#queue;
      this.#queue = [];
      const outcome = await this.#commit(group).catch((error: unknown) => CoralError.from(error));
      for (const { batch } of group) this.#queuedRows -= batch.rows;
      if (outcome instanceof CoralError) this.#refuse(group, outcome);
      else for (const [index, waiting] of group.entries()) waiting.resolve(outcome[index] as SeqRange);
    }
    // In the same turn as the last look at the queue, so that no append can fall between.
    this.#draining = undefined;
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
    const work = async (transaction: Transaction): Promise<void> => {
      for (const [state, nextSeq] of nextSeqs) {
        appendGroup(transaction, state, group);
        await transaction.run("UPDATE internal.heads SET next_seq = ? WHERE signal = ?", [nextSeq, state.signal.name]);
      }
      if (losses) await saveLosses(transaction, losses.counts);
    };
    await this.#database.write(work, () => {
      losses?.saved();
      for (const [state, nextSeq] of nextSeqs) state.head.nextSeq = nextSeq;
    });
    return ranges;
  }

  async #read(state: SignalState, firstSeq: number, lastSeq: number, maxBytes: number): Promise<RowBatch | undefined> {
    const names = state.columns.map(({ name }) => `"${name}"`).join(", ");
    const sql = `SELECT seq, ${names} FROM "${state.signal.name}" WHERE seq BETWEEN ${firstSeq} AND ${lastSeq}`;
    const seqColumn: StoredColumn = { name: "seq", type: "int", nullable: false };
    // Rows come in the order of their append, which is that of their sequences; sorting them would cost more than all the rest.
    const columns = await this.#database.withConnection(async (connection) =>
      readColumns(await connection.columns(sql), 0, [seqColumn, ...state.columns]),
    );
    const [seqs, ...rest] = columns;
    if (seqs?.kind !== "fixed" || seqs.values.length === 0) return undefined;
    const rows = seqs.values.length / 8;
    const from = checkedFirst(state.signal.name, seqs.values);
    const batch: ColumnBatch = { rows, columns: rest };
    state.rowBytes = Math.max(1, encodedBytes(batch, rows) / rows);
    return { ...encodeBatch(batch, from, fittingRows(batch, maxBytes)), firstMonoMs: firstMonoMsOf(batch) };
  }

  /**
   * The last sequence of the rows that are all too old. Going by sequence keeps a young row whose wall clock was behind; a row from a clock
   * that was ahead holds back the ones after it until its time has passed, or until bytes push it out.
   */
  async #lastAgedSeq({ signal, head }: SignalState): Promise<number> {
    const cutoffUs = (this.#options.clock.wallMs() - signal.retention.agent.maxAgeMs) * 1_000;
    const [row] = await this.query(`SELECT min(seq) AS seq FROM "${signal.name}" WHERE "time" >= make_timestamp(?)`, [
      Math.floor(cutoffUs),
    ]);
    const youngest = row?.["seq"];
    return (typeof youngest === "number" ? youngest : head.nextSeq) - 1;
  }

  async #drop(state: SignalState, lastSeq: number, prunedRows: Record<string, number>): Promise<void> {
    const { signal, head } = state;
    const end = Math.min(lastSeq, head.nextSeq - 1);
    if (end < head.oldestSeq) return;
    await this.#database.write((transaction) => transaction.run(`DELETE FROM "${signal.name}" WHERE seq <= ?`, [end]));
    prunedRows[signal.name] = (prunedRows[signal.name] ?? 0) + end + 1 - head.oldestSeq;
    head.oldestSeq = end + 1;
  }

  async #pruneBytes(prunedRows: Record<string, number>): Promise<number> {
    const { maxBytes } = this.#options;
    let size = await this.#database.size();
    // Rows in the log are not compressed yet, so the first answer to too much is a checkpoint.
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
    await this.#database.close();
  }
}

function retainedTable({ signal, table, head }: SignalState): RetainedTable {
  return {
    name: signal.name,
    rows: head.nextSeq - head.oldestSeq,
    rowBytes: guessRowBytes(table.columns.map(({ sqlType }) => sqlType)),
    weight: signal.retention.agent.weight,
    minRows: agentRowGroupRows,
  };
}

function appendGroup({ connection }: Transaction, state: SignalState, group: readonly Waiting[]): void {
  const appender = TableAppender.of(connection, state.table);
  let seq = state.head.nextSeq;
  for (const waiting of group) {
    if (waiting.state !== state) continue;
    const byName = new Map<string, ColumnSource>(waiting.batch.columns.map((column) => [column.name, column]));
    byName.set("seq", { kind: "sequence", first: seq });
    appender.append(
      state.table.columns.map(({ name }) => byName.get(name) ?? { kind: "null" }),
      waiting.batch.rows,
    );
    seq += waiting.batch.rows;
  }
  appender.flush();
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

async function openSignal(database: Database, signal: Signal): Promise<SignalState> {
  const columns = storedColumns(signal);
  const table = await ensureTable(database, "main", signal.name, [
    { name: "seq", sqlType: "UBIGINT" },
    ...columns.map(({ name, type }) => ({ name, sqlType: sqlTypeOf(type) })),
  ]);
  const [head] = await database.query("SELECT next_seq FROM internal.heads WHERE signal = ?", [signal.name]);
  if (head === undefined) {
    await database.write((transaction) => transaction.run("INSERT INTO internal.heads VALUES (?, 1)", [signal.name]));
  }
  const nextSeq = Number(head?.["next_seq"] ?? 1);
  const [oldest] = await database.query(`SELECT min(seq) AS seq FROM "${signal.name}"`);
  const oldestSeq = Number(oldest?.["seq"] ?? nextSeq);
  return { signal, table, columns, head: { oldestSeq, nextSeq }, rowBytes: columns.length * 12 };
}

/** The largest number of rows, at least one, whose encoding fits. */
function fittingRows(batch: ColumnBatch, maxBytes: number): number {
  let low = 1;
  let high = batch.rows;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (encodedBytes(batch, middle) <= maxBytes) low = middle;
    else high = middle - 1;
  }
  return low;
}

function checkedFirst(signal: string, seqs: Uint8Array): number {
  const view = new DataView(seqs.buffer, seqs.byteOffset, seqs.byteLength);
  const first = Number(view.getBigUint64(0, true));
  for (let index = 0; index < seqs.length / 8; index++) {
    if (view.getUint32(index * 8, true) !== (first + index) >>> 0) {
      throw new CoralError({
        code: "corrupt",
        message: `Cannot read "${signal}": its sequences have a hole or are out of order after ${first + index - 1}`,
      });
    }
  }
  return first;
}

function firstMonoMsOf(batch: ColumnBatch): number {
  const column = batch.columns.find(({ name }) => name === "mono_ms");
  if (column?.kind !== "fixed") return Number.NaN;
  return new DataView(column.values.buffer, column.values.byteOffset).getFloat64(0, true);
}
