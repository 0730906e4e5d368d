/** Loads a suite of incidents into a colony's own tables: metrics as a pull of an agent, spans and log records as its segments. */

import { copyFileSync, createReadStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "../../src/base/log.ts";
import { annotateLogs } from "../../src/otlp/logs/annotate-logs.ts";
import { LogTemplates } from "../../src/otlp/logs/log-templates.ts";
import { type ColonyStore, openColonyStore } from "../../src/store/colony/index.ts";
import { batchFromRows } from "../../src/store/columns/column-batch.ts";
import { encodeBatch } from "../../src/store/columns/column-codec.ts";
import { openEngine } from "../../src/store/engine/index.ts";
import { batchFromSegmentRows, type SegmentBatch, type TextColumn, writeSegmentFile } from "../../src/store/segments/index.ts";
import { derivedSignals, logRecord, metricPoint, type SegmentSignal, signals, span } from "../../src/store/signals/index.ts";
import type { RcaSuite, SeriesTimes } from "./rca-cases.ts";

/** The recordings of a suite in a colony's store. */
export interface LoadedSuite extends AsyncDisposable {
  store: ColonyStore;
  series: SeriesTimes;
  /** Offset added to the times of a series, so that relative times of different cases do not overlap. */
  shiftMs: (series: string) => number;
}

/** Rows per insert. */
const batchRows = 50_000;
const agent = { agentId: "recording", epoch: "recording" };
const gibibyte = 1024 ** 3;
/** Start of relative times, one day per case. */
const firstMs = Date.UTC(2026, 0, 1);
const dayMs = 86_400_000;

export async function loadSuite(suite: RcaSuite): Promise<LoadedSuite> {
  const directory = mkdtempSync(join(tmpdir(), "coral-rca-"));
  const engine = await openEngine({
    dataDirectories: [directory],
    memoryLimitBytes: gibibyte,
    threads: 2,
    tempDirectory: directory,
    log: silentLogger,
  });
  const clock = { wallMs: () => Date.now(), monotonicMs: () => performance.now() };
  const store = await openColonyStore(engine, {
    file: join(directory, "colony.duckdb"),
    signals: [...signals, ...derivedSignals],
    maxBytes: 8 * gibibyte,
    clock,
    log: silentLogger,
    segments: { signals: [span as SegmentSignal, logRecord as SegmentSignal], directory, maxBytes: 8 * gibibyte, unlinkDelayMs: 1 },
  });
  const loader = new Loader(store, suite, directory);
  const series = await loader.readSeries();
  const ids = [...series.keys()].sort();
  const isRelative = [...series.values()].every(({ last }) => last < 1e8);
  const shiftMs = (id: string): number => (isRelative ? firstMs + ids.indexOf(id) * dayMs : 0);
  await loader.loadMetrics(shiftMs);
  if (suite.has("spans.parquet")) await loader.loadSpans();
  if (suite.has("logs.parquet")) await loader.loadLogs();
  await loader.loadEdges(series, shiftMs);
  return {
    store,
    series,
    shiftMs,
    [Symbol.asyncDispose]: async () => {
      await store.close();
      await engine.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

class Loader {
  readonly #store: ColonyStore;
  readonly #suite: RcaSuite;
  readonly #directory: string;
  readonly #segments = new Map<string, { number: number; rows: number }>();
  #seq = 0;

  constructor(store: ColonyStore, suite: RcaSuite, directory: string) {
    this.#store = store;
    this.#suite = suite;
    this.#directory = directory;
  }

  async readSeries(): Promise<SeriesTimes> {
    const rows = await this.#store.query(
      `SELECT series_id, min(ts) AS first, max(ts) AS last FROM ${this.#file("metrics.parquet")} GROUP BY series_id`,
    );
    return new Map(rows.map((row) => [String(row["series_id"]), { first: Number(row["first"]), last: Number(row["last"]) }]));
  }

  async loadMetrics(shiftMs: (series: string) => number): Promise<void> {
    let rows: Parameters<typeof batchFromRows<(typeof metricPoint)["columns"]>>[1][number][] = [];
    const sql = `SELECT series_id, service, metric, ts, value, printf('%016x', hash(series_id, service, metric)) AS series
      FROM ${this.#file("metrics.parquet")} WHERE value IS NOT NULL AND isfinite(value) ORDER BY series_id, ts`;
    const chunks: (typeof rows)[] = [];
    await this.#store.visit(sql, undefined, (row) => {
      const point = { at: Math.round(Number(row["ts"]) * 1_000_000) + shiftMs(String(row["series_id"])) * 1_000, mono_ms: 0 };
      rows.push({
        ...emptyPoint,
        ...point,
        service: String(row["service"]),
        name: String(row["metric"]),
        series: String(row["series"]),
        value: Number(row["value"]),
      });
      if (rows.length < batchRows) return;
      chunks.push(rows);
      rows = [];
    });
    for (const chunk of [...chunks, rows]) {
      if (chunk.length === 0) continue;
      const batch = encodeBatch(batchFromRows(metricPoint, chunk), this.#seq + 1);
      this.#seq += chunk.length;
      const slice = { signal: metricPoint.name, oldestSeq: 1, nextSeq: this.#seq + 1, batch };
      const [outcome] = await this.#store.applyPulls([{ ...agent, slices: [slice], losses: [] }]);
      if (outcome?.error) throw outcome.error;
    }
  }

  async loadSpans(): Promise<void> {
    await this.#inChunks(
      `SELECT trace, span, parent, service, operation, start_us, dur_us FROM ${this.#file("spans.parquet")} ORDER BY start_us`,
      (row) => ({
        time: Number(row["start_us"]),
        service: String(row["service"]),
        trace_id: idOf(row["trace"], 32),
        span_id: idOf(row["span"], 16),
        parent_span_id: isId(row["parent"]) ? idOf(row["parent"], 16) : null,
        name: String(row["operation"]),
        kind: "internal",
        duration_ns: Number(row["dur_us"]) * 1_000,
        status: "unset",
        weight: 1,
      }),
      (rows) => this.#storeSegment(span as SegmentSignal, batchFromSegmentRows(span, rows)),
    );
  }

  /** A record's time is in its text; a truncated one gets the time of its span. Records that the recording contains twice count once. */
  async loadLogs(): Promise<void> {
    const templates = new LogTemplates();
    const spans = this.#suite.has("spans.parquet")
      ? `(SELECT trace, span, min(start_us) AS start_us FROM ${this.#file("spans.parquet")} GROUP BY trace, span)`
      : null;
    const time = `epoch_us(try_cast(regexp_extract(l.log, '"time":"([^"]+)"', 1) AS TIMESTAMP))`;
    const sql =
      spans === null
        ? `SELECT DISTINCT service, trace, span, log, ${time} AS at_us FROM ${this.#file("logs.parquet")} l`
        : `SELECT DISTINCT l.service, l.trace, l.span, l.log, coalesce(${time}, s.start_us) AS at_us FROM ${this.#file("logs.parquet")} l LEFT JOIN ${spans} s USING (trace, span)`;
    await this.#inChunks(
      `SELECT * FROM (${sql}) WHERE at_us IS NOT NULL ORDER BY at_us, log`,
      (row) => {
        const text = messageOf(String(row["log"]));
        const severity = severityOf(text);
        return {
          time: Number(row["at_us"]),
          service: String(row["service"]),
          severity: severity.name,
          severity_number: severity.number,
          body: text,
          trace_id: isId(row["trace"]) ? idOf(row["trace"], 32) : null,
          span_id: isId(row["span"]) ? idOf(row["span"], 16) : null,
          observed_time_us: Number(row["at_us"]),
        };
      },
      async (rows) => {
        const { rows: count, columns } = batchFromSegmentRows(logRecord, rows);
        const body = textColumnOf(rows.map((row) => row.body));
        await this.#storeSegment(logRecord as SegmentSignal, annotateLogs({ rows: count, columns: { ...columns, body } }, templates).batch);
      },
      // As if the agent had read these services for a long time and knew their patterns.
      (rows) => {
        for (const { service, body } of rows) templates.find(service, body);
      },
    );
  }

  /** Calls listed in the recording, stored like calls that were derived from spans. */
  async loadEdges(series: SeriesTimes, shiftMs: (series: string) => number): Promise<void> {
    const { edges } = this.#suite;
    if (edges.length === 0) return;
    const [id = "", { first } = { first: 0 }] = [...series][0] ?? [];
    const at = `make_timestamp(${Math.round(first * 1_000 + shiftMs(id)) * 1_000})`;
    await this.#store.write(async (transaction) => {
      for (const [caller, callee] of edges) {
        await transaction.run(
          `INSERT INTO raw.span_edge (source, ingest, stored_at, seq, "time", mono_ms, client, server, protocol, window_ms, requests, errors, first_seen, last_seen, duration_lo, duration_counts)
           VALUES (1, 1, ${at}, 0, ${at}, 0, '${caller.replaceAll("'", "''")}', '${callee.replaceAll("'", "''")}', 'http', 60000, 1, 0, ${at}, ${at}, 0, [])`,
        );
      }
    });
  }

  /** DuckDB may read files in the store's folder only. */
  #file(name: string): string {
    const file = join(this.#directory, `input-${name}`);
    copyFileSync(join(this.#suite.directory, name), file);
    return `read_parquet('${file}')`;
  }

  async #inChunks<T>(
    sql: string,
    rowOf: (row: Record<string, unknown>) => T,
    store: (rows: T[]) => Promise<void>,
    learn?: (rows: T[]) => void,
  ): Promise<void> {
    let rows: T[] = [];
    const chunks: T[][] = [];
    await this.#store.visit(sql, undefined, (row) => {
      rows.push(rowOf(row));
      if (rows.length < batchRows) return;
      chunks.push(rows);
      rows = [];
    });
    const all = [...chunks, rows].filter((chunk) => chunk.length > 0);
    if (learn) for (const chunk of all) learn(chunk);
    for (const chunk of all) await store(chunk);
  }

  async #storeSegment(signal: SegmentSignal, batch: SegmentBatch): Promise<void> {
    const { segments } = this.#store;
    if (segments === undefined) throw new Error("the store was opened without segments");
    const before = this.#segments.get(signal.name) ?? { number: 0, rows: 0 };
    const number = before.number + 1;
    const file = join(this.#directory, `${signal.name}-${number}.written`);
    const summary = writeSegmentFile(signal, batch, file);
    const offer = { signal: signal.name, firstNumber: number, number, rowsBefore: before.rows, isLost: false, ...summary };
    await segments.receive(agent.agentId, agent.epoch, offer, createReadStream(file));
    const totalRows = before.rows + batch.rows;
    await segments.commit({ ...agent, signals: [{ signal: signal.name, lastNumber: number, totalRows, offers: [offer], isAll: true }] });
    this.#segments.set(signal.name, { number, rows: totalRows });
    rmSync(file);
  }
}

const emptyPoint = {
  unit: "",
  kind: "gauge",
  temporality: null,
  is_monotonic: false,
  attributes: "{}",
  service_version: null,
  service_instance: null,
  start_time: null,
  special: null,
  count: null,
  sum: null,
  min: null,
  max: null,
  bounds: null,
  counts: null,
  scale: null,
  zero_count: null,
  zero_threshold: null,
  positive_offset: null,
  positive_counts: null,
  negative_offset: null,
  negative_counts: null,
  quantiles: null,
};

/** As OTLP decoders do: text is never a dictionary, even with few values. */
function textColumnOf(values: readonly string[]): TextColumn {
  const parts = values.map((value) => Buffer.from(value));
  const offsets = new Uint32Array(parts.length + 1);
  for (const [index, part] of parts.entries()) offsets[index + 1] = (offsets[index] ?? 0) + part.length;
  return { kind: "text", bytes: Buffer.concat(parts), offsets };
}

const isId = (value: unknown): boolean => /^[0-9a-f]+$/i.test(String(value));
const idOf = (value: unknown, digits: number): string => String(value).toLowerCase().padStart(digits, "0").slice(-digits);

/** The line that the program wrote, extracted from the container runtime's format. */
function messageOf(text: string): string {
  const inner = /^\{"log":"((?:[^"\\]|\\.)*)/.exec(text)?.[1];
  const line = inner === undefined ? text : inner.replace(/\\n/g, " ").replace(/\\"/g, '"').replace(/\\\\/g, "\\");
  const message = /"message":\s*"((?:[^"\\]|\\.)*)/.exec(line)?.[1];
  return message ?? line;
}

function severityOf(text: string): { name: string; number: number } {
  const word = /\b(error|warn|fatal)/i.exec(text.slice(0, 60))?.[1]?.toLowerCase();
  if (word === "error") return { name: "error", number: 17 };
  if (word === "fatal") return { name: "fatal", number: 21 };
  return word === "warn" ? { name: "warn", number: 13 } : { name: "info", number: 9 };
}
