/**
 * The segment manifest: one row per segment, in the database file whose rows must agree with it. The manifest is authoritative; files
 * without a row are garbage.
 */

import type { Database, Transaction } from "../engine/database.ts";
import type { Row } from "../engine/sql-values.ts";
import type { SegmentSummary } from "./seal-segment.ts";

export interface SegmentEntry extends Omit<SegmentSummary, "lookupFilter"> {
  /** Empty at an agent. */
  agentId: string;
  epoch: string;
  signal: string;
  /** Equal to `number`, or lower if this segment was merged from several. */
  firstNumber: number;
  number: number;
  /** Rows of the signal in its epoch before this segment. Reveals how many rows are missing between two segments. */
  rowsBefore: number;
  /** Wall time, microseconds since 1970. Retention by age starts here. */
  storedAtUs: number;
  /** `lost`: its file was damaged, and its rows are gone. */
  state: "stored" | "lost";
}

const tables = `
  CREATE SCHEMA IF NOT EXISTS segment;
  CREATE TABLE IF NOT EXISTS segment.manifest (
    agent_id VARCHAR NOT NULL, epoch VARCHAR NOT NULL, signal VARCHAR NOT NULL, first_number UBIGINT NOT NULL, number UBIGINT NOT NULL,
    rows_before UBIGINT NOT NULL, rows UBIGINT NOT NULL, bytes UBIGINT NOT NULL, min_time BIGINT NOT NULL, max_time BIGINT NOT NULL,
    services VARCHAR, lookup_filter BLOB, schema_version INTEGER NOT NULL, sha256 VARCHAR NOT NULL, stored_at BIGINT NOT NULL, state VARCHAR NOT NULL,
    PRIMARY KEY (epoch, signal, number)
  );
  -- At an agent: its last segment; known = the number up to which a colony has pulled. At a colony: the last segment it has pulled; known =
  -- the rows that the agent reported last.
  CREATE TABLE IF NOT EXISTS segment.heads (
    agent_id VARCHAR NOT NULL, epoch VARCHAR NOT NULL, signal VARCHAR NOT NULL, number UBIGINT NOT NULL, rows UBIGINT NOT NULL,
    known UBIGINT NOT NULL, updated_at BIGINT NOT NULL, PRIMARY KEY (epoch, signal)
  )`;

export async function ensureManifest(database: Database): Promise<void> {
  await database.write((transaction) => transaction.run(tables));
}

const columns =
  "agent_id, epoch, signal, first_number, number, rows_before, rows, bytes, min_time, max_time, services, schema_version, sha256, stored_at, state";

/** Ordered by signal and number. Look-up filters are not loaded. */
export async function loadManifest(database: Database): Promise<SegmentEntry[]> {
  const rows = await database.query(`SELECT ${columns} FROM "${database.name}".segment.manifest ORDER BY signal, epoch, number`);
  const names = new Map<string, string>();
  return rows.map((row) => entryOf(row, names));
}

/** Interns texts that repeat in thousands of entries. */
function entryOf(row: Row, names: Map<string, string>): SegmentEntry {
  const text = (name: string): string => shared(String(row[name]), names);
  const number = (name: string): number => Number(row[name]);
  const services = row["services"];
  return {
    agentId: text("agent_id"),
    epoch: text("epoch"),
    signal: text("signal"),
    firstNumber: number("first_number"),
    number: number("number"),
    rowsBefore: number("rows_before"),
    rows: number("rows"),
    sizeBytes: number("bytes"),
    minTimeUs: number("min_time"),
    maxTimeUs: number("max_time"),
    services: typeof services === "string" ? (JSON.parse(services) as string[]).map((service) => shared(service, names)) : null,
    schemaVersion: number("schema_version"),
    sha256: String(row["sha256"]),
    storedAtUs: number("stored_at"),
    state: row["state"] === "lost" ? "lost" : "stored",
  };
}

function shared(text: string, names: Map<string, string>): string {
  const known = names.get(text);
  if (known !== undefined) return known;
  names.set(text, text);
  return text;
}

/** Fails for a second entry with the same number, so nothing is stored twice. */
export async function insertEntry(transaction: Transaction, entry: SegmentEntry, filter: Uint8Array | undefined): Promise<void> {
  await putEntries(transaction, [{ entry, filter }], "");
}

/** insertEntry() for many entries in one statement. */
export async function insertEntries(transaction: Transaction, added: readonly AddedEntry[]): Promise<void> {
  for (let from = 0; from < added.length; from += maxEntriesAtOnce) {
    await putEntries(transaction, added.slice(from, from + maxEntriesAtOnce), "");
  }
}

/** Replaces the parts of a merged segment, which has the number of its last part. */
export async function replaceEntry(transaction: Transaction, entry: SegmentEntry, filter: Uint8Array | undefined): Promise<void> {
  const changed =
    "first_number rows_before rows bytes min_time max_time services schema_version sha256 stored_at state lookup_filter".split(" ");
  const updates = changed.map((name) => `${name} = excluded.${name}`).join(", ");
  await putEntries(transaction, [{ entry, filter }], `ON CONFLICT (epoch, signal, number) DO UPDATE SET ${updates}`);
}

export interface AddedEntry {
  entry: SegmentEntry;
  filter: Uint8Array | undefined;
}

const maxEntriesAtOnce = 32;

async function putEntries(transaction: Transaction, added: readonly AddedEntry[], onConflict: string): Promise<void> {
  const values = added.map(({ entry, filter }) => [
    entry.agentId,
    entry.epoch,
    entry.signal,
    entry.firstNumber,
    entry.number,
    entry.rowsBefore,
    entry.rows,
    entry.sizeBytes,
    entry.minTimeUs,
    entry.maxTimeUs,
    entry.services === null ? null : JSON.stringify(entry.services),
    entry.schemaVersion,
    entry.sha256,
    entry.storedAtUs,
    entry.state,
    filter ?? null,
  ]);
  const places = values.map((row) => `(${row.map(() => "?").join(", ")})`).join(", ");
  await transaction.run(`INSERT INTO segment.manifest (${columns}, lookup_filter) VALUES ${places} ${onConflict}`, values.flat());
}

export async function deleteEntries(transaction: Transaction, entries: readonly SegmentEntry[]): Promise<void> {
  for (const { epoch, signal, number } of entries) {
    await transaction.run("DELETE FROM segment.manifest WHERE epoch = ? AND signal = ? AND number = ?", [epoch, signal, number]);
  }
}

export async function markLost(transaction: Transaction, { epoch, signal, number }: SegmentEntry): Promise<void> {
  await transaction.run("UPDATE segment.manifest SET state = 'lost' WHERE epoch = ? AND signal = ? AND number = ?", [
    epoch,
    signal,
    number,
  ]);
}

/** Look-up filters of those entries that have one. */
export async function loadFilters(database: Database, entries: readonly SegmentEntry[]): Promise<Map<SegmentEntry, Uint8Array>> {
  const filters = new Map<SegmentEntry, Uint8Array>();
  const byKey = new Map(entries.map((entry) => [`${entry.epoch} ${entry.signal} ${entry.number}`, entry]));
  if (byKey.size === 0) return filters;
  const numbers = entries.map(({ number }) => number);
  const rows = await database.query(
    `SELECT epoch, signal, number, lookup_filter FROM "${database.name}".segment.manifest
     WHERE number BETWEEN ? AND ? AND lookup_filter IS NOT NULL`,
    [numbers.reduce((a, b) => Math.min(a, b)), numbers.reduce((a, b) => Math.max(a, b))],
  );
  for (const row of rows) {
    const entry = byKey.get(`${String(row["epoch"])} ${String(row["signal"])} ${Number(row["number"])}`);
    if (entry && row["lookup_filter"] instanceof Uint8Array) filters.set(entry, row["lookup_filter"]);
  }
  return filters;
}

/** One row of `segment.heads`. */
export interface StoredHead {
  agentId: string;
  epoch: string;
  signal: string;
  /** Number of the last segment; 0 before the first. */
  number: number;
  /** Rows of all segments up to it. */
  rows: number;
  known: number;
}

export async function loadHeads(database: Database): Promise<StoredHead[]> {
  const rows = await database.query(`SELECT * FROM "${database.name}".segment.heads ORDER BY updated_at`);
  return rows.map((row) => ({
    agentId: String(row["agent_id"]),
    epoch: String(row["epoch"]),
    signal: String(row["signal"]),
    number: Number(row["number"]),
    rows: Number(row["rows"]),
    known: Number(row["known"]),
  }));
}

export async function saveHead(transaction: Transaction, head: StoredHead, nowUs: number): Promise<void> {
  await transaction.run(
    `INSERT INTO segment.heads VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (epoch, signal) DO UPDATE SET
       number = excluded.number, rows = excluded.rows, known = excluded.known, updated_at = excluded.updated_at`,
    [head.agentId, head.epoch, head.signal, head.number, head.rows, head.known, nowUs],
  );
}
