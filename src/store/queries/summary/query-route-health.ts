/** Requests by route for health verdicts: the last minutes, their baselines, and the recent windows of routes that differ. */

import { mergeHistograms, type SparseHistogram } from "../../../base/latency-histogram.ts";
import type { RequestSource, RouteBaseline, RouteCell, SummaryRouteHealthFact } from "../../../model/summary.ts";
import { numberIn, type Queryable, type QueryRow, textIn } from "../../tables/queryable.ts";
import { clockAheadMs } from "../query-traces.ts";
import { type PartsRange, requestPartsSql } from "../request-parts.ts";
import { amountsIn, roleIn } from "./period-requests.ts";
import { bucketedSql, bucketUs, chosen, idOf, kind, kindIn, minWindows, type RouteKind, sharesSql } from "./route-kinds.ts";
import type { RowCache } from "./row-cache.ts";
import { readYoungBaselines } from "./young-baselines.ts";

export interface RouteHealthQuery {
  source: RequestSource;
  /** Absent: all services. */
  services?: readonly string[];
  /** Services without a running process. Their routes are read up to the exit, whether healthy or not. */
  gone?: ReadonlySet<string>;
  nowMs: number;
}

const minuteMs = 60_000;
const tenMinutesMs = 10 * minuteMs;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/** Verdicts cover this time, whatever window is displayed. */
export const judgedMs = 5 * minuteMs;
/**
 * A window with less than this share of the median window's requests is too sparse for a baseline, such as one at the edge of observation.
 */
const fullPart = 0.25;
const cellMs = 10_000;
/** Limit on routes whose windows are read; the worst are kept. */
const suspectsMax = 500;
/** Requests faster than this never count as slow. */
const minSlowUs = 5_000;
const minQueuedUs = 5_000;
/** Fewer failures never count as an error rate. */
const minErrors = 5;

type BaselinePeriod = "before" | "yesterday";

export interface RouteHealth {
  routes: SummaryRouteHealthFact[];
  /** Totals over all routes of a service during `judgedMs`. */
  totals: (Pick<RouteKind, "service" | "role"> & ReturnType<typeof amountsIn>)[];
}

/** Routes that have requests now or had some before. With a cache, settled baselines are read again only after a minute. */
export async function queryRouteHealth(store: Queryable, query: RouteHealthQuery, cache?: RowCache<Baselines>): Promise<RouteHealth> {
  const settled = settledRanges(query.nowMs);
  const readSettled = (): Promise<Baselines> => readBaselines(store, query, settled);
  const key = JSON.stringify([query.source, settled]);
  const [now, baselines] = await Promise.all([
    readNow(store, query),
    cache && query.services === undefined ? cache.rows(key, query.nowMs, readSettled) : readSettled(),
  ]);
  const facts = [...now.routes.values()];
  for (const [id, one] of baselines) if (!now.routes.has(id)) facts.push({ ...absent(one.kind, query.source) });
  for (const fact of facts) {
    const found = baselines.get(idOf(fact));
    fact.before = found?.before ?? null;
    fact.yesterday = found?.yesterday ?? null;
  }
  const young = facts.filter((fact) => fact.before === null && (isSuspect(fact) || query.gone?.has(fact.service)));
  if (young.length > 0) {
    const recent = await readYoungBaselines(store, { source: query.source, services: servicesOf(young), nowMs: query.nowMs });
    for (const fact of young) fact.before = recent.get(idOf(fact)) ?? null;
  }
  await addCells(store, query, facts.filter(isSuspect).sort(bySuspicion).slice(0, suspectsMax));
  return { routes: facts, totals: now.totals };
}

type Baselines = Map<string, { kind: RouteKind; before?: RouteBaseline; yesterday?: RouteBaseline }>;
export type RouteBaselines = Baselines;

type Fact = SummaryRouteHealthFact & { p99Us?: number | null; queueMeanUs?: number | null; meanUs?: number | null };

function absent(one: RouteKind, source: RequestSource): Fact {
  return { source, ...one, requests: 0, errors: 0, p95Us: null, before: null, yesterday: null, cells: [] };
}

/** Whether to read the windows of a route: some requests failed, or its slowest requests are slower than usual. */
function isSuspect(fact: Fact): boolean {
  if (fact.requests === 0) return false;
  if (fact.errors > usualErrors(fact)) return true;
  if ((fact.queueMeanUs ?? 0) > Math.max(minQueuedUs, (fact.meanUs ?? 0) / 2)) return true;
  const slowUs = fact.p99Us ?? 0;
  const usual = [fact.before, fact.yesterday].flatMap((baseline) => (baseline?.p95Us ? [baseline.p95Us] : []));
  return slowUs >= minSlowUs && slowUs > 2 * Math.min(...usual, usual.length === 0 ? 0 : Number.POSITIVE_INFINITY);
}

/**
 * The number of failures that chance explains, given the usual failure rate. Uses the lower baseline, so that an earlier incident does not
 * hide the next one.
 */
function usualErrors({ requests, before, yesterday }: Fact): number {
  const usual = [before, yesterday].flatMap((baseline) => (baseline ? [baseline.errorRatio] : []));
  if (usual.length === 0) return minErrors;
  const expected = requests * Math.max(...usual);
  return Math.max(minErrors, expected + 2 * Math.sqrt(expected + 1));
}

const bySuspicion = (a: Fact, b: Fact): number => suspicion(b) - suspicion(a);

function suspicion({ errors, requests, p99Us, before }: Fact): number {
  return errors / requests + Math.min(1, (p99Us ?? 0) / (20 * (before?.p95Us ?? Number.POSITIVE_INFINITY)));
}

const servicesOf = (facts: readonly Fact[]): string[] => [...new Set(facts.map(({ service }) => service))];

/** The hour that ended ten to twenty minutes ago, and the hour around the same time yesterday. */
function settledRanges(nowMs: number): { period: BaselinePeriod; range: PartsRange }[] {
  const endMs = Math.floor((nowMs - judgedMs - tenMinutesMs) / tenMinutesMs) * tenMinutesMs;
  const middleMs = Math.floor((nowMs - dayMs) / tenMinutesMs) * tenMinutesMs;
  return [
    { period: "before", range: { startMs: endMs - hourMs, endMs, resolution: "10m" } },
    { period: "yesterday", range: { startMs: middleMs - hourMs / 2, endMs: middleMs + hourMs / 2, resolution: "10m" } },
  ];
}

interface Now {
  routes: Map<string, Fact>;
  totals: RouteHealth["totals"];
}

async function readNow(store: Queryable, query: RouteHealthQuery): Promise<Now> {
  const { where, parameters } = chosen(query);
  const startMs = Math.floor((query.nowMs - judgedMs) / minuteMs) * minuteMs;
  // Programs may send spans with any time. Spans far in the future do not count as current.
  const endMs = query.source === "hooks" ? Number.POSITIVE_INFINITY : query.nowMs + clockAheadMs;
  const names = kind.split(", ").map((name) => `any_value(${name}) AS ${name}`);
  // Histograms are unnested once, for routes and services together.
  const rows = await store.query(
    `WITH part AS NOT MATERIALIZED (
       SELECT hash(${kind}) AS gid, hash(service, role) AS sid, * FROM (${requestPartsSql(query.source, { startMs, endMs, resolution: "1m" }, where)})
     ),
     bucketed AS MATERIALIZED (${bucketedSql("gid, sid", "part")})
     SELECT g.*, d.p95, d.p99, s.p50 AS whole50, s.p95 AS whole95, s.p99 AS whole99 FROM (
       SELECT gid, any_value(sid) AS sid, ${names.join(", ")}, sum(requests) AS requests, coalesce(sum(requests) FILTER (is_error), 0) AS errors,
         sum(duration_us) AS duration_us, sum(queue_us) AS queue_us, sum(queue_samples) AS queue_samples
       FROM part GROUP BY gid
     ) g LEFT JOIN (${sharesSql("gid", "SELECT * FROM bucketed", [95, 99])}) d ON d.gid = g.gid
     LEFT JOIN (${sharesSql("sid", "SELECT sid, bucket, sum(n) AS n FROM bucketed GROUP BY ALL", [50, 95, 99])}) s ON s.sid = g.sid`,
    parameters,
  );
  return { routes: new Map(rows.map((row) => [idOf(kindIn(row)), nowFactIn(row, query.source)])), totals: totalsIn(rows) };
}

function nowFactIn(row: QueryRow, source: RequestSource): Fact {
  const { requests, errors, meanUs, queueMeanUs } = amountsIn(row);
  return {
    ...absent(kindIn(row), source),
    requests,
    errors,
    meanUs,
    queueMeanUs,
    p95Us: bucketUs(row, "p95"),
    p99Us: bucketUs(row, "p99"),
  };
}

function totalsIn(rows: readonly QueryRow[]): RouteHealth["totals"] {
  const sums = new Map<string, QueryRow>();
  for (const row of rows) {
    const key = JSON.stringify([row["service"], row["role"]]);
    const sum = sums.get(key);
    if (!sum) {
      sums.set(key, { ...row, p50: row["whole50"], p95: row["whole95"], p99: row["whole99"] });
      continue;
    }
    for (const name of ["requests", "errors", "duration_us", "queue_us", "queue_samples"])
      sum[name] = numberIn(sum, name) + numberIn(row, name);
  }
  return [...sums.values()].map((row) => ({ service: textIn(row, "service"), role: roleIn(row), ...amountsIn(row) }));
}

/** Aggregates each window first, then takes medians over the windows. */
async function readBaselines(
  store: Queryable,
  query: RouteHealthQuery,
  periods: readonly { period: BaselinePeriod; range: PartsRange }[],
): Promise<Baselines> {
  const { where, parameters } = chosen(query);
  const parts = periods.map(({ range }, index) => {
    const at = `(epoch_us("time") // ${tenMinutesMs * 1_000})::BIGINT`;
    return `SELECT ${index}::UTINYINT AS period, hash(${index}, ${at}, ${kind}) AS gid, * FROM (${requestPartsSql(query.source, range, where)})`;
  });
  const names = kind.split(", ");
  const rows = await store.query(
    `WITH part AS NOT MATERIALIZED (${parts.join(" UNION ALL ")}),
     win AS (
       SELECT g.*, d.p50, d.p95 FROM (
         SELECT gid, any_value(period) AS period, ${names.map((name) => `any_value(${name}) AS ${name}`).join(", ")}, sum(requests) AS n,
           coalesce(sum(requests) FILTER (is_error), 0) AS e, sum(duration_us) AS us FROM part GROUP BY gid
       ) g LEFT JOIN (${sharesSql("gid", bucketedSql("gid", "part"), [50, 95])}) d ON d.gid = g.gid
     ),
     weighed AS (
       SELECT *, n >= ${fullPart} * quantile_cont(n, 0.5) OVER (PARTITION BY hash(period, ${kind})) AS is_full FROM win WHERE n > 0
     )
     SELECT any_value(period) AS period, ${names.map((name) => `any_value(${name}) AS ${name}`).join(", ")}, sum(n) AS requests, sum(e) AS errors, sum(us) AS us,
       count(*) AS windows, count(*) FILTER (is_full) AS full_windows, min(n) AS least, quantile_cont(e / n, 0.5) FILTER (is_full) AS ratio,
       quantile_disc(p50, 0.5) FILTER (is_full) AS p50, quantile_disc(p95, 0.5) FILTER (is_full) AS p95, max(p95) AS high
     FROM weighed GROUP BY hash(period, ${kind})`,
    parameters,
  );
  const found: Baselines = new Map();
  for (const row of rows) {
    const { period, range } = periods[numberIn(row, "period")] ?? {};
    const windows = numberIn(row, "windows");
    if (period === undefined || range === undefined || numberIn(row, "full_windows") < minWindows) continue;
    const one = kindIn(row);
    const entry = found.get(idOf(one)) ?? { kind: one };
    found.set(idOf(one), entry);
    entry[period] = baselineIn(row, { windows, windowsExpected: Math.round((range.endMs - range.startMs) / tenMinutesMs) });
  }
  return found;
}

function baselineIn(row: QueryRow, about: Pick<RouteBaseline, "windows" | "windowsExpected">): RouteBaseline {
  const requests = numberIn(row, "requests");
  return {
    ...about,
    isSettled: true,
    requests,
    errors: numberIn(row, "errors"),
    meanUs: requests > 0 ? numberIn(row, "us") / requests : null,
    minRequests: about.windows < about.windowsExpected ? 0 : numberIn(row, "least"),
    errorRatio: numberIn(row, "ratio"),
    p50Us: bucketUs(row, "p50"),
    p95Us: bucketUs(row, "p95"),
    p95HighUs: bucketUs(row, "high"),
  };
}

/** The last ten-second windows of these routes, newest first. */
async function addCells(store: Queryable, query: RouteHealthQuery, suspects: readonly Fact[]): Promise<void> {
  if (suspects.length === 0) return;
  const { where, parameters } = chosen({ services: servicesOf(suspects) });
  const startMs = query.nowMs - judgedMs;
  const endMs = query.source === "hooks" ? Number.POSITIVE_INFINITY : query.nowMs + clockAheadMs;
  const rows = await store.query(
    `SELECT epoch_ms("time") // ${cellMs} AS cell, ${kind}, is_error, requests, duration_us, queue_us, queue_samples, duration_lo, duration_counts
     FROM (${requestPartsSql(query.source, { startMs, endMs, resolution: "raw" }, where)}) ORDER BY 1 DESC`,
    parameters,
  );
  const facts = new Map(suspects.map((fact) => [idOf(fact), fact]));
  for (const row of rows) {
    const fact = facts.get(idOf(kindIn(row)));
    if (!fact) continue;
    const cellEndMs = (numberIn(row, "cell") + 1) * cellMs;
    let cell = fact.cells.at(-1);
    if (cell?.endMs !== cellEndMs) {
      cell = { endMs: cellEndMs, requests: 0, errors: 0, durationUs: 0, queueUs: 0, queueSamples: 0, durations: { lo: 0, counts: [] } };
      fact.cells.push(cell);
    }
    addRow(cell, row);
  }
}

function addRow(cell: RouteCell, row: QueryRow): void {
  const requests = numberIn(row, "requests");
  cell.requests += requests;
  cell.errors += row["is_error"] === true ? requests : 0;
  cell.durationUs += numberIn(row, "duration_us");
  cell.queueUs += numberIn(row, "queue_us");
  cell.queueSamples += numberIn(row, "queue_samples");
  const counts = Array.isArray(row["duration_counts"]) ? row["duration_counts"].map(Number) : [];
  const added: SparseHistogram = { lo: numberIn(row, "duration_lo"), counts };
  cell.durations = mergeHistograms(cell.durations, added);
}
