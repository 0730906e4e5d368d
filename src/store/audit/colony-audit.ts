/**
 * The colony's own chain of audit entries, next to its copies of the agents' chains. Entries are linked inside the transaction that stores
 * them, so that no two can follow the same one.
 */

import { randomUUID } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import type { ColonyStore } from "../colony/colony-store.ts";
import { storedColumns } from "../columns/column-batch.ts";
import type { Transaction } from "../engine/database.ts";
import type { SqlParameter } from "../engine/sql-values.ts";
import { type AuditEntry, type AuditRow, audit, blankAuditEntry, linkAuditEntry } from "../signals/audit.ts";
import { type ChainLink, chainStart } from "../signals/hash-chain.ts";
import { ensureTable, sqlTypeOf } from "../tables/signal-tables.ts";

export interface ColonyAuditOptions {
  /** Older entries and copies are pruned. */
  maxAgeMs: number;
  /** Row limit of each agent's copies and of the own chain; the oldest are pruned. */
  maxRows: number;
  clock: Clock;
}

export interface ColonyAudit {
  /** UUID created with the store. */
  readonly chainId: string;
  /** The last durable entry. */
  readonly head: ChainLink;
  /** Resolves when the entries are durable. The caller must limit the length of texts. */
  append(entries: readonly AuditEntry[]): Promise<void>;
  /** Prunes the own chain and the copies, and records that as an entry. The owner calls it periodically. */
  prune(): Promise<{ entries: number; copies: number }>;
}

/** Each pruning adds an entry, so prune rarely: rows may become this much older than the limit. */
const slackMs = 86_400_000;
const slackRows = 10_000;
const columns = ["seq", ...storedColumns(audit).map(({ name }) => name)];
const rowsPerStatement = 50;
const copies = `raw."${audit.name}"`;

export async function openColonyAudit(store: ColonyStore, options: ColonyAuditOptions): Promise<ColonyAudit> {
  const { database } = store;
  await database.write((transaction) => transaction.run("CREATE SCHEMA IF NOT EXISTS audit"));
  await ensureTable(database, "audit", "entries", [
    { name: "seq", sqlType: "UBIGINT" },
    ...storedColumns(audit).map(({ name, type }) => ({ name, sqlType: sqlTypeOf(type) })),
  ]);
  await ensureTable(database, "audit", "chain", [
    { name: "chain_id", sqlType: "VARCHAR" },
    { name: "entry", sqlType: "UBIGINT" },
    { name: "hash", sqlType: "VARCHAR" },
  ]);
  const { chainId, link } = await database.write(loadChain);
  return new DuckDbColonyAudit(store, options, chainId, link);
}

async function loadChain(transaction: Transaction): Promise<{ chainId: string; link: ChainLink }> {
  const [row] = await transaction.query("SELECT * FROM audit.chain");
  if (row) return { chainId: String(row["chain_id"]), link: { entry: Number(row["entry"]), hash: String(row["hash"]) } };
  const chainId = randomUUID();
  const link = chainStart(chainId);
  await transaction.run("INSERT INTO audit.chain VALUES (?, 0, ?)", [chainId, link.hash]);
  return { chainId, link };
}

class DuckDbColonyAudit implements ColonyAudit {
  readonly chainId: string;
  readonly #store: ColonyStore;
  readonly #options: ColonyAuditOptions;
  #head: ChainLink;

  constructor(store: ColonyStore, options: ColonyAuditOptions, chainId: string, head: ChainLink) {
    this.#store = store;
    this.#options = options;
    this.chainId = chainId;
    this.#head = head;
  }

  get head(): ChainLink {
    return this.#head;
  }

  async append(entries: readonly AuditEntry[]): Promise<void> {
    if (entries.length === 0) return;
    await this.#write((transaction) => appendEntries(transaction, entries));
  }

  async prune(): Promise<{ entries: number; copies: number }> {
    return { copies: await this.#pruneCopies(), entries: await this.#pruneEntries() };
  }

  async #write(work: (transaction: Transaction) => Promise<ChainLink>): Promise<void> {
    await this.#store.database.write(work, (head) => {
      this.#head = head;
    });
  }

  #blank(): AuditEntry {
    const { clock } = this.#options;
    return blankAuditEntry(Math.round(clock.wallMs() * 1_000), Math.round(clock.monotonicMs()));
  }

  #cutoffUs(): number {
    return Math.floor((this.#options.clock.wallMs() - this.#options.maxAgeMs) * 1_000);
  }

  async #pruneCopies(): Promise<number> {
    const ends = await this.#copyEnds();
    if (ends.size === 0) return 0;
    let pruned = 0;
    await this.#write(async (transaction) => {
      const notes: AuditEntry[] = [];
      for (const [source, seq] of ends) {
        const [end] = await transaction.query(
          `SELECT agent_id, epoch, entry, hash FROM ${copies} LEFT JOIN internal.sources USING (source) WHERE source = ? AND seq = ?`,
          [source, seq],
        );
        const chainId = String(end?.["epoch"] ?? "");
        const details = JSON.stringify({ agentId: end?.["agent_id"], chainId, entry: Number(end?.["entry"]), hash: end?.["hash"] });
        notes.push({ ...this.#blank(), kind: "pruned", phase: "noted", target: "copy", place: chainId, details });
      }
      const head = await appendEntries(transaction, notes);
      for (const [source, seq] of ends)
        pruned += await transaction.run(`DELETE FROM ${copies} WHERE source = ? AND seq <= ?`, [source, seq]);
      return head;
    });
    return pruned;
  }

  /**
   * By source: the last row to prune. Expired rows are always pruned. If there are too many rows, the largest sources lose theirs, so that
   * one endless writer cannot evict the others.
   */
  async #copyEnds(): Promise<Map<number, number>> {
    const { maxRows } = this.#options;
    const counts = await this.#store.query(
      `SELECT source, count(*) AS rows, epoch_us(min(stored_at)) AS oldest, max(seq) FILTER (stored_at < make_timestamp(?)) AS aged
       FROM ${this.#qualified(copies)} GROUP BY source`,
      [this.#cutoffUs()],
    );
    const ends = new Map<number, number>();
    const isDue = counts.some((count) => Number(count["oldest"]) < this.#cutoffUs() - slackMs * 1_000);
    for (const { source, aged } of counts) if (isDue && aged !== null) ends.set(Number(source), Number(aged));
    const rows = counts.map((count) => Number(count["rows"]));
    const surplus = rows.reduce((total, count) => total + count, 0) - maxRows;
    if (surplus < Math.min(slackRows, maxRows / 10)) return ends;
    const share = fairShare(rows, maxRows);
    for (const count of counts) {
      const [source, over] = [Number(count["source"]), Number(count["rows"]) - share];
      if (over <= 0) continue;
      const sql = `SELECT seq FROM ${this.#qualified(copies)} WHERE source = ? ORDER BY seq LIMIT 1 OFFSET ${over - 1}`;
      const [row] = await this.#store.query(sql, [source]);
      if (row) ends.set(source, Math.max(ends.get(source) ?? 0, Number(row["seq"])));
    }
    return ends;
  }

  async #pruneEntries(): Promise<number> {
    const [found] = await this.#store.query(
      `SELECT min(seq) AS first, max(seq) AS last, arg_min(epoch_us("time"), seq) AS oldest,
         min(seq) FILTER ("time" >= make_timestamp(?)) AS young FROM ${this.#qualified("audit.entries")}`,
      [this.#cutoffUs()],
    );
    const [first, last] = [Number(found?.["first"] ?? 0), Number(found?.["last"] ?? 0)];
    if (last === 0) return 0;
    const isOld = Number(found?.["oldest"]) < this.#cutoffUs() - slackMs * 1_000;
    const surplus = last - first + 1 - this.#options.maxRows;
    const agedEnd = isOld ? Number(found?.["young"] ?? last + 1) - 1 : 0;
    const surplusEnd = surplus >= Math.min(slackRows, this.#options.maxRows / 10) ? first + surplus - 1 : 0;
    const end = Math.max(agedEnd, surplusEnd);
    if (end < first) return 0;
    let pruned = 0;
    await this.#write(async (transaction) => {
      const [row] = await transaction.query("SELECT entry, hash FROM audit.entries WHERE seq = ?", [end]);
      const details = { first, entry: Number(row?.["entry"] ?? 0), hash: String(row?.["hash"] ?? "") };
      const note = { ...this.#blank(), kind: "pruned", phase: "noted", target: "chain", details: JSON.stringify(details) };
      const head = await appendEntries(transaction, [note]);
      pruned = await transaction.run("DELETE FROM audit.entries WHERE seq <= ?", [end]);
      return head;
    });
    return pruned;
  }

  /** Unqualified names in queries refer to the published views. */
  #qualified(table: string): string {
    return `"${this.#store.database.name}".${table}`;
  }
}

/** Whether the colony's own chain contains this entry. */
export async function isOwnEntry(store: ColonyStore, { command_id, kind, phase, at, mono_ms }: AuditEntry): Promise<boolean> {
  const rows = await store.query(
    `SELECT 1 FROM "${store.database.name}".audit.entries
     WHERE command_id = ? AND kind = ? AND phase = ? AND epoch_us("time") = ? AND mono_ms = ? LIMIT 1`,
    [command_id, kind, phase, at, mono_ms],
  );
  return rows.length > 0;
}

async function appendEntries(transaction: Transaction, entries: readonly AuditEntry[]): Promise<ChainLink> {
  let { link } = await loadChain(transaction);
  const rows: AuditRow[] = [];
  for (const entry of entries) {
    const row = linkAuditEntry(link, entry);
    rows.push(row);
    link = { entry: row.entry, hash: row.hash };
  }
  for (let start = 0; start < rows.length; start += rowsPerStatement) {
    const part = rows.slice(start, start + rowsPerStatement);
    const places = columns.map((name) => (name === "time" ? "make_timestamp(?)" : "?")).join(", ");
    await transaction.run(
      `INSERT INTO audit.entries (${columns.map((name) => `"${name}"`).join(", ")}) VALUES ${part.map(() => `(${places})`).join(", ")}`,
      part.flatMap(valuesOf),
    );
  }
  if (rows.length > 0) await transaction.run("UPDATE audit.chain SET entry = ?, hash = ?", [link.entry, link.hash]);
  return link;
}

function valuesOf(row: AuditRow): SqlParameter[] {
  const values: Record<string, SqlParameter> = { ...row, seq: row.entry, time: row.at };
  return columns.map((name) => values[name] ?? null);
}

/** The row limit per source that keeps the total within `maxRows`. Sources below it leave their share to the others. */
function fairShare(rows: readonly number[], maxRows: number): number {
  let left = maxRows;
  const sorted = rows.toSorted((a, b) => a - b);
  for (const [index, count] of sorted.entries()) {
    const share = Math.floor(left / (sorted.length - index));
    if (count > share) return share;
    left -= count;
  }
  return maxRows;
}
