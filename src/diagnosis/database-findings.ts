/** Problems that a database reports about itself, worst first. Each finding names its subject, describes it, and suggests a fix. */

import type { CacheFact, DatabaseFacts, LockFact } from "../model/database-facts.ts";
import { figure } from "./figure-text.ts";

export type DatabaseFindingKind =
  | "lock-wait"
  | "connections-full"
  | "missing-index"
  | "evictions"
  | "idle-in-transaction"
  | "big-key"
  | "slow-command"
  | "dead-rows";

export interface DatabaseFinding {
  kind: DatabaseFindingKind;
  /** A session, table or key. */
  pointer: string;
  statement: string;
  /** The fix; empty if it depends on the situation. */
  fix: string;
  figure: { name: string; unit: string; value: number };
}

/** Shorter waits are normal for a busy database. */
const minWaitSeconds = 1;
const fullPart = 0.9;
const minEvictionsPerSecond = 1;
const minBigKeyBytes = 1024 * 1024;
const minSlowUs = 50_000;
const minDeadRows = 50_000;

export function databaseFindings(facts: DatabaseFacts): DatabaseFinding[] {
  return [
    ...facts.locks.filter(({ longestSeconds }) => longestSeconds >= minWaitSeconds).map((lock) => lockFinding(lock, facts.engine)),
    ...connectionFindings(facts),
    ...scanFindings(facts),
    ...(facts.cache === null ? [] : cacheFindings(facts.cache)),
    ...deadRowFindings(facts),
  ];
}

function lockFinding(
  { holder, waiting, longestSeconds, waitingStatement, table }: LockFact,
  engine: DatabaseFacts["engine"],
): DatabaseFinding {
  const { pid, user, application, service, clientAddress, state, statement, openSeconds } = holder;
  const who = service ?? (application === "" ? `user ${user}` : `${application}, user ${user}`);
  const since = openSeconds === null ? "" : ` for ${figure(openSeconds, "s")}`;
  const last = statement === null ? "" : `; its last statement: ${statement}`;
  const sessions = waiting === 1 ? "1 session waits" : `${waiting} sessions wait`;
  const kill = engine === "mysql" ? `KILL ${pid}` : `SELECT pg_terminate_backend(${pid})`;
  const place = table === null ? "" : ` on ${table}`;
  return {
    kind: "lock-wait",
    pointer: `pid ${pid} (${who})`,
    statement: `${sessions}${place} up to ${figure(longestSeconds, "s")} for session ${pid} of ${who}${clientAddress === null ? "" : ` at ${clientAddress}`}, ${state ?? "in a transaction"}${since}${last}${waitingStatement === null ? "" : `; waiting: ${waitingStatement}`}`,
    fix: `let ${who} commit, or end session ${pid}: ${kill}`,
    figure: { name: "longest wait for a lock", unit: "s", value: longestSeconds },
  };
}

function connectionFindings({ connections, clients }: DatabaseFacts): DatabaseFinding[] {
  if (connections === null) return [];
  const { open, max, idleInTransaction } = connections;
  const found: DatabaseFinding[] = [];
  if (max !== null && open >= fullPart * max) {
    const [most] = clients;
    found.push({
      kind: "connections-full",
      pointer: most === undefined ? "connections" : `connections of ${most.client}`,
      statement: `${open} of ${max} connections are open${most === undefined ? "" : `; most by ${most.client}: ${most.open}`}`,
      fix: "lower the pool sizes of the clients, or put a pooler in front",
      figure: { name: "open connections", unit: "", value: open },
    });
  }
  const idle = clients.find((client) => client.idleInTransaction >= 3 && client.idleInTransaction >= client.open / 2);
  if (idle !== undefined)
    found.push({
      kind: "idle-in-transaction",
      pointer: `connections of ${idle.client}`,
      statement: `${idle.idleInTransaction} of the ${idle.open} connections of ${idle.client} are idle in a transaction (${idleInTransaction} in all)`,
      fix: "the client holds connections while it does something else: commit earlier, or return them to the pool",
      figure: { name: "connections idle in a transaction", unit: "", value: idle.idleInTransaction },
    });
  return found;
}

function scanFindings({ plan }: DatabaseFacts): DatabaseFinding[] {
  return (plan?.scans ?? []).flatMap(({ table, rows, columns, advice }) =>
    advice === null
      ? []
      : {
          kind: "missing-index" as const,
          pointer: `${table} (${columns.slice(0, 3).join(", ")})`,
          statement: `sequential scan of ${rows.toLocaleString("en-US")} rows, no index on ${table}.${columns[0] ?? ""}: ${plan?.statement ?? ""}`,
          fix: advice,
          figure: { name: "rows read by a sequential scan", unit: "", value: rows },
        },
  );
}

function cacheFindings(cache: CacheFact): DatabaseFinding[] {
  const found: DatabaseFinding[] = [];
  const [big] = cache.bigKeys;
  const [slow] = cache.slowCommands.filter(({ durationUs }) => durationUs >= minSlowUs).sort((a, b) => b.durationUs - a.durationUs);
  if (cache.evictedPerSecond >= minEvictionsPerSecond)
    found.push({
      kind: "evictions",
      pointer: `maxmemory ${figure(cache.maxBytes, "By")}, ${cache.policy}`,
      statement: `${figure(cache.evictedPerSecond, "")} keys/s are evicted: ${figure(cache.usedBytes, "By")} of ${figure(cache.maxBytes, "By")} used, policy ${cache.policy}`,
      fix: "raise maxmemory, or let keys expire earlier",
      figure: { name: "evicted keys", unit: "/s", value: cache.evictedPerSecond },
    });
  if (big !== undefined && big.sizeBytes >= minBigKeyBytes)
    found.push({
      kind: "big-key",
      pointer: big.key,
      statement: `a ${big.type} at ${big.key} takes ${figure(big.sizeBytes, "By")}, among ${cache.keysSampled} of ${cache.keys} keys`,
      fix: "split it, or read parts of it",
      figure: { name: "size of a key", unit: "By", value: big.sizeBytes },
    });
  if (slow !== undefined)
    found.push({
      kind: "slow-command",
      pointer: slow.command,
      statement: `${slow.command} took ${figure(slow.durationUs, "us")} and held up all other commands`,
      fix: "",
      figure: { name: "duration of a command", unit: "us", value: slow.durationUs },
    });
  return found;
}

function deadRowFindings({ tables }: DatabaseFacts): DatabaseFinding[] {
  const worst = tables.find(({ deadRows, rows }) => deadRows !== null && deadRows >= minDeadRows && deadRows > rows);
  if (worst === undefined) return [];
  return [
    {
      kind: "dead-rows",
      pointer: worst.table,
      statement: `${worst.table} has ${(worst.deadRows ?? 0).toLocaleString("en-US")} dead rows and ${worst.rows.toLocaleString("en-US")} live ones`,
      fix: `VACUUM (ANALYZE) ${worst.table}; look for a long transaction that keeps dead rows`,
      figure: { name: "dead rows", unit: "", value: worst.deadRows ?? 0 },
    },
  ];
}
