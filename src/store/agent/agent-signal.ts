/** One signal in an agent's file: its table, its head, and how rows are appended and read. */

import { CoralError } from "../../base/errors.ts";
import { type ColumnBatch, dropRows, type StoredColumn, storedColumns } from "../columns/column-batch.ts";
import { type ColumnSource, readColumns, TableAppender } from "../columns/column-chunks.ts";
import { encodeBatch, encodedBytes, type RowBatch } from "../columns/column-codec.ts";
import type { Database, Transaction } from "../engine/database.ts";
import type { Signal } from "../signals/define-signal.ts";
import { guessRowBytes, type RetainedTable } from "../tables/byte-retention.ts";
import type { SeqRange, SignalHead } from "../tables/signal-slice.ts";
import { type DeclaredTable, ensureTable, sqlTypeOf } from "../tables/signal-tables.ts";

/** Space is freed in row groups of this size, and the last group of each table stays. */
export const agentRowGroupRows = 8_192;

export interface SignalState {
  signal: Signal;
  table: DeclaredTable;
  columns: readonly StoredColumn[];
  head: SignalHead;
  /** Encoded size of a row, estimated from the last read. */
  rowBytes: number;
  /** The newest rows, if few. Colonies usually ask for these; they are served without a query and its native memory. */
  recent: { firstSeq: number; batch: ColumnBatch } | undefined;
}

const maxRecentRows = 1_024;

/** `savedNextSeq`: see `saveHead`. */
export async function openSignal(database: Database, signal: Signal, savedNextSeq = 1): Promise<SignalState> {
  const columns = storedColumns(signal);
  const table = await ensureTable(database, "main", signal.name, [
    { name: "seq", sqlType: "UBIGINT" },
    ...columns.map(({ name, type }) => ({ name, sqlType: sqlTypeOf(type) })),
  ]);
  const [stored] = await database.query(`SELECT min(seq) AS oldest, max(seq) AS newest FROM "${signal.name}"`);
  const nextSeq = signal.isChained ? savedNextSeq : Math.max(savedNextSeq, Number(stored?.["newest"] ?? 0) + 1);
  const oldestSeq = Number(stored?.["oldest"] ?? nextSeq);
  return { signal, table, columns, head: { oldestSeq, nextSeq }, rowBytes: columns.length * 12, recent: undefined };
}

/**
 * Saves where the sequence continues. Usually the rows themselves show it, so this runs only when they cannot: in a transaction that
 * deletes rows, possibly the newest, and in each append to a chain, whose rows someone could delete from outside.
 */
export async function saveHead(transaction: Transaction, signal: Signal, nextSeq: number): Promise<void> {
  const sql = "UPDATE internal.heads SET least_next_seq = ? WHERE signal = ?";
  if ((await transaction.run(sql, [nextSeq, signal.name])) === 0)
    await transaction.run("INSERT INTO internal.heads VALUES (?, ?)", [signal.name, nextSeq]);
}

export async function loadHeads(database: Database): Promise<ReadonlyMap<string, number>> {
  const rows = await database.query("SELECT signal, least_next_seq FROM internal.heads");
  return new Map(rows.map((row) => [String(row["signal"]), Number(row["least_next_seq"])]));
}

/** Call after the commit of `appendBatches`. */
export function moveHead(state: SignalState, nextSeq: number, last: ColumnBatch | undefined): void {
  state.head.nextSeq = nextSeq;
  state.recent = last && last.rows <= maxRecentRows ? { firstSeq: nextSeq - last.rows, batch: last } : undefined;
}

/** Numbers the batches from the head. The caller moves the head after its commit. */
export function appendBatches({ connection }: Transaction, state: SignalState, batches: readonly ColumnBatch[]): void {
  const appender = TableAppender.of(connection, state.table);
  let seq = state.head.nextSeq;
  for (const batch of batches) {
    const byName = new Map<string, ColumnSource>(batch.columns.map((column) => [column.name, column]));
    byName.set("seq", { kind: "sequence", first: seq });
    appender.append(
      state.table.columns.map(({ name }) => byName.get(name) ?? { kind: "null" }),
      batch.rows,
    );
    seq += batch.rows;
  }
  appender.flush();
}

/** Reads as many rows of a sequence range as fit. Undefined if they were pruned meanwhile. */
export async function readRows(database: Database, state: SignalState, range: SeqRange, maxBytes: number): Promise<RowBatch | undefined> {
  const { recent } = state;
  if (recent && range.firstSeq >= recent.firstSeq) {
    return encodeFitting(state, dropRows(recent.batch, range.firstSeq - recent.firstSeq), range, maxBytes);
  }
  const names = state.columns.map(({ name }) => `"${name}"`).join(", ");
  const order = state.signal.isChained ? " ORDER BY seq" : "";
  const sql = `SELECT seq, ${names} FROM "${state.signal.name}" WHERE seq BETWEEN ${range.firstSeq} AND ${range.lastSeq}${order}`;
  const seqColumn: StoredColumn = { name: "seq", type: "int", nullable: false };
  // Rows are stored in append order, which is sequence order unless someone moved them from outside. Sorting would cost more than the rest.
  const columns = await database.withConnection(async (connection) =>
    readColumns(await connection.columns(sql), 0, [seqColumn, ...state.columns]),
  );
  const [seqs, ...rest] = columns;
  if (seqs?.kind !== "fixed" || seqs.values.length === 0) return undefined;
  const rows = seqs.values.length / 8;
  const { first, unbroken } = readSeqs(seqs.values);
  if (unbroken < rows && !state.signal.isChained) {
    throw new CoralError({
      code: "corrupt",
      message: `Cannot read "${state.signal.name}": its sequences have a gap or are out of order after ${first + unbroken - 1}`,
    });
  }
  return encodeFitting(
    state,
    { rows, columns: rest },
    { firstSeq: first, lastSeq: Math.min(range.lastSeq, first + unbroken - 1) },
    maxBytes,
  );
}

function encodeFitting(state: SignalState, batch: ColumnBatch, { firstSeq, lastSeq }: SeqRange, maxBytes: number): RowBatch {
  state.rowBytes = Math.max(1, encodedBytes(batch, batch.rows) / batch.rows);
  const rows = Math.min(fittingRows(batch, maxBytes), lastSeq - firstSeq + 1);
  return { ...encodeBatch(batch, firstSeq, rows), firstMonoMs: firstMonoMsOf(batch) };
}

export function retainedTable({ signal, table, head }: SignalState): RetainedTable {
  return {
    name: signal.name,
    rows: head.nextSeq - head.oldestSeq,
    rowBytes: guessRowBytes(table.columns.map(({ sqlType }) => sqlType)),
    weight: signal.retention.agent.weight,
    minRows: agentRowGroupRows,
  };
}

/** The largest number of rows (at least one) whose encoding is within the limit. */
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

/** The first sequence, and how many follow it without a gap. */
function readSeqs(seqs: Uint8Array): { first: number; unbroken: number } {
  const view = new DataView(seqs.buffer, seqs.byteOffset, seqs.byteLength);
  const first = Number(view.getBigUint64(0, true));
  let unbroken = 1;
  while (unbroken < seqs.length / 8 && view.getUint32(unbroken * 8, true) === (first + unbroken) >>> 0) unbroken++;
  return { first, unbroken };
}

function firstMonoMsOf(batch: ColumnBatch): number {
  const column = batch.columns.find(({ name }) => name === "mono_ms");
  if (column?.kind !== "fixed") return Number.NaN;
  return new DataView(column.values.buffer, column.values.byteOffset).getFloat64(0, true);
}
