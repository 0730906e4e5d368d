/** Who called whom, by spans: one of a service whose parent is of another. Nothing is concluded from times. */

import { span } from "../signals/span.ts";
import { clockAheadMs, type TraceStore } from "./query-traces.ts";
import { isoTimeIn, numberIn, placeholders, type QueryRow, textIn } from "./queryable.ts";

export interface SpanEdgesQuery {
  /** From now back. */
  sinceMs: number;
  nowMs: number;
  /** Only calls that arrived at these agents. */
  agentIds?: readonly string[];
  /** Only calls from or to this service. */
  service?: string;
  /** Spans that are looked at; of more, a share of the traces is. Default 3 million. */
  maxSpans?: number;
}

/** Calls that arrived, weighted by what sampled spans stand for. */
export interface SpanEdgeRow {
  client: string;
  server: string;
  /** `http`, `grpc`, `kafka`: as spans tell; `span` when they do not. */
  protocol: string;
  requests: number;
  errors: number;
  /** Of the called, in microseconds, to 2.2 %; null when all that is there is only there to complete other traces. */
  p50Us: number | null;
  p95Us: number | null;
  p99Us: number | null;
  firstSeenAt: string;
  lastSeenAt: string;
}

export interface SpanEdgesAnswer {
  /** Most calls first. */
  edges: SpanEdgeRow[];
  /** The time that the amounts cover: at most `sinceMs`, less when the first span is younger. */
  windowMs: number;
  /** Share of the traces that were looked at, 0..1. */
  share: number;
}

/** A call's parent may have begun this long before it. */
const parentReachUs = 600_000_000;
/** Steps of a duration between a power of two and the next. */
const stepsPerDouble = 16;
const rowsMax = 500_000;

export async function querySpanEdges(store: TraceStore, query: SpanEdgesQuery): Promise<SpanEdgesAnswer> {
  const none = { edges: [], windowMs: query.sinceMs, share: 1 };
  if (store.segments === undefined) return none;
  const fromUs = Math.floor((query.nowMs - query.sinceMs) * 1_000);
  const untilUs = Math.floor((query.nowMs + clockAheadMs) * 1_000);
  const source = await store.segments.segmentSource(span, { fromUs: fromUs - parentReachUs, untilUs });
  if (source.files === 0) return none;
  const parts = Math.max(1, Math.ceil(source.rows / (query.maxSpans ?? 3_000_000)));
  const rows = await store.query(edgesSql(source.sql, query, parts), [
    fromUs,
    untilUs,
    ...(query.agentIds ?? []),
    fromUs - parentReachUs,
    ...(query.service === undefined ? [] : [query.service, query.service]),
  ]);
  const edges = edgesIn(rows, parts);
  const firstMs = edges.reduce((first, { firstSeenAt }) => Math.min(first, Date.parse(firstSeenAt)), Number.POSITIVE_INFINITY);
  const coveredMs = Number.isFinite(firstMs) ? Math.max(1_000, query.nowMs - firstMs) : query.sinceMs;
  return { edges, windowMs: Math.min(query.sinceMs, coveredMs), share: 1 / parts };
}

/** One row per edge and step of duration. Traces are taken or left whole, so that no parent is missed for that. */
function edgesSql(source: string, { agentIds, service }: SpanEdgesQuery, parts: number): string {
  const share = parts === 1 ? "" : `AND hash(trace_id) % ${parts} = 0`;
  const agents = agentIds === undefined ? "" : `AND agent_id IN (${agentIds.length === 0 ? "NULL" : placeholders(agentIds)})`;
  const protocol = `CASE WHEN rpc_system IS NOT NULL THEN rpc_system WHEN messaging_system IS NOT NULL THEN messaging_system
    WHEN http_method IS NOT NULL OR http_route IS NOT NULL OR http_status_code IS NOT NULL THEN 'http' ELSE 'span' END`;
  return `WITH called AS (
      SELECT trace_id, span_id, parent_span_id, service, "time", duration_ns, status, weight, ${protocol} AS protocol
      FROM ${source} WHERE "time" BETWEEN make_timestamp(?) AND make_timestamp(?) AND kind IN ('server', 'consumer') AND parent_span_id IS NOT NULL ${share} ${agents}
    ),
    calling AS (SELECT trace_id, span_id, service FROM ${source} WHERE "time" >= make_timestamp(?) ${share}),
    -- A span that was sent twice is one call, whichever end it is.
    call AS (
      SELECT DISTINCT ON (c.trace_id, c.span_id, c.service, c."time", c.duration_ns)
        p.service AS client, c.service AS server, c.protocol, c."time", c.duration_ns, c.status, c.weight
      FROM called c JOIN calling p ON p.trace_id = c.trace_id AND p.span_id = c.parent_span_id AND p.service <> c.service
    )
    SELECT client, server, protocol, CAST(floor(log2(greatest(duration_ns, 1)) * ${stepsPerDouble}) AS INTEGER) AS step, sum(weight) AS calls,
      coalesce(sum(weight) FILTER (status = 'error'), 0) AS errors, min("time") AS first_seen, max("time") AS last_seen
    FROM call ${service === undefined ? "" : "WHERE client = ? OR server = ?"}
    GROUP BY ALL ORDER BY client, server, step LIMIT ${rowsMax}`;
}

interface Gathered {
  edge: SpanEdgeRow;
  steps: Map<number, number>;
  protocols: Map<string, number>;
}

function edgesIn(rows: readonly QueryRow[], parts: number): SpanEdgeRow[] {
  const gathered = new Map<string, Gathered>();
  for (const row of rows) {
    const [client, server, protocol] = [textIn(row, "client"), textIn(row, "server"), textIn(row, "protocol")];
    const [first, last] = [isoTimeIn(row, "first_seen"), isoTimeIn(row, "last_seen")];
    const key = JSON.stringify([client, server]);
    const known = gathered.get(key) ?? { edge: emptyEdge(client, server, first, last), steps: new Map(), protocols: new Map() };
    gathered.set(key, known);
    const { edge, steps, protocols } = known;
    const calls = numberIn(row, "calls") * parts;
    const step = numberIn(row, "step");
    edge.requests += calls;
    edge.errors += numberIn(row, "errors") * parts;
    if (first < edge.firstSeenAt) edge.firstSeenAt = first;
    if (last > edge.lastSeenAt) edge.lastSeenAt = last;
    steps.set(step, (steps.get(step) ?? 0) + calls);
    protocols.set(protocol, (protocols.get(protocol) ?? 0) + calls);
  }
  return [...gathered.values()].map(finished).sort((a, b) => b.requests - a.requests || (a.client < b.client ? -1 : 1));
}

function emptyEdge(client: string, server: string, firstSeenAt: string, lastSeenAt: string): SpanEdgeRow {
  return { client, server, protocol: "", requests: 0, errors: 0, p50Us: null, p95Us: null, p99Us: null, firstSeenAt, lastSeenAt };
}

function finished({ edge, steps, protocols }: Gathered): SpanEdgeRow {
  const sorted = [...steps].sort(([a], [b]) => a - b);
  const at = (share: number): number | null => {
    const wanted = edge.requests * share;
    let sum = 0;
    for (const [step, calls] of sorted) {
      sum += calls;
      if (calls > 0 && sum >= wanted) return 2 ** ((step + 0.5) / stepsPerDouble) / 1_000;
    }
    return null;
  };
  const [main] = [...protocols].sort(([, a], [, b]) => b - a);
  return { ...edge, protocol: main?.[0] ?? "span", p50Us: at(0.5), p95Us: at(0.95), p99Us: at(0.99) };
}
