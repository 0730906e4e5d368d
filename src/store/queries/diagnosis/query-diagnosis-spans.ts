/**
 * Spans and log records of both periods, by whole traces: self time per operation, gaps of calls between services, and what operations do.
 * Many traces are sampled evenly, which bounds the cost of a diagnosis.
 */

import type {
  DiagnosisTimesRequest,
  LinkFact,
  OperationFact,
  StepCounts,
  StepFact,
  TimeRange,
  TimesFact,
} from "../../../model/diagnosis.ts";
import type { SegmentReader } from "../../segments/segment-source.ts";
import { logRecord } from "../../signals/log.ts";
import { span } from "../../signals/span.ts";
import { type Queryable, type QueryRow, textIn } from "../../tables/queryable.ts";
import { rangesSql } from "./ranges-sql.ts";

export interface SpanEvidence {
  operations: OperationFact[];
  links: LinkFact[];
  steps: StepFact[];
}

/** Approximate number of spans read per period; beyond it, traces are sampled. */
const spansRead = 120_000;
/**
 * Where fewer than one trace in so many would be read, whole slices of the time are left out and one in `sampledInSlice` of the rest is read: to find a few
 * traces among all costs as much as to read all.
 */
const sliceFrom = 8;
const sampledInSlice = 4;
const sliceCount = 8;
const sliceLeadMs = 5_000;
const sliceTailMs = 10_000;
const spanColumns = 'trace_id, span_id, parent_span_id, service, name, "time", duration_ns';
/** Traces that began in the last seconds may be incomplete. */
const settleMs = 5_000;
const rowsMax = 50_000;

export async function queryDiagnosisSpans(
  store: Queryable & { readonly segments: SegmentReader | undefined },
  { before, after }: DiagnosisTimesRequest,
): Promise<SpanEvidence> {
  const none = { operations: [], links: [], steps: [] };
  if (store.segments === undefined) return none;
  const { segments } = store;
  const logs = await segments.segmentSource(logRecord, reachOf([...before, after]));
  const usualRows = await rowsIn(segments, before);
  const nowRows = await rowsIn(segments, [after]);
  if (usualRows + nowRows === 0) return none;
  const usual = await sampleUsual(segments, before, usualRows);
  const settled = { fromMs: after.fromMs, untilMs: Math.max(after.fromMs, after.untilMs - settleMs) };
  const sideSql = `CASE WHEN ${rangesSql("first_ts", [settled])} THEN 1 WHEN ${rangesSql("first_ts", usual.ranges)} THEN 0 ELSE 2 END`;
  const chosen = [await sampledSql(segments, [after], oneIn(nowRows)), ...usual.sql].join(" UNION ALL ");
  const rows = await store.query(evidenceSql({ chosen, logs: logs.rows === 0 ? null : logs.sql, sideSql }));
  return {
    operations: rows.filter((row) => row["what"] === "operation").map(operationIn),
    links: rows.filter((row) => row["what"] === "link").map(linkIn),
    steps: await withTemplates(store, rows.filter((row) => row["what"] === "step").map(stepIn)),
  };
}

async function rowsIn(segments: SegmentReader, ranges: readonly TimeRange[]): Promise<number> {
  let rows = 0;
  for (const range of ranges) rows += (await segments.segmentSource(span, reachOf([range]))).rows;
  return rows;
}

/** Spans of usual times, and the times in which their traces began. */
async function sampleUsual(
  segments: SegmentReader,
  before: readonly TimeRange[],
  rows: number,
): Promise<{ sql: string[]; ranges: readonly TimeRange[] }> {
  if (before.length === 0) return { sql: [], ranges: [] };
  if (oneIn(rows) < sliceFrom) return { sql: [await sampledSql(segments, before, oneIn(rows))], ranges: before };
  const slices = slicesOf(before, sampledInSlice / oneIn(rows));
  // Traces that began before their slice are recognized, and those that end after it are whole.
  const reached = slices.map(({ fromMs, untilMs }) => ({ fromMs: fromMs - sliceLeadMs, untilMs: untilMs + sliceTailMs }));
  return { sql: await Promise.all(reached.map((range) => sampledSql(segments, [range], sampledInSlice))), ranges: slices };
}

/** Spans of one in so many traces. */
async function sampledSql(segments: SegmentReader, ranges: readonly TimeRange[], part: number): Promise<string> {
  const { sql } = await segments.segmentSource(span, reachOf(ranges));
  return `SELECT ${spanColumns} FROM ${sql} WHERE ${rangesSql('"time"', ranges)} AND hash(trace_id) % ${part} = 0`;
}

/** Evenly spread parts of the ranges that are so much of them together: what is not looked at is not read. */
function slicesOf(ranges: readonly TimeRange[], share: number): TimeRange[] {
  const sliceMs = durationMs(ranges) / sliceCount;
  return ranges.flatMap(({ fromMs, untilMs }) => {
    const count = Math.max(1, Math.round((untilMs - fromMs) / sliceMs));
    const eachMs = (untilMs - fromMs) / count;
    return Array.from({ length: count }, (_, index) => ({
      fromMs: Math.floor(fromMs + index * eachMs),
      untilMs: Math.floor(fromMs + (index + share) * eachMs),
    }));
  });
}

const durationMs = (ranges: readonly TimeRange[]): number => ranges.reduce((sum, { fromMs, untilMs }) => sum + untilMs - fromMs, 0);

const oneIn = (rows: number): number => Math.max(1, Math.round(rows / spansRead));

/** Replaces the pattern ids of log records with their templates. */
async function withTemplates(store: Queryable, steps: StepFact[]): Promise<StepFact[]> {
  if (!steps.some(({ kind }) => kind === "log")) return steps;
  const rows = await store.query("SELECT pattern, any_value(template) AS template FROM raw.log_pattern GROUP BY pattern");
  const templates = new Map(rows.map((row) => [textIn(row, "pattern"), textIn(row, "template")]));
  return steps.map((step) => (step.kind === "log" ? { ...step, child: templates.get(step.child) ?? step.child } : step));
}

function reachOf(ranges: readonly TimeRange[]): { fromUs: number; untilUs: number } {
  return {
    fromUs: Math.min(...ranges.map(({ fromMs }) => fromMs)) * 1_000,
    untilUs: Math.max(...ranges.map(({ untilMs }) => untilMs)) * 1_000,
  };
}

const quantiles = (value: string, side: number): string =>
  `[count(*) FILTER (side = ${side})] || coalesce(quantile_cont(${value}, [0.25, 0.5, 0.75, 0.9]) FILTER (side = ${side}), [0, 0, 0, 0])`;

interface EvidenceSources {
  chosen: string;
  logs: string | null;
  sideSql: string;
}

/** One statement, so that spans are read once. The meaning of `numbers` depends on `what`. */
function evidenceSql({ chosen, logs, sideSql }: EvidenceSources): string {
  const sums = (side: number): string =>
    `[any_value(o.traces_${side}), any_value(o.spans_${side}), any_value(o.squares_${side})]
     || [coalesce(sum(r) FILTER (i.side = ${side}), 0), coalesce(sum(r * r) FILTER (i.side = ${side}), 0), coalesce(sum(r * n) FILTER (i.side = ${side}), 0)]`;
  const totals = (side: number): string =>
    `count(*) FILTER (side = ${side}) AS traces_${side}, coalesce(sum(n) FILTER (side = ${side}), 0) AS spans_${side}, coalesce(sum(n * n) FILTER (side = ${side}), 0) AS squares_${side}`;
  const logItems =
    logs === null
      ? ""
      : `UNION ALL SELECT l.service, s.name, 'log', l.service, l.pattern, any_value(l.severity), s.trace_id, s.side, count(*)
         FROM (SELECT trace_id, span_id, service, pattern, severity FROM ${logs} WHERE pattern IS NOT NULL AND trace_id IN (SELECT trace_id FROM traces)) l
         JOIN s ON s.trace_id = l.trace_id AND s.span_id = l.span_id GROUP BY ALL`;
  return `WITH chosen AS MATERIALIZED (
      SELECT DISTINCT * FROM (${chosen})
    ), traces AS MATERIALIZED (
      SELECT trace_id, ${sideSql} AS side FROM (SELECT trace_id, min("time") AS first_ts FROM chosen GROUP BY trace_id)
    ), s AS MATERIALIZED (
      SELECT c.*, t.side FROM chosen c JOIN traces t USING (trace_id) WHERE t.side < 2
    ), k AS (
      SELECT trace_id, parent_span_id AS span_id, sum(duration_ns) AS child_ns FROM s WHERE parent_span_id IS NOT NULL GROUP BY ALL
    ), j AS MATERIALIZED (
      SELECT s.trace_id, s.span_id, s.side, s.service, s.name, s.duration_ns / 1000 AS whole_us, greatest(0, s.duration_ns - coalesce(k.child_ns, 0)) / 1000 AS self_us,
        p.service AS caller, p.name AS caller_name, greatest(0, p.duration_ns - s.duration_ns) / 1000 AS gap_us
      FROM s LEFT JOIN s p ON p.trace_id = s.trace_id AND p.span_id = s.parent_span_id AND p.span_id <> s.span_id
      LEFT JOIN k ON k.trace_id = s.trace_id AND k.span_id = s.span_id
    ), remote AS (
      SELECT DISTINCT caller, caller_name FROM j WHERE caller <> service
    ), n AS MATERIALIZED (
      SELECT service, name, trace_id, side, count(*) AS n FROM s GROUP BY ALL
    ), o AS (
      SELECT service, name, ${totals(0)}, ${totals(1)} FROM n GROUP BY service, name
    ), items AS MATERIALIZED (
      SELECT caller AS service, caller_name AS name, 'span' AS kind, service AS child_service, name AS child, '' AS severity, trace_id, side, count(*) AS r
      FROM j WHERE caller IS NOT NULL GROUP BY ALL
      ${logItems}
    )
    SELECT 'operation' AS what, service AS a, name AS b, CASE WHEN any_value(r.caller) IS NULL THEN '' ELSE 'call' END AS c, '' AS d, '' AS e,
      ${quantiles("self_us", 0)} || [coalesce(median(whole_us) FILTER (side = 0), 0)] || ${quantiles("self_us", 1)} || [coalesce(median(whole_us) FILTER (side = 1), 0)] AS numbers
    FROM j LEFT JOIN remote r ON r.caller = j.service AND r.caller_name = j.name GROUP BY service, name
    UNION ALL SELECT 'link', caller, service, '', '', '', ${quantiles("gap_us", 0)} || ${quantiles("gap_us", 1)} FROM j WHERE caller <> service GROUP BY caller, service
    UNION ALL SELECT 'step', i.service, i.name, i.kind, i.child_service, i.child || chr(10) || any_value(i.severity), ${sums(0)} || ${sums(1)}
    FROM items i JOIN n ON n.service = i.service AND n.name = i.name AND n.trace_id = i.trace_id AND n.side = i.side
    JOIN o ON o.service = i.service AND o.name = i.name GROUP BY i.service, i.name, i.kind, i.child_service, i.child
    LIMIT ${rowsMax}`;
}

function numbersIn(row: QueryRow): number[] {
  const value = row["numbers"];
  return Array.isArray(value) ? value.map(Number) : [];
}

function timesAt(numbers: readonly number[], at: number): TimesFact {
  const [count = 0, q25 = 0, median = 0, q75 = 0, q90 = 0] = numbers.slice(at, at + 5);
  return { count, q25, median, q75, q90 };
}

function operationIn(row: QueryRow): OperationFact {
  const numbers = numbersIn(row);
  return {
    service: textIn(row, "a"),
    operation: textIn(row, "b"),
    isCall: textIn(row, "c") === "call",
    before: { self: timesAt(numbers, 0), wholeUs: numbers[5] ?? 0 },
    after: { self: timesAt(numbers, 6), wholeUs: numbers[11] ?? 0 },
  };
}

function linkIn(row: QueryRow): LinkFact {
  const numbers = numbersIn(row);
  return { caller: textIn(row, "a"), callee: textIn(row, "b"), before: timesAt(numbers, 0), after: timesAt(numbers, 5) };
}

function stepIn(row: QueryRow): StepFact {
  const numbers = numbersIn(row);
  const [child = "", severity = ""] = textIn(row, "e").split("\n");
  const countsAt = (at: number): StepCounts => {
    const [traces = 0, spans = 0, spansSquared = 0, records = 0, recordsSquared = 0, recordsTimesSpans = 0] = numbers.slice(at, at + 6);
    return { traces, spans, spansSquared, records, recordsSquared, recordsTimesSpans };
  };
  return {
    service: textIn(row, "a"),
    operation: textIn(row, "b"),
    kind: textIn(row, "c") === "log" ? "log" : "span",
    childService: textIn(row, "d"),
    child,
    severity,
    before: countsAt(0),
    after: countsAt(6),
  };
}
