/** Finds the holders of locks that others wait for. */

import type { LockFact } from "../../model/database-facts.ts";
import { sqlTemplate } from "../../redact/index.ts";
import type { PostgresRow } from "./postgres-client.ts";

/** One row per waiting session and session that blocks it; the latter may be blocked itself. */
export const lockSql = `WITH waiting AS MATERIALIZED (
    SELECT pid, query, extract(epoch FROM clock_timestamp() - coalesce(query_start, xact_start)) AS waited, pg_blocking_pids(pid) AS blockers
    FROM pg_stat_activity WHERE wait_event_type = 'Lock' LIMIT 200)
  SELECT w.pid AS waiter, w.query AS waiting_query, w.waited, b.pid, b.usename, b.application_name, host(b.client_addr) AS address, b.client_port AS port, b.state,
    b.query, extract(epoch FROM clock_timestamp() - b.xact_start) AS open_seconds,
    (SELECT string_agg(DISTINCT l.relation::regclass::text, ', ') FROM pg_locks l WHERE l.pid = w.pid AND l.relation IS NOT NULL AND (l.locktype = 'tuple' OR NOT l.granted)) AS "table"
  FROM waiting w CROSS JOIN LATERAL unnest(w.blockers) AS u(pid) JOIN pg_stat_activity b ON b.pid = u.pid ORDER BY w.waited DESC NULLS LAST`;

const maxHolders = 5;

/** Only sessions that are not blocked themselves count as holders; those in between count as waiting. */
export function lockFacts(rows: readonly PostgresRow[]): LockFact[] {
  const blockersOf = new Map<string, string[]>();
  for (const row of rows) {
    const waiter = row["waiter"] ?? "";
    blockersOf.set(waiter, [...(blockersOf.get(waiter) ?? []), row["pid"] ?? ""]);
  }
  const locks = new Map<string, LockFact>();
  for (const [waiter] of blockersOf) {
    const own = rows.find((row) => row["waiter"] === waiter) ?? {};
    for (const root of rootsOf(waiter, blockersOf)) {
      const row = rows.find(({ pid }) => pid === root);
      if (!row) continue;
      const lock = locks.get(root) ?? { holder: holderIn(row), waiting: 0, longestSeconds: 0, waitingStatement: null, table: null };
      const seconds = Number(own["waited"] ?? 0);
      const isLongest = lock.waiting === 0 || seconds > lock.longestSeconds;
      locks.set(root, {
        ...lock,
        waiting: lock.waiting + 1,
        longestSeconds: Math.max(lock.longestSeconds, seconds),
        waitingStatement: isLongest ? templateOf(own["waiting_query"]) : lock.waitingStatement,
        table: lock.table ?? own["table"] ?? null,
      });
    }
  }
  return [...locks.values()].sort((a, b) => b.waiting - a.waiting || a.holder.pid - b.holder.pid).slice(0, maxHolders);
}

/** Follows blockers to their end. `seen` grows while it is iterated, and makes cycles (deadlocks about to be resolved) terminate. */
function rootsOf(waiter: string, blockersOf: ReadonlyMap<string, readonly string[]>): Set<string> {
  const roots = new Set<string>();
  const seen = new Set([waiter]);
  for (const pid of seen) {
    const next = blockersOf.get(pid);
    if (next === undefined) roots.add(pid);
    for (const blocker of next ?? []) seen.add(blocker);
  }
  return roots;
}

function holderIn(row: PostgresRow): LockFact["holder"] {
  const port = Number(row["port"] ?? -1);
  const isHidden = row["state"] === null;
  return {
    pid: Number(row["pid"]),
    user: row["usename"] ?? "",
    application: row["application_name"] ?? "",
    clientAddress: row["address"] ?? null,
    clientPort: port > 0 ? port : null,
    service: null,
    state: row["state"] ?? null,
    statement: isHidden ? null : templateOf(row["query"]),
    openSeconds: row["open_seconds"] === null ? null : Number(row["open_seconds"]),
  };
}

/** Null if the role lacks permission to see it: the server then returns a text that is not SQL. */
function templateOf(query: string | null | undefined): string | null {
  if (query === null || query === undefined || query === "" || query.startsWith("<")) return null;
  return sqlTemplate(query).template;
}
