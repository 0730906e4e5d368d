import type { Database } from "../engine/database.ts";

/** Maximum age of gaps and events, and maximum rows of each. */
const ledgerMaxAgeMs = 60 * 86_400_000;
const ledgerMaxRows = 100_000;

const ledgers = [
  ["internal.gaps", "noticed_at"],
  ["internal.unobserved", "until"],
  ["registry.events", "occurred_at"],
  ["registry.agent_conflicts", "noticed_at"],
] as const;

export interface LedgerRetention {
  nowUs: number;
  /** Sources that are always kept. */
  keptSources: readonly number[];
  /** Signals whose rows are kept for longer and are useless without their source. */
  chained: readonly string[];
}

/** Prunes gaps and events by age and count, and sources not seen for the same time. Returns the numbers of the pruned sources. */
export async function pruneLedgers(database: Database, { nowUs, keptSources, chained }: LedgerRetention): Promise<ReadonlySet<number>> {
  const cutoffUs = nowUs - ledgerMaxAgeMs * 1_000;
  return await database.write(async (transaction) => {
    for (const [table, time] of ledgers) {
      await transaction.run(`DELETE FROM ${table} WHERE ${time} < make_timestamp(?)`, [cutoffUs]);
      await transaction.run(
        `DELETE FROM ${table} WHERE rowid < (SELECT max(rowid) FROM ${table}) - ${ledgerMaxRows} AND (SELECT count(*) FROM ${table}) > ${ledgerMaxRows}`,
      );
    }
    const unchained = chained.map((name) => ` AND source NOT IN (SELECT source FROM raw."${name}")`).join("");
    const old = await transaction.query(`SELECT source FROM internal.sources WHERE last_pull < make_timestamp(?)${unchained}`, [cutoffUs]);
    const gone = old.map((row) => Number(row["source"])).filter((source) => !keptSources.includes(source));
    if (gone.length > 0) await transaction.run(`DELETE FROM internal.sources WHERE source IN (${gone.join(", ")})`);
    return new Set(gone);
  });
}
