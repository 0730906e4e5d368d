/** Traces: a search by the properties of one of their spans, and all spans of one trace. Only files that may contain a match are read. */

import type { Resolved } from "../../model/services.ts";
import type { SpanFact, SpanProcessFact, TraceFacts, TraceRequest, TraceSummary, TracesFacts, TracesRequest } from "../../model/traces.ts";
import { hexSql, idSql, type SegmentReader } from "../segments/segment-source.ts";
import { span } from "../signals/span.ts";
import { spanRed } from "../signals/spans-derived.ts";
import {
  isoTimeIn,
  numberIn,
  numberOrNullIn,
  placeholders,
  type Queryable,
  type QueryRow,
  textIn,
  textOrNullIn,
  textsIn,
} from "../tables/queryable.ts";
import { attributeCondition, checkPatterns } from "./attribute-filter.ts";
import { serviceTexts } from "./service-filter.ts";

/** The store to read traces from. Without `segments`, answers are empty. */
export interface TraceStore extends Queryable {
  readonly segments: SegmentReader | undefined;
}

export interface TracesQuery extends Resolved<TracesRequest> {
  nowMs: number;
}

/** Spans of a trace are searched this long before and after the matching one. */
const traceReachUs = 3_600_000_000;
/**
 * Sender clocks may be ahead by this much. Spans further in the future are found only by trace id; otherwise one of them would stay the
 * newest for ever.
 */
export const clockAheadMs = 3_600_000;
/** A trace can have many matching spans: at most this many are read to find enough traces. */
const maxCandidates = 262_144;
/** Up to `maxCounted` spans, traces are counted exactly. Fewer samples than `minCounted` are too few for an estimate. */
const maxCounted = 65_536;
const minCounted = 8_192;
/** Windows searched for the newest traces, in this order. */
const newestWithinMs = [10_000, 60_000, 600_000, 3_600_000, 6 * 3_600_000, 24 * 3_600_000];
const servicesShown = 20;
/** Processes silent for longer than this are not used to resolve names. */
const processesMs = 300_000;

const routeColumns = ["name", "http_route", "url_path", "rpc_service", "rpc_method", "db_statement", "messaging_destination"];

export async function queryTraces(store: TraceStore, query: TracesQuery): Promise<TracesFacts> {
  const { segments } = store;
  if (segments === undefined) return { rows: [], traces: 0, storedSpans: 0, estimatedSpans: 0 };
  await checkPatterns(store, query.where ?? []);
  const all = await searchOf(segments, query, query.sinceMs);
  const shares = sharesOf(store);
  const kind = kindOf(query);
  const oneIn = oneInOf(all.rows * (shares.get(kind) ?? 1));
  const [totals = {}] = await store.query(
    `SELECT count(*) AS spans, coalesce(sum(weight), 0) AS estimated, ${tracesSql(oneIn)} AS traces ${all.fitting}`,
    all.parameters,
  );
  const storedSpans = numberIn(totals, "spans");
  shares.set(kind, storedSpans / Math.max(1, all.rows));
  if (storedSpans === 0) return { rows: [], traces: 0, storedSpans: 0, estimatedSpans: 0 };
  const rows = await describeTraces(store, await findTraces(store, segments, query, storedSpans / all.rows), all);
  let traces = rows.length;
  if (traces >= query.limit) {
    const isRough = oneIn > 1 && storedSpans < oneIn * minCounted;
    const counted = isRough ? await store.query(`SELECT ${tracesSql(oneInOf(storedSpans))} AS traces ${all.fitting}`, all.parameters) : [];
    traces = Math.max(traces, numberIn(counted[0] ?? totals, "traces"));
  }
  return { rows, traces, storedSpans, estimatedSpans: numberIn(totals, "estimated") };
}

/** The last share of matching rows by kind of search. A good guess saves a second scan for the trace count. */
const knownShares = new WeakMap<TraceStore, Map<string, number>>();
const sharesMax = 256;

function sharesOf(store: TraceStore): Map<string, number> {
  const shares = knownShares.get(store) ?? new Map<string, number>();
  knownShares.set(store, shares);
  if (shares.size > sharesMax) shares.clear();
  return shares;
}

function kindOf({ service, route, minDurationNs, error, agentIds, where }: TracesQuery): string {
  return JSON.stringify([service, route, minDurationNs, error, agentIds, where]);
}

/** The sampling rate for counting the traces of this many spans: 1 = count all, n = count one in n by hash. */
function oneInOf(spans: number): number {
  return 2 ** Math.max(0, Math.ceil(Math.log2(spans / maxCounted)));
}

function tracesSql(oneIn: number): string {
  return oneIn === 1 ? "count(DISTINCT trace_id)" : `${oneIn} * count(DISTINCT trace_id) FILTER (hash(trace_id) % ${oneIn} = 0)`;
}

export async function queryTrace(store: TraceStore, query: TraceRequest): Promise<TraceFacts> {
  if (store.segments === undefined) return { spans: [], total: 0 };
  const source = await store.segments.segmentSource(span, { lookup: query.traceId });
  const details = query.details ? ["dropped", "attributes", "events", "links", "resource"].map((name) => `"${name}"`).join(", ") : "";
  // A sender that missed the acknowledgement sends again, so a span may be stored twice.
  const rows = await store.query(
    `SELECT *, count(*) OVER () AS total FROM (
       SELECT DISTINCT ON (span_id, service, kind, "time", duration_ns)
         ${hexSql("id8", "span_id")} AS span_id, CASE WHEN parent_span_id IS NULL THEN NULL ELSE ${hexSql("id8", "parent_span_id")} END AS parent_id,
         agent_id, service, name, kind, epoch_us("time") AS start_us, duration_ns, status, status_message, weight, service_version, host_name,
         http_method, coalesce(http_route, url_path) AS http_route, http_status_code, db_system, db_statement,
         nullif(concat_ws('/', rpc_service, rpc_method), '') AS rpc_method, messaging_destination,
         coalesce(peer_service, server_address) AS peer, coalesce(exception_type, error_type) AS error_type${details === "" ? "" : `, ${details}`}
       FROM ${source.sql} WHERE trace_id = ${idSql("id16", "?")}
     ) ORDER BY parent_id IS NULL DESC, duration_ns DESC, span_id LIMIT ${wholeLimit(query.maxSpans)}`,
    [query.traceId],
  );
  return {
    spans: rows.map(spanIn).sort((a, b) => a.startUs - b.startUs || b.durationNs - a.durationNs),
    total: numberIn(rows[0] ?? {}, "total"),
  };
}

/** Service names of spans in the window, by name, at most 1,000. Includes spans that are not counted yet. */
export async function querySpanServices(store: TraceStore, { sinceMs, nowMs }: { sinceMs: number; nowMs: number }): Promise<string[]> {
  if (store.segments === undefined) return [];
  const fromUs = Math.floor((nowMs - sinceMs) * 1_000);
  // Reads counted windows of ten seconds (older ones: ten minutes), and the service lists of uncounted segments; null there means too many
  // names.
  const rows = await store.query(
    `SELECT service FROM raw.span_red WHERE "time" > make_timestamp($from) - INTERVAL 10 SECONDS
     UNION SELECT service FROM rollup.span_red_10m WHERE bucket > make_timestamp($from)
     UNION SELECT unnest(from_json(m.services, '["VARCHAR"]')) FROM segment.manifest m
       LEFT JOIN segment.derived d ON d.product = '${spanRed.name}' AND d.epoch = m.epoch
       WHERE m.signal = '${span.name}' AND m.state = 'stored' AND m.number > coalesce(d.number, 0) AND m.max_time >= $from
     ORDER BY service LIMIT 1000`,
    { from: fromUs },
  );
  return rows.map((row) => textIn(row, "service"));
}

/** Resource attributes of one process per service and agent, from the last five minutes, at most 10,000. */
export async function querySpanProcesses(store: TraceStore, { nowMs }: { nowMs: number }): Promise<SpanProcessFact[]> {
  if (store.segments === undefined) return [];
  const rows = await store.query(
    `SELECT s.agent_id, p.service, arg_max(p.resource, p.seen) AS resource FROM segment.span_processes p JOIN internal.sources s USING (source)
     WHERE p.seen >= make_timestamp(?) GROUP BY s.agent_id, p.service LIMIT 10000`,
    [Math.floor((nowMs - processesMs) * 1_000)],
  );
  return rows.map((row) => ({ agentId: textIn(row, "agent_id"), service: textIn(row, "service"), resource: textIn(row, "resource") }));
}

interface Search {
  /** `FROM … WHERE …` */
  fitting: string;
  /** The match condition alone, including its time range. */
  isMatch: string;
  parameters: (string | number)[];
  /** Rows in the files to read: an upper bound of the matches. */
  rows: number;
}

/** Search for matching spans of the last `sinceMs`. */
async function searchOf(segments: SegmentReader, query: TracesQuery, sinceMs: number): Promise<Search> {
  const { service, route, minDurationNs, error, agentIds, nowMs, where = [] } = query;
  const fromUs = Math.floor((nowMs - sinceMs) * 1_000);
  const untilUs = Math.floor((nowMs + clockAheadMs) * 1_000);
  const source = await segments.segmentSource(span, { fromUs, untilUs, isExact: true, ...(service !== undefined && { service }) });
  const conditions: string[] = [];
  const parameters: (string | number)[] = [];
  if (agentIds !== undefined) {
    conditions.push(`agent_id IN (${agentIds.length === 0 ? "NULL" : placeholders(agentIds)})`);
    parameters.push(...agentIds);
  }
  if (service !== undefined) {
    const texts = serviceTexts(service);
    conditions.push(`service IN (${placeholders(texts)})`);
    parameters.push(...texts);
  }
  if (minDurationNs !== undefined) {
    conditions.push("duration_ns >= CAST(? AS BIGINT)");
    parameters.push(minDurationNs);
  }
  if (error) conditions.push("status = 'error'");
  if (route !== undefined) {
    conditions.push(`(${routeColumns.map((column) => `contains(lower(${column}), lower(?))`).join(" OR ")})`);
    parameters.push(...routeColumns.map(() => route));
  }
  for (const condition of where.map(attributeCondition)) {
    conditions.push(condition.sql);
    parameters.push(...condition.parameters);
  }
  const condition = conditions.join(" AND ") || "true";
  return {
    fitting: `FROM ${source.sql} WHERE ${condition}`,
    isMatch: `"time" BETWEEN make_timestamp(${fromUs}) AND make_timestamp(${untilUs}) AND ${condition}`,
    parameters,
    rows: source.rows,
  };
}

interface FoundTrace {
  traceId: string;
  firstUs: number;
  lastUs: number;
}

/**
 * Reads only the first matches in the requested order, which bounds the memory for grouping. The newest are searched in the last seconds
 * first, then further back while too few are found: sorting all matches costs more than the rest. `share` is the expected share of matching
 * rows.
 */
async function findTraces(store: Queryable, segments: SegmentReader, query: TracesQuery, share: number): Promise<FoundTrace[]> {
  const limit = wholeLimit(query.limit);
  const order = query.order === "newest" ? `"time"` : "duration_ns";
  const times = query.order === "newest" ? newestWithinMs.filter((ms) => ms < query.sinceMs) : [];
  const matchesWanted = limit * 4;
  let candidates = Math.max(1_024, limit * 16);
  for (;;) {
    const { fitting, parameters, rows: atMost } = await searchOf(segments, query, times[0] ?? query.sinceMs);
    if (atMost * share < matchesWanted && times.shift() !== undefined) continue;
    const rows = await store.query(
      `WITH candidate AS (
         SELECT trace_id, "time", ${order} AS place ${fitting} ORDER BY place DESC LIMIT ${candidates}
       )
       SELECT ${hexSql("id16", "trace_id")} AS trace_id, epoch_us(min("time")) AS first_us, epoch_us(max("time")) AS last_us,
         (SELECT count(*) FROM candidate) AS read
       FROM candidate GROUP BY trace_id ORDER BY max(place) DESC, trace_id LIMIT ${limit}`,
      parameters,
    );
    const isAll = numberIn(rows[0] ?? {}, "read") < candidates;
    if (rows.length < limit && isAll && times.shift() !== undefined) continue;
    if (rows.length >= limit || isAll || candidates >= maxCandidates) return rows.map(foundIn);
    candidates *= 16;
  }
}

function foundIn(row: QueryRow): FoundTrace {
  return {
    traceId: textIn(row, "trace_id"),
    firstUs: numberIn(row, "first_us"),
    lastUs: numberIn(row, "last_us"),
  };
}

/** All spans of these traces, and the longest matching span of each. */
async function describeTraces(store: TraceStore, found: readonly FoundTrace[], { isMatch, parameters }: Search): Promise<TraceSummary[]> {
  if (store.segments === undefined || found.length === 0) return [];
  const traceIds = found.map(({ traceId }) => traceId);
  const source = await store.segments.segmentSource(span, {
    fromUs: found.reduce((first, { firstUs }) => Math.min(first, firstUs), Number.POSITIVE_INFINITY) - traceReachUs,
    untilUs: found.reduce((last, { lastUs }) => Math.max(last, lastUs), Number.NEGATIVE_INFINITY) + traceReachUs,
    lookup: traceIds,
  });
  const one = "{ 'service': service, 'name': name }";
  const rows = await store.query(
    `WITH one AS (
       SELECT DISTINCT ON (trace_id, span_id, service, kind, "time", duration_ns)
         trace_id, span_id, parent_span_id, service, name, "time", duration_ns, status, weight, (${isMatch}) AS fits
       FROM ${source.sql} WHERE trace_id IN (${traceIds.map(() => idSql("id16", "?")).join(", ")})
     )
     SELECT *, root.service AS root_service, root.name AS root_name FROM (
       SELECT ${hexSql("id16", "trace_id")} AS trace_id, min("time") AS start, min(epoch_us("time")) AS start_us,
         max(CAST(epoch_us("time") - first_us AS DOUBLE) * 1000 + duration_ns) AS duration_ns, count(*) AS spans,
         count(*) FILTER (status = 'error') AS errors, max(duration_ns) FILTER (fits) AS match_ns, max(weight) FILTER (fits) AS weight,
         arg_max(service, duration_ns) FILTER (fits) AS match_service, arg_max(name, duration_ns) FILTER (fits) AS match_name, bool_or(parent_span_id IS NULL) AS has_root,
         list_slice(list_sort(list(DISTINCT service)), 1, ${servicesShown}) AS services,
         coalesce(arg_min(${one}, "time") FILTER (parent_span_id IS NULL), arg_min(${one}, "time")) AS root
       FROM (SELECT *, min(epoch_us("time")) OVER (PARTITION BY trace_id) AS first_us FROM one) GROUP BY trace_id
     )`,
    [...parameters, ...traceIds],
  );
  const described = new Map(rows.map((row) => [textIn(row, "trace_id"), row]));
  return found.flatMap((trace) => {
    const row = described.get(trace.traceId);
    return row === undefined ? [] : [traceIn(row, trace.traceId)];
  });
}

function traceIn(row: QueryRow, traceId: string): TraceSummary {
  return {
    traceId,
    startedAt: isoTimeIn(row, "start"),
    durationNs: numberIn(row, "duration_ns"),
    service: textIn(row, "root_service"),
    name: textIn(row, "root_name"),
    hasRoot: row["has_root"] === true,
    spans: numberIn(row, "spans"),
    errors: numberIn(row, "errors"),
    services: textsIn(row, "services"),
    matchService: textIn(row, "match_service"),
    matchName: textIn(row, "match_name"),
    matchDurationNs: numberIn(row, "match_ns"),
    weight: numberIn(row, "weight"),
  };
}

function spanIn(row: QueryRow): SpanFact {
  return {
    spanId: textIn(row, "span_id"),
    parentSpanId: textOrNullIn(row, "parent_id"),
    agentId: textIn(row, "agent_id"),
    service: textIn(row, "service"),
    name: textIn(row, "name"),
    kind: textIn(row, "kind"),
    startUs: numberIn(row, "start_us"),
    durationNs: numberIn(row, "duration_ns"),
    status: textIn(row, "status"),
    statusMessage: textOrNullIn(row, "status_message"),
    weight: numberIn(row, "weight"),
    version: textOrNullIn(row, "service_version"),
    host: textOrNullIn(row, "host_name"),
    httpMethod: textOrNullIn(row, "http_method"),
    httpRoute: textOrNullIn(row, "http_route"),
    httpStatusCode: numberOrNullIn(row, "http_status_code"),
    dbSystem: textOrNullIn(row, "db_system"),
    dbStatement: textOrNullIn(row, "db_statement"),
    rpcMethod: textOrNullIn(row, "rpc_method"),
    messagingDestination: textOrNullIn(row, "messaging_destination"),
    peer: textOrNullIn(row, "peer"),
    errorType: textOrNullIn(row, "error_type"),
    dropped: numberIn(row, "dropped"),
    attributes: textOrNullIn(row, "attributes"),
    events: textOrNullIn(row, "events"),
    links: textOrNullIn(row, "links"),
    resource: textOrNullIn(row, "resource"),
  };
}

function wholeLimit(limit: number): number {
  return Math.max(1, Math.floor(limit));
}
