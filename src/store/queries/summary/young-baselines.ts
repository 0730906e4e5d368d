/**
 * Baselines of routes younger than an hour, from their own history. A lasting fault would soon be most of so short a history, so the
 * baseline ends where windows turned bad for good.
 */

import type { RequestSource, RouteBaseline } from "../../../model/summary.ts";
import { numberIn, type Queryable } from "../../tables/queryable.ts";
import { type PartsRange, requestPartsSql } from "../request-parts.ts";
import { bucketedSql, bucketUs, chosen, idOf, kind, kindIn, minWindows, recentMs, sharesSql } from "./route-kinds.ts";

export interface YoungQuery {
  source: RequestSource;
  services: readonly string[];
  nowMs: number;
}

const minuteMs = 60_000;
const youngMs = 30 * minuteMs;
/** Up to this many services, ten-second windows are read; for more, as after the start of a large colony, one-minute windows. */
const finelyMax = 20;
/** Minimum requests of a window; smaller ones are merged with the next. */
const minRequests = 20;
/** Relative to the median window, as for settled baselines. */
const fullPart = 0.25;
/** Consecutive bad windows that count as the start of a fault. */
const badInRow = 3;
const bad = { errorRatio: 0.01, times: 2, slowerUs: 5_000 };

export interface YoungWindow {
  requests: number;
  errors: number;
  durationUs: number;
  p50Us: number | null;
  p95Us: number | null;
}

/** Keyed by route id. */
export async function readYoungBaselines(store: Queryable, query: YoungQuery): Promise<Map<string, RouteBaseline>> {
  const stepMs = query.services.length <= finelyMax ? 10_000 : minuteMs;
  const endMs = Math.floor((query.nowMs - recentMs) / stepMs) * stepMs;
  const range: PartsRange = { startMs: endMs - youngMs, endMs, resolution: stepMs === minuteMs ? "1m" : "raw" };
  const { where, parameters } = chosen(query);
  const names = kind.split(", ").map((name) => `any_value(${name}) AS ${name}`);
  const rows = await store.query(
    `WITH part AS NOT MATERIALIZED (
       SELECT hash(${kind}) AS kid, (epoch_us("time") // ${stepMs * 1_000})::BIGINT AS step, * FROM (${requestPartsSql(query.source, range, where)})
     ),
     cell AS (
       SELECT kid, step, ${names.join(", ")}, sum(requests) AS n, coalesce(sum(requests) FILTER (is_error), 0) AS e, sum(duration_us) AS us
       FROM part GROUP BY kid, step
     ),
     placed AS MATERIALIZED (
       SELECT *, hash(kid, ((sum(n) OVER (PARTITION BY kid ORDER BY step) - n) // ${minRequests})::BIGINT) AS gid FROM cell WHERE n > 0
     )
     SELECT g.*, m.minutes, d.p50, d.p95 FROM (
       SELECT gid, any_value(kid) AS kid, min(step) AS first_step, ${names.join(", ")}, sum(n) AS requests, sum(e) AS errors, sum(us) AS us FROM placed GROUP BY gid
     ) g JOIN (SELECT kid, count(DISTINCT step * ${stepMs} // ${minuteMs}) AS minutes FROM placed GROUP BY kid) m ON m.kid = g.kid
     LEFT JOIN (${sharesSql("gid", bucketedSql("gid", "(SELECT gid, duration_lo, duration_counts FROM part JOIN placed USING (kid, step))"), [50, 95])}) d ON d.gid = g.gid
     ORDER BY g.kid, g.first_step`,
    parameters,
  );
  const windows = new Map<string, { minutes: number; windows: YoungWindow[] }>();
  for (const row of rows) {
    const id = idOf(kindIn(row));
    const one = windows.get(id) ?? { minutes: numberIn(row, "minutes"), windows: [] };
    windows.set(id, one);
    one.windows.push({
      requests: numberIn(row, "requests"),
      errors: numberIn(row, "errors"),
      durationUs: numberIn(row, "us"),
      p50Us: bucketUs(row, "p50"),
      p95Us: bucketUs(row, "p95"),
    });
  }
  return new Map(
    [...windows].flatMap(([id, one]) => {
      const baseline = youngBaseline(one.windows, one.minutes);
      return baseline === null ? [] : [[id, baseline] as const];
    }),
  );
}

/** `windows` must be in time order. Null if there is too little data. */
export function youngBaseline(windows: readonly YoungWindow[], minutes: number): RouteBaseline | null {
  const middle = quantile(
    windows.map(({ requests }) => requests),
    0.5,
  );
  const full = untilOnset(windows.filter(({ requests }) => requests >= fullPart * (middle ?? 0)));
  if (full.length < minWindows) return null;
  const sum = (of: (window: YoungWindow) => number): number => full.reduce((total, window) => total + of(window), 0);
  const requests = sum((window) => window.requests);
  const errors = sum((window) => window.errors);
  const known = (of: (window: YoungWindow) => number | null): number[] =>
    full.flatMap((window) => {
      const value = of(window);
      return value === null ? [] : [value];
    });
  return {
    isSettled: false,
    requests,
    errors,
    meanUs: requests > 0 ? sum((window) => window.durationUs) / requests : null,
    windows: minutes,
    windowsExpected: youngMs / minuteMs,
    minRequests: 0,
    errorRatio: requests > 0 ? errors / requests : 0,
    p50Us: quantile(
      known(({ p50Us }) => p50Us),
      0.5,
    ),
    p95Us: quantile(
      known(({ p95Us }) => p95Us),
      0.5,
    ),
    p95HighUs: quantile(
      known(({ p95Us }) => p95Us),
      0.95,
    ),
  };
}

/** The windows before the first three consecutive bad ones, each compared with all windows before it. */
function untilOnset(windows: readonly YoungWindow[]): readonly YoungWindow[] {
  const before = { requests: 0, errors: 0, p95s: [] as number[] };
  for (const [index, { requests, errors, p95Us }] of windows.entries()) {
    const next = windows.slice(index, index + badInRow);
    if (index >= minWindows && next.length === badInRow) {
      const usualRatio = before.errors / before.requests;
      const usualUs = before.p95s[Math.floor(before.p95s.length / 2)] ?? null;
      if (next.every((window) => isFailing(window, usualRatio)) || next.every((window) => isSlow(window, usualUs)))
        return windows.slice(0, index);
    }
    before.requests += requests;
    before.errors += errors;
    if (p95Us !== null) insert(before.p95s, p95Us);
  }
  return windows;
}

/** Inserts into a sorted array. */
function insert(values: number[], value: number): void {
  const at = values.findIndex((known) => known > value);
  values.splice(at < 0 ? values.length : at, 0, value);
}

function isFailing({ requests, errors }: YoungWindow, usualRatio: number): boolean {
  const expected = requests * usualRatio;
  return errors > requests * Math.max(bad.errorRatio, bad.times * usualRatio) && errors >= expected + 2 * Math.sqrt(expected + 1);
}

function isSlow({ p95Us }: YoungWindow, usualUs: number | null): boolean {
  return p95Us !== null && usualUs !== null && p95Us > Math.max(bad.times * usualUs, usualUs + bad.slowerUs);
}

/** Nearest-rank quantile: always an existing value, the higher one of two equally near. */
function quantile(values: readonly number[], part: number): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.round(part * (sorted.length - 1)))] ?? null;
}
