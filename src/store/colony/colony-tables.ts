/** The tables of one signal in a colony's file, and the progress of their roll-ups. */

import { storedColumns } from "../columns/column-batch.ts";
import type { Database } from "../engine/database.ts";
import type { Signal } from "../signals/define-signal.ts";
import { type Resolution, resolutions, rollupColumns, rollupName } from "../tables/rollup.ts";
import { type DeclaredTable, ensureTable, sqlTypeOf } from "../tables/signal-tables.ts";
import type { AgingTable } from "./colony-retention.ts";

export interface SignalTables {
  signal: Signal;
  raw: DeclaredTable;
  rollups: { resolution: Resolution; table: DeclaredTable }[];
}

export async function openTables(database: Database, signal: Signal): Promise<SignalTables> {
  const raw = await ensureTable(database, "raw", signal.name, [
    { name: "source", sqlType: "UINTEGER" },
    { name: "ingest", sqlType: "UBIGINT" },
    { name: "stored_at", sqlType: "TIMESTAMP" },
    { name: "seq", sqlType: "UBIGINT" },
    ...storedColumns(signal).map(({ name, type }) => ({ name, sqlType: sqlTypeOf(type) })),
  ]);
  const rollups = [];
  for (const resolution of signal.rollup || signal.isThinned ? resolutions : []) {
    const table = await ensureTable(database, "rollup", rollupName(signal, resolution), rollupColumns(signal));
    rollups.push({ resolution, table });
  }
  return { signal, raw, rollups };
}

export function agingTables({ signal, raw, rollups }: SignalTables): AgingTable[] {
  // Rows of an audit chain are only removed together with an entry that records it: see audit/colony-audit.ts.
  if (signal.isChained) return [];
  const { maxAgeMs, weight } = signal.retention.colony;
  return [{ table: raw, maxAgeMs, weight }, ...rollups.map(({ table, resolution }) => ({ table, maxAgeMs: resolution.maxAgeMs, weight }))];
}

export async function loadProgress(database: Database, tables: ReadonlyMap<string, SignalTables>): Promise<Map<string, number>> {
  const rows = await database.query("SELECT name, ingest FROM internal.rollup_progress");
  const progress = new Map(rows.map((row) => [String(row["name"]), Number(row["ingest"])]));
  const names = [...tables.values()].flatMap(({ signal, rollups }) => rollups.map(({ resolution }) => rollupName(signal, resolution)));
  await database.write(async (transaction) => {
    for (const name of names) {
      if (!progress.has(name)) await transaction.run("INSERT INTO internal.rollup_progress VALUES (?, 0)", [name]);
    }
  });
  return progress;
}

export interface LastIngests {
  /** Above every number in use. Rows may have been pruned, but never beyond their roll-up's progress. */
  last: number;
  /** The last number among the stored rows of each signal. */
  bySignal: Map<string, number>;
}

export async function lastIngests(
  database: Database,
  tables: ReadonlyMap<string, SignalTables>,
  progress: ReadonlyMap<string, number>,
): Promise<LastIngests> {
  const bySignal = new Map<string, number>();
  for (const { signal } of tables.values()) {
    const [row] = await database.query(`SELECT max(ingest) AS ingest FROM raw."${signal.name}"`);
    bySignal.set(signal.name, Number(row?.["ingest"] ?? 0));
  }
  return { last: Math.max(0, ...progress.values(), ...bySignal.values()), bySignal };
}
