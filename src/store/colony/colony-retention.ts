import type { KeptFact } from "../../model/events.ts";
import type { Database } from "../engine/database.ts";
import { guessRowBytes, maxAttempts, planByteRetention } from "../tables/byte-retention.ts";
import { noteKept, readKept } from "../tables/coverage-ledger.ts";
import type { DeclaredTable } from "../tables/signal-tables.ts";
import type { SignalTables } from "./colony-tables.ts";

/** A table whose rows have `ingest` and `stored_at`. Rows age from when the colony stored them, independent of agents' clocks. */
export interface AgingTable {
  table: DeclaredTable;
  maxAgeMs: number;
  weight: number;
}

/** Rows per row group of a colony's tables. Space is freed per group, and the last group of each table stays. */
export const colonyRowGroupRows = 30_720;

const nameOf = ({ schema, table }: DeclaredTable): string => `"${schema}"."${table}"`;

async function countRows(database: Database, table: DeclaredTable): Promise<number> {
  const [row] = await database.query(`SELECT count(*) AS rows FROM "${database.name}".${nameOf(table)}`);
  return Number(row?.["rows"] ?? 0);
}

/** Removes rows by age. Returns the removed rows by table name. */
export async function pruneByAge(database: Database, tables: readonly AgingTable[], nowMs: number): Promise<Map<string, number>> {
  const pruned = new Map<string, number>();
  for (const { table, maxAgeMs } of tables) {
    const cutoffUs = Math.floor((nowMs - maxAgeMs) * 1_000);
    const rows = await database.write((transaction) =>
      transaction.run(`DELETE FROM ${nameOf(table)} WHERE stored_at < make_timestamp(?)`, [cutoffUs]),
    );
    if (rows > 0) pruned.set(table.table, rows);
  }
  return pruned;
}

/** Removes the oldest rows, by weight, until the data is within the limit. Returns the removed rows by table name. */
export async function pruneByBytes(
  database: Database,
  tables: readonly AgingTable[],
  maxBytes: number,
  beforeDropping: () => Promise<void>,
): Promise<Map<string, number>> {
  const pruned = new Map<string, number>();
  let size = await database.size();
  // Rows in the log are not compressed yet, so try a checkpoint first.
  for (let attempt = 0; attempt < maxAttempts && size.usedBytes + size.walBytes > maxBytes; attempt++) {
    if (attempt > 0) {
      await beforeDropping();
      const retained = await Promise.all(
        tables.map(async ({ table, weight }) => ({
          name: nameOf(table),
          rows: await countRows(database, table),
          rowBytes: guessRowBytes(table.columns.map(({ sqlType }) => sqlType)),
          weight,
          minRows: colonyRowGroupRows,
        })),
      );
      const plan = planByteRetention(retained, size.usedBytes, maxBytes * 0.8);
      if (plan.size === 0) break;
      for (const { table } of tables) {
        const rows = await dropOldest(database, table, plan.get(nameOf(table)) ?? 0);
        if (rows > 0) pruned.set(table.table, (pruned.get(table.table) ?? 0) + rows);
      }
    }
    await database.checkpoint();
    size = await database.size();
  }
  return pruned;
}

/** Rows are in ingest order, so the n-th row's number bounds the n oldest. Its transaction is removed as a whole. */
async function dropOldest(database: Database, table: DeclaredTable, rows: number): Promise<number> {
  if (rows <= 0) return 0;
  return await database.write(async (transaction) => {
    const [row] = await transaction.query(`SELECT ingest FROM ${nameOf(table)} LIMIT 1 OFFSET ${Math.floor(rows) - 1}`);
    return await transaction.run(`DELETE FROM ${nameOf(table)} WHERE ingest <= ?`, [Number(row?.["ingest"] ?? 0)]);
  });
}

/** Records the time from which tables that lost rows are complete. */
export async function notePruned(
  database: Database,
  tables: readonly AgingTable[],
  pruned: ReadonlyMap<string, number>,
  nowUs: number,
): Promise<void> {
  await database.write(async (transaction) => {
    for (const { table } of tables) {
      if (!pruned.has(table.table)) continue;
      const [row] = await transaction.query(`SELECT epoch_us(min(stored_at)) AS since FROM ${nameOf(table)}`);
      await noteKept(transaction, table.table, Number(row?.["since"] ?? nowUs));
    }
  });
}

/** A signal is kept as long as its coarsest copy: losing only a finer resolution leaves it complete. */
export async function readKeptSignals(database: Database, signals: readonly SignalTables[]): Promise<KeptFact[]> {
  const kept = new Map((await readKept(database)).map(({ signal, sinceMs }) => [signal, sinceMs]));
  const facts: KeptFact[] = [];
  const names = new Set<string>();
  for (const { signal, raw, rollups } of signals) {
    const tables = [raw, ...rollups.map(({ table }) => table)].map(({ table }) => table);
    for (const name of tables) names.add(name);
    const since = tables.map((name) => kept.get(name));
    const known = since.filter((sinceMs) => sinceMs !== undefined);
    if (known.length === tables.length) facts.push({ signal: signal.name, sinceMs: Math.min(...known) });
  }
  return [...facts, ...[...kept].filter(([name]) => !names.has(name)).map(([signal, sinceMs]) => ({ signal, sinceMs }))];
}
