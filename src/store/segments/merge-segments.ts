/**
 * Merges small neighbouring segments. A slow stream cut every second would leave 86,400 files a day, and each adds 0.1 ms to every query.
 */

import { createHash } from "node:crypto";
import { createReadStream, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import type { Database } from "../engine/database.ts";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import { buildLookupFilter } from "./lookup-filter.ts";
import { schemaOf } from "./parquet/encode-parquet.ts";
import type { ChangingSegments } from "./segment-catalog.ts";
import { quoted } from "./segment-catalog.ts";
import { renameDurably } from "./segment-files.ts";
import { deleteEntries, replaceEntry, type SegmentEntry } from "./segment-manifest.ts";
import { maxListedServices } from "./write-segment-file.ts";

/** Files with at least this many rows are not merged: rewriting them costs more than it saves. */
const smallRows = 20_000;
/** A merge needs at least this many files to be worthwhile. */
const minFiles = 17;
const maxFiles = 256;
/** Limits of one merge: DuckDB sorts it in memory. */
const maxRows = 60_000;
const maxBytes = 8 * 1024 * 1024;
/** The same limit for uncompressed text; repetitive text may compress 100:1. */
const maxTextBytes = 24 * 1024 * 1024;
/** Files with more than their share of text, which are not merged. Remembered, so that the text is measured only once. */
const wide = new WeakSet<SegmentEntry>();

/**
 * The first group of neighbours worth merging, oldest first; empty if there is none. `entries` belong to one epoch and signal, in order.
 */
export function chooseMerge(entries: readonly SegmentEntry[], schemaVersion: number): SegmentEntry[] {
  let group: SegmentEntry[] = [];
  for (const entry of entries) {
    const last = group.at(-1);
    const isSmall = entry.state === "stored" && entry.rows < smallRows && entry.schemaVersion === schemaVersion && !wide.has(entry);
    const follows = last === undefined || entry.rowsBefore === last.rowsBefore + last.rows;
    const fits =
      sum(group, "rows") + entry.rows <= maxRows && sum(group, "sizeBytes") + entry.sizeBytes <= maxBytes && group.length < maxFiles;
    if (isSmall && follows && fits) {
      group.push(entry);
      continue;
    }
    if (isWorthwhile(group)) return group;
    group = isSmall ? [entry] : [];
  }
  return isWorthwhile(group) ? group : [];
}

/**
 * A merged file is merged again only with at least as many rows from others. So each row is rewritten a few times, not with every merge.
 */
function isWorthwhile(group: SegmentEntry[]): boolean {
  while (group.length >= minFiles) {
    const largest = group.reduce((most, { rows }) => Math.max(most, rows), 0);
    const total = sum(group, "rows");
    if (largest * 2 <= total) return true;
    // The large file usually comes first; the files after it may still form a group.
    const at = group.findIndex(({ rows }) => rows === largest);
    group.splice(0, at + 1);
  }
  return false;
}

function sum(entries: readonly SegmentEntry[], part: "rows" | "sizeBytes"): number {
  return entries.reduce((total, entry) => total + entry[part], 0);
}

/** Replaces `chosen`, or as many of them as fit into memory, with one file. */
export async function replaceByMerged(store: ChangingSegments, signal: SegmentSignal, chosen: readonly SegmentEntry[]): Promise<void> {
  const { database, catalog, unlinks, crashPoints } = store;
  const group = await withinMemory(store, signal, chosen);
  if (group.length === 0) return;
  const files = group.map((entry) => catalog.fileOf(entry));
  const temporary = `${files[0]}.merge.tmp`;
  const { entry, lookupFilter } = await mergeSegments(database, signal, group, files, temporary);
  crashPoints?.reached("merge-written");
  renameDurably(temporary, catalog.fileOf(entry));
  crashPoints?.reached("merge-renamed");
  const isReplaced = await database.write(
    async (transaction) => {
      // A pull or retention may have removed some of them in the meantime.
      const current = new Set(catalog.of(signal.name));
      if (!group.every((one) => current.has(one))) return false;
      await deleteEntries(transaction, group.slice(0, -1));
      await replaceEntry(transaction, entry, lookupFilter);
      return true;
    },
    (replaced) => {
      if (replaced) catalog.replace(group, entry);
    },
  );
  crashPoints?.reached("merge-committed");
  if (!isReplaced) rmSync(catalog.fileOf(entry), { force: true });
  else for (const file of files) unlinks.add(file);
}

async function withinMemory(
  { database, catalog }: ChangingSegments,
  signal: SegmentSignal,
  chosen: readonly SegmentEntry[],
): Promise<SegmentEntry[]> {
  const texts = Object.entries(signal.columns).flatMap(([name, type]) =>
    type.startsWith("text") ? [`coalesce(strlen("${name}"), 0)`] : [],
  );
  if (texts.length === 0) return [...chosen];
  const files = chosen.map((entry) => catalog.fileOf(entry));
  const rows = await database.query(
    `SELECT filename, sum(${texts.join(" + ")})::DOUBLE AS bytes FROM read_parquet([${files.map(quoted).join(", ")}], filename = true) GROUP BY filename`,
  );
  const bytesOf = new Map(rows.map((row) => [String(row["filename"]), Number(row["bytes"])]));
  const sizes = files.map((file) => bytesOf.get(file) ?? 0);
  const tooWide = chosen.filter((_, index) => (sizes[index] ?? 0) > maxTextBytes / minFiles);
  for (const entry of tooWide) wide.add(entry);
  if (tooWide.length > 0) return [];
  let total = 0;
  return chosen.filter((_, index) => (total += sizes[index] ?? 0) <= maxTextBytes);
}

interface MergedSegment {
  entry: SegmentEntry;
  lookupFilter: Uint8Array | undefined;
}

/** Writes the rows of `entries` to `file` and syncs it. */
async function mergeSegments(
  database: Database,
  signal: SegmentSignal,
  entries: readonly SegmentEntry[],
  files: readonly string[],
  file: string,
): Promise<MergedSegment> {
  const [first, last] = [entries[0], entries.at(-1)];
  if (first === undefined || last === undefined) throw new Error("Cannot merge segments: none given");
  const columns = schemaOf(signal).map(({ name }) => `"${name}"`);
  const rows = `read_parquet([${files.map(quoted).join(", ")}])`;
  const options = "FORMAT parquet, COMPRESSION brotli, ROW_GROUP_SIZE 20480";
  try {
    await database.withConnection((connection) =>
      connection.run(`COPY (SELECT ${columns.join(", ")} FROM ${rows} ORDER BY service, "time") TO ${quoted(file)} (${options})`),
    );
    const { sizeBytes, sha256 } = await syncAndHash(file);
    const services = [...new Set(entries.flatMap((entry) => entry.services ?? []))].sort();
    const isListed = services.length <= maxListedServices && entries.every((entry) => entry.services !== null);
    const entry: SegmentEntry = {
      ...last,
      firstNumber: first.firstNumber,
      rowsBefore: first.rowsBefore,
      rows: sum(entries, "rows"),
      sizeBytes,
      sha256,
      minTimeUs: entries.reduce((min, { minTimeUs }) => Math.min(min, minTimeUs), first.minTimeUs),
      maxTimeUs: entries.reduce((max, { maxTimeUs }) => Math.max(max, maxTimeUs), first.maxTimeUs),
      services: isListed ? services : null,
    };
    return { entry, lookupFilter: await lookupFilterOfFile(database, signal, file) };
  } catch (error) {
    rmSync(file, { force: true });
    throw error;
  }
}

async function syncAndHash(file: string): Promise<{ sizeBytes: number; sha256: string }> {
  const handle = await open(file, "r+");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
  const hash = createHash("sha256");
  let sizeBytes = 0;
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    sizeBytes += chunk.length;
  }
  return { sizeBytes, sha256: hash.digest("hex") };
}

/** The same filter that sealing builds. */
export async function lookupFilterOfFile(database: Database, signal: SegmentSignal, file: string): Promise<Uint8Array | undefined> {
  if (signal.lookup === undefined) return undefined;
  const column = `"${signal.lookup}"`;
  const rows = await database.query(
    `SELECT replace(CAST(${column} AS VARCHAR), '-', '') AS id FROM read_parquet(${quoted(file)}) WHERE ${column} IS NOT NULL GROUP BY ${column}`,
  );
  return buildLookupFilter(Buffer.from(rows.map((row) => String(row["id"])).join(""), "hex"), rows.length);
}
