/** Log records, newest first and paged, and the same records grouped by pattern. */

import { CoralError } from "../../base/errors.ts";
import type { LogFact, LogPatternsFacts, LogsFacts, LogsRequest } from "../../model/logs.ts";
import type { Resolved, ServiceFilter } from "../../model/services.ts";
import { hexSql, idSql, type SegmentReader } from "../segments/segment-source.ts";
import { logRecord } from "../signals/log.ts";
import {
  isoTimeIn,
  numberIn,
  placeholders,
  type Queryable,
  type QueryParameter,
  type QueryRow,
  textIn,
  textOrNullIn,
} from "../tables/queryable.ts";
import { serviceTexts } from "./service-filter.ts";

/** A store with segments. Without `segments`, answers are empty. */
export interface LogsStore extends Queryable {
  readonly segments: SegmentReader | undefined;
}

export interface LogsQuery extends Resolved<LogsRequest> {
  nowMs: number;
}

/** Reads the newest minute first, then steps four times as long as the one before: most queries finish early. */
const firstStepUs = 60_000_000;
const bodyCharacters = 4_000;
const attributeCharacters = 2_000;
const servicesShown = 50;
/** Sender clocks may be ahead by up to this much. */
const aheadUs = 3_600_000_000;

interface Condition {
  sql: string;
  parameters: QueryParameter[];
}

/** A total order for records of the same time, so that pages neither repeat nor skip rows. */
const order = `"time" DESC, observed_time_us DESC, agent_id, service, span_id, hash(body), hash(attributes)`;

export async function queryLogs(store: LogsStore, query: LogsQuery): Promise<LogsFacts> {
  const { segments } = store;
  if (segments === undefined) return { rows: [], next: null, services: [] };
  const start = startOf(query);
  const condition = conditionOf(query);
  const fromUs = Math.floor((query.nowMs - query.sinceMs) * 1_000);
  const wanted = query.limit + 1;
  const found: QueryRow[] = [];
  let untilUs = start.timeUs;
  let skip = start.skip;
  for (let stepUs = firstStepUs; found.length < wanted && untilUs >= fromUs; stepUs *= 4) {
    const isFirst = untilUs === start.timeUs;
    // The first step includes records that are ahead of the clock.
    const stepFromUs = Math.max(fromUs, (isFirst ? Math.min(untilUs, query.nowMs * 1_000) : untilUs) - stepUs);
    const source = await segments.segmentSource(logRecord, { ...rangeOf(query), fromUs: stepFromUs, untilUs });
    if (source.files > 0) {
      const sql = rowsSql(source.sql, condition.sql);
      const parameters = [Math.floor(stepFromUs), untilUs, ...condition.parameters, wanted - found.length, skip];
      found.push(...(await run(store, query, sql, parameters)));
    }
    skip = 0;
    untilUs = Math.floor(stepFromUs) - 1;
  }
  const rows = found.slice(0, query.limit);
  return {
    rows: rows.map(rowIn),
    next: found.length > query.limit ? nextOf(rows, start) : null,
    services: found.length === 0 ? await servicesIn(store, segments, query, fromUs) : [],
  };
}

export async function queryLogPatterns(store: LogsStore, query: LogsQuery): Promise<LogPatternsFacts> {
  const { segments } = store;
  if (segments === undefined) return { rows: [], total: 0, records: 0, services: [] };
  const condition = conditionOf(query);
  const fromUs = Math.floor((query.nowMs - query.sinceMs) * 1_000);
  const untilUs = Math.floor(query.nowMs * 1_000 + aheadUs);
  const source = await segments.segmentSource(logRecord, { ...rangeOf(query), fromUs, untilUs });
  const rows = await run(
    store,
    query,
    `WITH grouped AS (
       SELECT service, pattern, count(*) AS records, min("time") AS first_at, max("time") AS last_at, max(severity_number) AS worst,
         left(coalesce(arg_max(body, "time"), ''), 400) AS example
       FROM ${source.sql} WHERE "time" BETWEEN make_timestamp(?) AND make_timestamp(?) AND ${condition.sql} GROUP BY service, pattern
     ), top AS MATERIALIZED (
       SELECT *, count(*) OVER () AS total, sum(records) OVER () AS all_records FROM grouped ORDER BY records DESC, service, pattern LIMIT ?
     ), known AS (
       SELECT service, pattern, any_value(template) AS template, bool_or(is_new AND "time" >= make_timestamp(?)) AS is_new
       FROM log_pattern WHERE pattern IN (SELECT pattern FROM top) GROUP BY service, pattern
     )
     SELECT t.*, k.template, coalesce(k.is_new, false) AS is_new
     FROM top t LEFT JOIN known k ON k.service = t.service AND k.pattern = t.pattern ORDER BY t.records DESC, t.service, t.pattern`,
    [fromUs, untilUs, ...condition.parameters, query.limit, fromUs],
  );
  return {
    rows: rows.map((row) => ({
      service: textIn(row, "service"),
      pattern: textOrNullIn(row, "pattern"),
      template: textOrNullIn(row, "template") ?? textIn(row, "example"),
      severity: severityNameOf(numberIn(row, "worst")),
      records: numberIn(row, "records"),
      firstAt: isoTimeIn(row, "first_at"),
      lastAt: isoTimeIn(row, "last_at"),
      example: textIn(row, "example"),
      isNew: row["is_new"] === true,
    })),
    total: numberIn(rows[0] ?? {}, "total"),
    records: numberIn(rows[0] ?? {}, "all_records"),
    services: rows.length === 0 ? await servicesIn(store, segments, query, fromUs) : [],
  };
}

function rangeOf({ service, traceId, agentIds }: LogsQuery): { service?: ServiceFilter; lookup?: string; agentId?: string } {
  const [only, ...others] = agentIds ?? [];
  return {
    ...(service === undefined ? {} : { service }),
    ...(traceId === undefined ? {} : { lookup: traceId }),
    ...(only === undefined || others.length > 0 ? {} : { agentId: only }),
  };
}

function conditionOf(query: LogsQuery): Condition {
  const parts: string[] = [];
  const parameters: QueryParameter[] = [];
  const add = (sql: string, ...values: QueryParameter[]): void => {
    parts.push(sql);
    parameters.push(...values);
  };
  if (query.service !== undefined) add(`service IN (${placeholders(serviceTexts(query.service))})`, ...serviceTexts(query.service));
  if (query.minSeverity !== undefined) add("severity_number >= ?", query.minSeverity);
  if (query.traceId !== undefined) add(`trace_id = ${idSql("id16", "?")}`, query.traceId);
  if (query.agentIds !== undefined) {
    if (query.agentIds.length === 0) add("false");
    else add(`agent_id IN (${placeholders(query.agentIds)})`, ...query.agentIds);
  }
  if (query.pattern !== undefined) {
    const { pattern } = query;
    const byText = "pattern IN (SELECT pattern FROM log_pattern WHERE contains(lower(template), lower(?)))";
    if (/^[0-9a-f]{4,12}$/.test(pattern)) add(`(starts_with(pattern, ?) OR ${byText})`, pattern, pattern);
    else add(byText, pattern);
  }
  if (query.grep !== undefined) {
    const expression = /^\/(.+)\/$/s.exec(query.grep)?.[1];
    if (expression === undefined) add("(contains(lower(body), lower(?)) OR contains(lower(attributes), lower(?)))", query.grep, query.grep);
    else add("(regexp_matches(body, ?, 'i') OR regexp_matches(attributes, ?, 'i'))", expression, expression);
  }
  return { sql: parts.length === 0 ? "true" : parts.join(" AND "), parameters };
}

function rowsSql(source: string, condition: string): string {
  return `SELECT "time", epoch_us("time") AS time_us, service, agent_id, severity, severity_text, left(coalesce(body, ''), ${bodyCharacters}) AS body,
      length(coalesce(body, '')) AS body_length, ${hexSql("id16", "trace_id")} AS trace_id, ${hexSql("id8", "span_id")} AS span_id, event_name,
      exception_type, pattern, CASE WHEN length(attributes) <= ${attributeCharacters} THEN attributes END AS attributes
    FROM (SELECT * FROM ${source} WHERE "time" BETWEEN make_timestamp(?) AND make_timestamp(?) AND ${condition} ORDER BY ${order} LIMIT ? OFFSET ?)`;
}

/** A malformed regular expression is invalid input, not an internal error. */
async function run(store: Queryable, { grep }: LogsQuery, sql: string, parameters: readonly QueryParameter[]): Promise<QueryRow[]> {
  try {
    return await store.query(sql, parameters);
  } catch (error) {
    const { message } = CoralError.from(error);
    if (grep === undefined || !/^\/.+\/$/s.test(grep) || !/regex|missing|invalid|bad repetition|no argument/i.test(message)) throw error;
    throw new CoralError({
      code: "usage",
      message: `Cannot search for ${grep}: not a valid RE2 regular expression: ${message}`,
      cause: error,
    });
  }
}

function rowIn(row: QueryRow): LogFact {
  return {
    at: isoTimeIn(row, "time"),
    service: textIn(row, "service"),
    agentId: textIn(row, "agent_id"),
    severity: textIn(row, "severity"),
    severityText: textOrNullIn(row, "severity_text"),
    body: textIn(row, "body"),
    bodyLength: numberIn(row, "body_length"),
    traceId: textOrNullIn(row, "trace_id"),
    spanId: textOrNullIn(row, "span_id"),
    eventName: textOrNullIn(row, "event_name"),
    exceptionType: textOrNullIn(row, "exception_type"),
    pattern: textOrNullIn(row, "pattern"),
    attributes: textOrNullIn(row, "attributes"),
  };
}

interface PageStart {
  timeUs: number;
  /** Number of rows with exactly that time on earlier pages. */
  skip: number;
}

function startOf({ page, nowMs }: LogsQuery): PageStart {
  if (page === undefined) return { timeUs: Math.floor(nowMs * 1_000 + aheadUs), skip: 0 };
  const match = /^(\d{1,17})-(\d{1,9})$/.exec(page);
  if (match === null)
    throw new CoralError({ code: "usage", message: `Cannot show page "${page}": not a page token; pass "next" of the previous answer` });
  return { timeUs: Number(match[1]), skip: Number(match[2]) };
}

function nextOf(rows: readonly QueryRow[], start: PageStart): string {
  const lastUs = numberIn(rows.at(-1) ?? {}, "time_us");
  const same = rows.filter((row) => numberIn(row, "time_us") === lastUs).length;
  return `${lastUs}-${same + (lastUs === start.timeUs ? start.skip : 0)}`;
}

/** Lists the services that have records, for a query that named one without any. */
async function servicesIn(store: Queryable, segments: SegmentReader, query: LogsQuery, fromUs: number): Promise<string[]> {
  if (query.service === undefined) return [];
  const source = await segments.segmentSource(logRecord, { fromUs });
  const rows = await store.query(`SELECT DISTINCT service FROM ${source.sql} ORDER BY service LIMIT ${servicesShown}`);
  return rows.map((row) => textIn(row, "service"));
}

const severities = ["", "trace", "debug", "info", "warn", "error", "fatal"] as const;

function severityNameOf(number: number): string {
  return severities[Math.ceil(number / 4)] ?? "";
}
