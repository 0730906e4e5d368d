/** Made-up requests of one route, window by window. */

import { bucketOf, fineLayout } from "../../base/latency-histogram.ts";
import type { RouteBaseline, RouteCell, SummaryRouteHealthFact } from "../../model/summary.ts";

export const sampleNowMs = Date.UTC(2026, 0, 2);

export interface MadeWindow {
  requests?: number;
  errors?: number;
  /** Duration of nine in ten requests, and of every tenth. */
  p50Us?: number;
  p95Us?: number;
  queueUs?: number;
}

export function cellOf(index: number, { requests = 100, errors = 0, p50Us = 10_000, p95Us = 50_000, queueUs = 0 }: MadeWindow): RouteCell {
  const [fast, slow] = [bucketOf(fineLayout, p50Us * 1_000), bucketOf(fineLayout, p95Us * 1_000)];
  const slowest = Math.round(requests / 10);
  const counts = new Array<number>(Math.abs(slow - fast) + 1).fill(0);
  const lo = Math.min(fast, slow);
  counts[fast - lo] = (counts[fast - lo] ?? 0) + requests - slowest;
  counts[slow - lo] = (counts[slow - lo] ?? 0) + slowest;
  return {
    endMs: sampleNowMs - index * 10_000,
    requests,
    errors,
    durationUs: (requests - slowest) * p50Us + slowest * p95Us,
    queueUs: queueUs * requests,
    queueSamples: queueUs > 0 ? requests : 0,
    durations: { lo, counts },
  };
}

export function baselineOf(more: Partial<RouteBaseline> = {}): RouteBaseline {
  return {
    isSettled: true,
    requests: 36_000,
    errors: 0,
    meanUs: 14_000,
    windows: 6,
    windowsExpected: 6,
    minRequests: 5_900,
    errorRatio: 0,
    p50Us: 10_000,
    p95Us: 50_000,
    p95HighUs: 52_000,
    ...more,
  };
}

/** Windows newest first. Default: a healthy route with ten requests a second, as an hour ago and yesterday. */
export function routeOf(
  service: string,
  windows: readonly MadeWindow[] = [{}, {}, {}, {}, {}, {}],
  more: Partial<SummaryRouteHealthFact> = {},
): SummaryRouteHealthFact {
  const cells = windows.map((window, index) => cellOf(index, window));
  return {
    source: "hooks",
    service,
    role: "server",
    protocol: "http",
    method: "GET",
    route: "/a",
    // The total covers five minutes; only the last windows are listed.
    requests: cells.reduce((sum, { requests }) => sum + 5 * requests, 0),
    errors: cells.reduce((sum, { errors }) => sum + errors, 0),
    p95Us: 50_000,
    before: baselineOf(),
    yesterday: baselineOf(),
    cells,
    ...more,
  };
}

/** The same in each of the last six windows. */
export const steadily = (window: MadeWindow): MadeWindow[] => Array.from({ length: 6 }, () => window);
