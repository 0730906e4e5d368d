/** A database on one screen, findings first. */

import { escapeText } from "../../../base/escape-text.ts";
import { formatBytes, formatDurationMs } from "../../../base/units.ts";
import type { DatabaseList } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";

type Database = DatabaseList["databases"][number];

/** One block per database: several agents may have credentials for databases behind one service name. */
export function databasePage({ service, databases }: DatabaseList, print: Printer): string {
  return databases.map((database) => onePage(service, database, print)).join("\n");
}

function onePage(service: string, database: Database, { style }: Printer): string {
  const { engine, version, port, user, canWrite, findings, notes } = database;
  const rights = canWrite === null ? "" : canWrite ? " (this account can write; a read-only one suffices)" : " (read-only)";
  const lines = [
    `${style("bold", escapeText(service))}  ${engine} ${escapeText(version)} on port ${port}, as ${escapeText(user)}${rights}`,
    ...(findings.length === 0 ? [style("green", "no findings")] : []),
    ...findings.flatMap(({ kind, statement, fix }) => [
      `${style("red", kind)}: ${escapeText(statement)}`,
      ...(fix === "" ? [] : [`  fix: ${escapeText(fix)}`]),
    ]),
    ...sessionLines(database),
    ...planLines(database),
    ...database.tables.map(
      ({ table, rows, deadRows, sizeBytes, sequentialScans, indexScans }) =>
        `table ${escapeText(table)}: ${count(rows)} rows${deadRows === null ? "" : `, ${count(deadRows)} dead`}${sizeBytes === null ? "" : `, ${formatBytes(sizeBytes)}`}${sequentialScans === null ? "" : `; ${count(sequentialScans)} sequential scans, ${count(indexScans ?? 0)} index scans`}`,
    ),
    ...database.statements.map(
      ({ statement, calls, meanMs, totalMs }) =>
        `statement ${escapeText(statement)}: ${count(calls)} calls, ${formatDurationMs(Math.round(meanMs * 100) / 100)} each, ${formatDurationMs(Math.round(totalMs))} in total`,
    ),
    ...cacheLines(database),
    ...notes.map((note) => style("dim", `note: ${escapeText(note)}`)),
  ];
  return `${lines.join("\n")}\n`;
}

const count = (value: number): string => value.toLocaleString("en-US");

/** Connection counts, and the clients with most open connections, to find who exhausts the limit. */
function sessionLines({ connections, clients }: Database): string[] {
  if (connections === null) return [];
  const { open, active, idleInTransaction, max } = connections;
  const most = clients
    .slice(0, 5)
    .map((client) => `${escapeText(client.client)} ${client.open}`)
    .join(", ");
  return [
    `connections: ${open}${max === null ? "" : ` of ${max}`}, ${active} active, ${idleInTransaction} idle in a transaction${most === "" ? "" : `; ${most}`}`,
  ];
}

/** Full scans first: a large one usually means a missing index. */
function planLines({ plan }: Database): string[] {
  if (plan === null) return [];
  const scans = plan.scans.map(({ table, rows }) => `reads all of ${escapeText(table)} (${count(rows)} rows)`);
  const indexes = plan.indexes.map((index) => `uses ${escapeText(index)}`);
  return [`plan of ${escapeText(plan.statement)}: ${[...scans, ...indexes].join(", ") || "no table"}`];
}

/** Memory and keys of Redis. `maxmemory 0` means unlimited; the policy decides what happens at the limit. */
function cacheLines({ cache }: Database): string[] {
  if (cache === null) return [];
  const { usedBytes, maxBytes, policy, evictedKeys, evictedPerSecond, blockedClients, keys, bigKeys, slowCommands } = cache;
  return [
    `memory: ${formatBytes(usedBytes)}${maxBytes === 0 ? ", unlimited" : ` of ${formatBytes(maxBytes)}`}, ${escapeText(policy)}; ${count(evictedKeys)} keys evicted, now ${evictedPerSecond.toFixed(1)}/s`,
    `keys: ${count(keys)}; clients blocked: ${blockedClients}`,
    ...bigKeys.map(({ key, type, sizeBytes }) => `big key ${escapeText(key)}: ${escapeText(type)}, ${formatBytes(sizeBytes)}`),
    ...slowCommands
      .slice(0, 5)
      .map(({ command, durationUs, at }) => `slow ${escapeText(command)}: ${formatDurationMs(durationUs / 1_000)} at ${at}`),
  ];
}
