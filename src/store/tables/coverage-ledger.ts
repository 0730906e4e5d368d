/** Known gaps in a colony's data: time in which agents observed nothing, and rows that retention removed. */

import { type KeptFact, type UnobservedFact, unobservedKind } from "../../model/events.ts";
import type { Database, Transaction } from "../engine/database.ts";

/** Not a signal: totals of edges, which are kept longer than connections. */
export const edgeTotals = "edge_totals";

/** Limit per pull: an agent that restarts in a loop must not fill the ledger. */
const maxPerIngest = 1_000;

export async function ensureCoverage(database: Database): Promise<void> {
  await database.write((transaction) =>
    transaction.run(`
      CREATE TABLE IF NOT EXISTS internal.unobserved (agent_id VARCHAR NOT NULL, since TIMESTAMP NOT NULL, until TIMESTAMP NOT NULL, reason VARCHAR NOT NULL);
      -- name: of a table or signal; since: stored before it and removed.
      CREATE TABLE IF NOT EXISTS internal.kept (name VARCHAR PRIMARY KEY, since TIMESTAMP NOT NULL)`),
  );
}

/** Runs in the transaction of an ingest, from its events. The ledger keeps entries longer than events. */
export async function insertUnobserved(transaction: Transaction, ingest: number): Promise<void> {
  const rows = await transaction.query(
    `SELECT s.agent_id, e.details FROM raw.agent_event e JOIN internal.sources s ON s.source = e.source
     WHERE e.ingest = ? AND e.kind = '${unobservedKind}' LIMIT ${maxPerIngest}`,
    [ingest],
  );
  for (const row of rows) {
    const gap = gapIn(String(row["details"]));
    if (gap === undefined) continue;
    await transaction.run("INSERT INTO internal.unobserved VALUES (?, make_timestamp(?), make_timestamp(?), ?)", [
      String(row["agent_id"]),
      Math.floor(gap.fromMs * 1_000),
      Math.floor(gap.untilMs * 1_000),
      gap.reason,
    ]);
  }
}

/** Newest first, at most 1,000 that end after `sinceMs`. */
export async function readUnobserved(database: Database, sinceMs: number): Promise<UnobservedFact[]> {
  const rows = await database.query(
    `SELECT agent_id, epoch_ms(since) AS from_ms, epoch_ms(until) AS until_ms, reason FROM internal.unobserved
     WHERE until > make_timestamp(?) ORDER BY until DESC LIMIT 1000`,
    [Math.floor(sinceMs * 1_000)],
  );
  return rows.map((row) => ({
    agentId: String(row["agent_id"]),
    fromMs: Number(row["from_ms"]),
    untilMs: Number(row["until_ms"]),
    reason: String(row["reason"]),
  }));
}

/** Records that rows of `name` stored before that time were removed. */
export async function noteKept(transaction: Transaction, name: string, sinceUs: number): Promise<void> {
  await transaction.run(
    "INSERT INTO internal.kept VALUES (?, make_timestamp(?)) ON CONFLICT (name) DO UPDATE SET since = greatest(since, excluded.since)",
    [name, Math.floor(sinceUs)],
  );
}

/** By table or signal. A name without an entry lost nothing to retention. */
export async function readKept(database: Database): Promise<KeptFact[]> {
  const rows = await database.query("SELECT name, epoch_ms(since) AS since_ms FROM internal.kept");
  return rows.map((row) => ({ signal: String(row["name"]), sinceMs: Number(row["since_ms"]) }));
}

function gapIn(details: string): { fromMs: number; untilMs: number; reason: string } | undefined {
  try {
    const { fromMs, untilMs, reason } = JSON.parse(details) as Record<string, unknown>;
    if (!isTime(fromMs) || !isTime(untilMs) || fromMs >= untilMs || typeof reason !== "string") return undefined;
    return { fromMs, untilMs, reason: reason.slice(0, 64) };
  } catch {
    // Agents write their own details. Details that are not a gap only count as an event.
    return undefined;
  }
}

/** Within the range of timestamps that the store can hold. */
function isTime(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 && value < 4e12;
}
