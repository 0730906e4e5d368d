import { CoralError } from "../../../base/errors.ts";
import type { Logger } from "../../../base/log.ts";
import type { Database, Transaction } from "../../engine/database.ts";
import { span } from "../../signals/span.ts";
import { spanRed, spanService } from "../../signals/spans-derived.ts";
import type { ColonySegments } from "../colony-segments.ts";
import { quoted } from "../segment-catalog.ts";
import type { SegmentEntry } from "../segment-manifest.ts";
import type { DerivedProgress } from "./derived-progress.ts";
import { crowdedSql, spanRedColumns, spanRedKeys, spanRedSql, spanServiceKeys } from "./span-red-sql.ts";

/** What a derivation step needs from the store. */
export interface DerivingStore {
  database: Database;
  segments: Pick<ColonySegments, "entriesOf" | "fileOf" | "emptyFileOf">;
  progress: DerivedProgress;
  /** `work` gets the source numbers of the entries, in order, and the number of this step. */
  write<T>(
    entries: readonly SegmentEntry[],
    work: (transaction: Transaction, step: { ingest: number; nowUs: number; sources: readonly number[] }) => Promise<T>,
    committed: (result: T) => void,
  ): Promise<T>;
  log: Logger;
}

/** Spans read per step: limits memory, and how long other writers wait. */
const stepRows = 200_000;

/** Converts segments that arrived since the last step into rows of `span_red` and `span_service`. False if there are none. */
export async function deriveSpanRed(store: DerivingStore): Promise<boolean> {
  const product = spanRed.name;
  const waiting = entriesToDerive(store, product);
  if (waiting.length === 0) return false;
  const taken = withinStep(waiting, stepRows);
  await deriveEntries(store, product, taken, makeRows);
  return waiting.length > taken.length;
}

/** Derives rows from segments in one transaction. `entries` have rows; `sources` are their source numbers. */
export interface DerivingStep {
  entries: readonly SegmentEntry[];
  sources: readonly number[];
  ingest: number;
  nowUs: number;
}

export type MakeRows = (transaction: Transaction, store: DerivingStore, step: DerivingStep) => Promise<void>;

/** Derives all at once. If that fails, one by one, skipping segments that fail alone, so that they do not block later ones. */
export async function deriveEntries(store: DerivingStore, product: string, taken: readonly SegmentEntry[], make: MakeRows): Promise<void> {
  try {
    await deriveAtOnce(store, product, taken, make);
  } catch (error) {
    // The disk is full or the store is closing: retry later.
    if (CoralError.from(error).code === "unavailable") throw error;
    if (taken.length > 1) {
      for (const entry of taken) await deriveEntries(store, product, [entry], make);
      return;
    }
    store.log.error("skipping a segment that cannot be counted", {
      product,
      file: taken.map((entry) => store.segments.fileOf(entry))[0],
      error,
    });
    await deriveAtOnce(store, product, taken, () => Promise.resolve());
  }
}

async function deriveAtOnce(store: DerivingStore, product: string, taken: readonly SegmentEntry[], make: MakeRows): Promise<void> {
  const usable = taken.map((entry) => isUsable(store, product, entry));
  await store.write(
    taken,
    async (transaction, { sources, ...step }) => {
      const chosen = <T>(list: readonly T[]): T[] => list.filter((_, index) => usable[index]);
      if (usable.includes(true)) await make(transaction, store, { ...step, entries: chosen(taken), sources: chosen(sources) });
      await store.progress.save(transaction, product, taken);
    },
    () => store.progress.apply(product, taken),
  );
}

async function makeRows(transaction: Transaction, store: DerivingStore, step: DerivingStep): Promise<void> {
  const { ingest, nowUs } = step;
  const rows = rowsSql(store, step, spanRedColumns);
  const isCrowded = (await transaction.query(crowdedSql(rows))).length > 0;
  const insert = async (table: string, keys: string, isBounded: boolean): Promise<void> => {
    const amounts = "spans, requests, duration_us, duration_lo, duration_counts";
    await transaction.run(
      `INSERT INTO raw.${table} (source, ingest, stored_at, seq, "time", mono_ms, window_ms, ${keys}, ${amounts})
       SELECT source, ${ingest}, make_timestamp(${nowUs}), 0, "time", 0, window_ms, ${keys}, ${amounts}
       FROM (${spanRedSql(rows, nowUs, keys, isBounded)}) ORDER BY service`,
    );
  };
  await insert(spanRed.name, spanRedKeys, isCrowded);
  await insert(spanService.name, spanServiceKeys, false);
  await rememberProcesses(transaction, rowsSql(store, step, 'service, "time", resource'));
}

/** Pairs of service and agent whose resource attributes are stored. */
const processesMax = 100_000;

async function rememberProcesses(transaction: Transaction, rows: string): Promise<void> {
  await transaction.run(`INSERT INTO segment.span_processes
    SELECT source, service, arg_max(resource, "time"), max("time") FROM (${rows}) WHERE resource IS NOT NULL GROUP BY source, service
    ON CONFLICT (source, service) DO UPDATE SET resource = excluded.resource, seen = excluded.seen WHERE excluded.seen > span_processes.seen`);
  await transaction.run(
    `DELETE FROM segment.span_processes WHERE seen <= (SELECT seen FROM segment.span_processes ORDER BY seen DESC LIMIT 1 OFFSET ${processesMax})`,
  );
}

/** Entries not derived yet, in order of number within an epoch. */
export function entriesToDerive({ segments, progress }: DerivingStore, product: string): SegmentEntry[] {
  return segments
    .entriesOf(span.name)
    .filter((entry) => !progress.isDone(product, entry))
    .sort((a, b) => (a.epoch < b.epoch ? -1 : a.epoch > b.epoch ? 1 : a.number - b.number));
}

export function withinStep(entries: readonly SegmentEntry[], maxRows: number): SegmentEntry[] {
  let rows = 0;
  const end = entries.findIndex((entry) => (rows += entry.rows) > maxRows);
  return entries.slice(0, end < 0 ? entries.length : Math.max(1, end));
}

/** False for an unreadable file, and for a merged one of which a part was derived already: the rest is left out of the sums. */
function isUsable({ progress, log }: DerivingStore, product: string, entry: SegmentEntry): boolean {
  if (entry.rows === 0 || entry.state === "lost") return false;
  if (!progress.isPartlyDone(product, entry)) return true;
  log.warn("skipping a segment that was merged after a part of it had been counted", { signal: entry.signal, rows: entry.rows });
  return false;
}

/** SQL for the rows of the files, with the number of their source. */
export function rowsSql({ segments }: DerivingStore, { entries, sources }: DerivingStep, columns: string): string {
  const files = entries.map((entry) => segments.fileOf(entry));
  const isMixed = entries.some(({ schemaVersion }) => schemaVersion !== span.version);
  const list = isMixed ? [segments.emptyFileOf(span), ...files] : files;
  return `SELECT f.source, ${columns} FROM read_parquet([${list.map(quoted).join(", ")}], filename = true${isMixed ? ", union_by_name = true" : ""}) r
    JOIN (VALUES ${files.map((file, index) => `(${quoted(file)}, ${sources[index]})`).join(", ")}) f(file, source) ON f.file = r.filename`;
}
