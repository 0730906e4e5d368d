/**
 * Derives calls between services as spans arrive. A called span is joined with its parent among the spans that arrived with it or shortly
 * before. A call whose parent is missing waits for it. So every call counts once, whichever end arrived first, and only the last minute is
 * read twice.
 */

import type { Transaction } from "../../engine/database.ts";
import { span } from "../../signals/span.ts";
import { spanEdge } from "../../signals/spans-derived.ts";
import { quoted } from "../segment-catalog.ts";
import type { SegmentEntry } from "../segment-manifest.ts";
import { type DerivingStep, type DerivingStore, deriveEntries, entriesToDerive, rowsSql, withinStep } from "./derive-span-red.ts";
import { bucketListSql, bucketSql, histogramSql, protocolSql, wholeWeightSql } from "./span-red-sql.ts";

const windowMs = 60_000;
/** Spans processed per step. */
const stepRows = 300_000;
/** How long before a call its parent may have started if the parent arrived first: a server responds while its caller waits. */
const serverReachUs = 60_000_000;
/** The same for messages, which may wait in a queue. */
const consumerReachUs = 600_000_000;
/** Limits on calls that wait for their parents; the newest are kept. Many never get one because their callers send no spans. */
const maxWaiting = 200_000;
const maxWaitingUs = 3_600_000_000;
/** Each step reads the last minute again, so the pause between steps grows with its row count. */
const rowsPerSecond = 20_000;
const longestPauseMs = 60_000;

const callColumns = 'source, trace_id, span_id, parent_span_id, service, protocol, kind, "time", duration_ns, is_error, weight';

/** Time of the last step, monotonic. One per store. */
export interface EdgePace {
  steppedAtMs: number;
}

/** Processes segments that arrived since the last step. False if there are none, or if the next step is not due yet. */
export async function deriveSpanEdges(store: DerivingStore, pace: EdgePace, nowMs: number): Promise<boolean> {
  const product = spanEdge.name;
  const waiting = entriesToDerive(store, product);
  if (waiting.length === 0) return false;
  const taken = withinStep(waiting, stepRows);
  const isAll = taken.length === waiting.length;
  const pauseMs = Math.min(
    longestPauseMs,
    Math.floor((sumRows(taken) + sumRows(neighbours(store, taken, serverReachUs))) / rowsPerSecond) * 1_000,
  );
  if (isAll && nowMs - pace.steppedAtMs < pauseMs) return false;
  await deriveEntries(store, product, taken, processEntries);
  pace.steppedAtMs = nowMs;
  return !isAll;
}

async function processEntries(transaction: Transaction, store: DerivingStore, step: DerivingStep): Promise<void> {
  const { entries, ingest, nowUs } = step;
  const before = neighbours(store, entries, serverReachUs);
  const columns = `trace_id, span_id, parent_span_id, service, "time", duration_ns, weight, kind, ${protocolSql} AS protocol,
    status = 'error' OR coalesce(http_status_code, 0) >= 500 AS is_error`;
  const called = `SELECT ${callColumns} FROM (${rowsSql(store, step, columns)}) WHERE kind IN ('server', 'consumer') AND parent_span_id IS NOT NULL`;
  const fresh = idsSql(store, entries);
  // Duplicate spans count as one call, whichever end they are, also if the first copy arrived up to a minute ago.
  const copies =
    before.length === 0
      ? ""
      : `ANTI JOIN (${idsSql(store, before)}) o ON o.trace_id = c.trace_id AND o.span_id = c.span_id AND o.service = c.service`;
  const parents = before.length === 0 ? fresh : `${fresh} UNION ALL ${idsSql(store, before)}`;
  await transaction.run(`CREATE OR REPLACE TEMP TABLE found_calls AS
    WITH called AS MATERIALIZED (SELECT * FROM (${called}) c ${copies})
    SELECT DISTINCT ON (c.trace_id, c.span_id, c.service, c."time", c.duration_ns) c.*, p.service AS client
    FROM called c LEFT JOIN (${parents}) p ON p.trace_id = c.trace_id AND p.span_id = c.parent_span_id`);
  await joinOldParents(transaction, store, entries);
  await transaction.run(`INSERT INTO temp.found_calls SELECT DISTINCT ON (w.rowid) ${prefixed("w")}, p.service
    FROM segment.waiting_calls w JOIN (${fresh}) p ON p.trace_id = w.trace_id AND p.span_id = w.parent_span_id`);
  await transaction.run(`DELETE FROM segment.waiting_calls w USING temp.found_calls f
    WHERE f.client IS NOT NULL AND f.trace_id = w.trace_id AND f.span_id = w.span_id AND f.service = w.service`);
  await transaction.run(insertEdgesSql(ingest, nowUs));
  await transaction.run(
    `INSERT INTO segment.waiting_calls SELECT ${callColumns}, make_timestamp(${nowUs}) FROM temp.found_calls WHERE client IS NULL`,
  );
  await transaction.run("DROP TABLE temp.found_calls");
  await transaction.run(`DELETE FROM segment.waiting_calls WHERE since < make_timestamp(${nowUs - maxWaitingUs})
    OR since <= (SELECT since FROM segment.waiting_calls ORDER BY since DESC LIMIT 1 OFFSET ${maxWaiting})`);
}

/** Searches for producers that ended long before their message was consumed. Runs only if such messages are waiting. */
async function joinOldParents(transaction: Transaction, store: DerivingStore, entries: readonly SegmentEntry[]): Promise<void> {
  const [row] = await transaction.query("SELECT count(*) AS calls FROM temp.found_calls WHERE client IS NULL AND kind = 'consumer'");
  const older = Number(row?.["calls"] ?? 0) === 0 ? [] : neighbours(store, entries, consumerReachUs);
  if (older.length === 0) return;
  await transaction.run(`UPDATE temp.found_calls f SET client = p.service FROM (
      SELECT DISTINCT ON (trace_id, span_id) * FROM (${idsSql(store, older)})
      WHERE trace_id IN (SELECT trace_id FROM temp.found_calls WHERE client IS NULL AND kind = 'consumer')
    ) p WHERE f.client IS NULL AND f.kind = 'consumer' AND p.trace_id = f.trace_id AND p.span_id = f.parent_span_id`);
}

const prefixed = (name: string): string =>
  callColumns
    .split(", ")
    .map((column) => `${name}.${column}`)
    .join(", ");

function insertEdgesSql(ingest: number, nowUs: number): string {
  const keys = "source, win, client, service, protocol";
  const counted = `SELECT source, time_bucket(INTERVAL ${windowMs} MILLISECONDS, "time") AS win, client, service, protocol, ${bucketSql("duration_ns")} AS bucket,
      sum(${wholeWeightSql}) AS whole, sum(weight) AS weight, coalesce(sum(weight) FILTER (is_error), 0) AS errors, min("time") AS first_seen, max("time") AS last_seen
    FROM temp.found_calls WHERE client <> service GROUP BY ALL`;
  return `INSERT INTO raw.span_edge (source, ingest, stored_at, seq, "time", mono_ms, client, server, protocol, window_ms, requests, errors, first_seen, last_seen,
      duration_lo, duration_counts)
    SELECT source, ${ingest}, make_timestamp(${nowUs}), 0, win, 0, client, service, protocol, ${windowMs}, requests, errors, first_seen, last_seen, ${histogramSql}
    FROM (
      SELECT ${keys}, sum(weight) AS requests, sum(errors) AS errors, min(first_seen) AS first_seen, max(last_seen) AS last_seen, ${bucketListSql} AS buckets
      FROM (${counted}) GROUP BY ${keys}
    ) ORDER BY client, service`;
}

/** SQL for the ids of all spans in some files, with their services. */
function idsSql({ segments }: DerivingStore, entries: readonly SegmentEntry[]): string {
  return `SELECT trace_id, span_id, service FROM read_parquet([${entries.map((entry) => quoted(segments.fileOf(entry))).join(", ")}])`;
}

/** Segments processed earlier whose spans may be parents or duplicates of those in `entries`. */
function neighbours({ segments, progress }: DerivingStore, entries: readonly SegmentEntry[], reachUs: number): SegmentEntry[] {
  const fromUs = entries.reduce((first, { minTimeUs }) => Math.min(first, minTimeUs), Number.POSITIVE_INFINITY) - reachUs;
  const untilUs = entries.reduce((last, { maxTimeUs }) => Math.max(last, maxTimeUs), Number.NEGATIVE_INFINITY);
  return segments
    .entriesOf(span.name)
    .filter(
      (entry) =>
        entry.state === "stored" &&
        entry.rows > 0 &&
        entry.maxTimeUs >= fromUs &&
        entry.minTimeUs <= untilUs &&
        progress.isDone(spanEdge.name, entry),
    );
}

function sumRows(entries: readonly SegmentEntry[]): number {
  return entries.reduce((sum, { rows }) => sum + rows, 0);
}
