import type { Database, Transaction } from "../engine/database.ts";
import type { SqlParameter } from "../engine/sql-values.ts";
import type { GapEntry } from "./pull-plan.ts";

/**
 * Rows that will never arrive. Reasons: `pruned`, `before-first-pull`, `epoch-changed`, `colony-damaged`, and those that agents report
 * (`disk-full`, …).
 */
export interface Gap extends GapEntry {
  /** When the colony detected it, microseconds since 1970. */
  at: number;
}

export interface GapFilter {
  /** Microseconds since 1970. */
  since?: number;
  agentId?: string;
  signal?: string;
}

/** Runs in the transaction that moves the checkpoint past the missing rows. */
export async function insertGap(transaction: Transaction, gap: GapEntry, nowUs: number): Promise<void> {
  const values: SqlParameter[] = [nowUs, gap.agentId, gap.signal, gap.epoch, gap.reason, gap.rows, gap.firstSeq, gap.lastSeq];
  await transaction.run("INSERT INTO internal.gaps VALUES (make_timestamp(?), ?, ?, ?, ?, ?, ?, ?)", values);
}

/** Newest first, at most 1,000. Signal or agent `*` in a gap means all. */
export async function readGaps(database: Database, filter: GapFilter): Promise<Gap[]> {
  const rows = await database.query(
    `SELECT * FROM internal.gaps WHERE noticed_at >= make_timestamp($since)
       AND ($agent IS NULL OR agent_id IN ($agent, '*')) AND ($signal IS NULL OR signal IN ($signal, '*'))
     ORDER BY noticed_at DESC LIMIT 1000`,
    { since: filter.since ?? 0, agent: filter.agentId ?? null, signal: filter.signal ?? null },
  );
  return rows.map((row) => ({
    at: Number(row["noticed_at"]),
    agentId: String(row["agent_id"]),
    signal: String(row["signal"]),
    epoch: String(row["epoch"]),
    reason: String(row["reason"]),
    rows: numberOrNull(row["rows"]),
    firstSeq: numberOrNull(row["first_seq"]),
    lastSeq: numberOrNull(row["last_seq"]),
  }));
}

function numberOrNull(value: unknown): number | null {
  return value === null || value === undefined ? null : Number(value);
}
