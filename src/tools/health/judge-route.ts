/**
 * Judges one route: its last windows against its own baselines, over the shortest time with enough requests. Shared by summary,
 * RED findings and status. docs/summary.md explains the rules.
 */

import { bucketOf, fineLayout, mergeHistograms, percentileNs, type SparseHistogram } from "../../base/latency-histogram.ts";
import type { RouteBaseline, RouteCell, SummaryRouteHealthFact } from "../../model/summary.ts";
import { isTelemetryExport, isWaitingRequest } from "../../model/waiting-requests.ts";
import { type HostNoise, quiet } from "./host-noise.ts";
import { thresholds } from "./thresholds.ts";

type Severity = "critical" | "warning";

export interface ErrorVerdict {
  severity: Severity;
  rule: "errors" | "errors-rising";
  requests: number;
  errors: number;
  ratio: number;
  threshold: number;
  /** Null: no baseline. */
  usual: number | null;
  /** True when the baseline is just as bad. */
  isChronic: boolean;
}

export interface SlowVerdict {
  /** `info`: usual for this time of the day. */
  severity: Severity | "info";
  p95Us: number;
  times: number;
  before: { p95Us: number; times: number; isSettled: boolean } | null;
  yesterday: { p95Us: number; times: number } | null;
}

export interface QueueVerdict {
  queueUs: number;
  meanUs: number;
  part: number;
}

export interface JudgedRoute {
  fact: SummaryRouteHealthFact;
  errors: ErrorVerdict | null;
  slow: SlowVerdict | null;
  queueing: QueueVerdict | null;
}

/** Least requests of a window; smaller windows are merged with the one before. */
const leastInWindow = { errors: 5, slow: 10, queue: 10 };
/** Least number of bad requests for a verdict. */
const leastBad = { errors: 6, errorsWithoutBaseline: 10, slow: 8 };
/** Fewer requests give no usable p95. */
const leastInBaseline = 20;
/** Dense traffic is judged by windows of at most this age. */
const staleMs = 60_000;
/** A median wait this long is intended: long polls, event streams. */
const waitingUs = 5_000_000;

export function judgeRoute(fact: SummaryRouteHealthFact, nowMs: number, noise: HostNoise = quiet): JudgedRoute {
  return { fact, errors: judgeErrors(fact, nowMs), slow: judgeSlowness(fact, nowMs, noise), queueing: judgeQueue(fact, nowMs, noise) };
}

/** Windows with at least this many requests each, newest first. */
function windowsOf(cells: readonly RouteCell[], least: number, nowMs: number): RouteCell[] {
  const windows: RouteCell[] = [];
  let open: (RouteCell & { startMs: number }) | undefined;
  for (const cell of cells) {
    open = open === undefined ? { ...cell, startMs: cell.endMs } : { ...joined(open, cell), startMs: cell.endMs };
    if (open.requests < least) continue;
    // Ignore old windows, unless requests are too rare for newer ones.
    if (windows.length === 0 && nowMs - open.endMs > Math.max(staleMs, 3 * (open.endMs - open.startMs))) return [];
    windows.push(open);
    open = undefined;
  }
  return windows;
}

function joined(one: RouteCell, other: RouteCell): RouteCell {
  return {
    endMs: one.endMs,
    requests: one.requests + other.requests,
    errors: one.errors + other.errors,
    durationUs: one.durationUs + other.durationUs,
    queueUs: one.queueUs + other.queueUs,
    queueSamples: one.queueSamples + other.queueSamples,
    durations: mergeHistograms(one.durations, other.durations),
  };
}

/**
 * Bad means: the two newest windows, or three of the last five including one of the two newest, or the only window. Returns
 * the deciding windows, merged.
 */
function evidence(windows: readonly RouteCell[], isBad: (window: RouteCell) => boolean): RouteCell | null {
  const bad = windows.slice(0, 5).map(isBad);
  if (bad[0] && (bad[1] || bad.length === 1)) return windows.slice(0, 2).reduce(joined);
  if ((bad[0] || bad[1]) && bad.filter(Boolean).length >= 3) return windows.slice(0, bad.lastIndexOf(true) + 1).reduce(joined);
  return null;
}

/** Error share of the baseline: of all its requests when it is settled, else of its median window. */
function usualErrors(baseline: RouteBaseline): number {
  return baseline.isSettled && baseline.requests > 0
    ? Math.max(baseline.errorRatio, baseline.errors / baseline.requests)
    : baseline.errorRatio;
}

function judgeErrors(fact: SummaryRouteHealthFact, nowMs: number): ErrorVerdict | null {
  const baselines = [fact.before, fact.yesterday].flatMap((baseline) => (baseline === null ? [] : [usualErrors(baseline)]));
  const usual = baselines.length === 0 ? null : Math.max(...baselines);
  const windows = windowsOf(fact.cells, leastInWindow.errors, nowMs);
  const { critical, warning } = thresholds.errors;
  const worst = verdictAbove(windows, critical, 2, usual);
  if (worst) return { ...worst, severity: "critical", rule: "errors", threshold: critical, isChronic: false };
  // Without a baseline a small share may be normal.
  const bad = usual === null ? null : verdictAbove(windows, warning, 2, usual);
  if (bad) return { ...bad, severity: "warning", rule: "errors", threshold: warning, isChronic: false };
  const { least, times, errors } = thresholds.errorsRising;
  const rising = usual === null ? null : verdictAbove(windows, least, times, usual);
  if (rising && rising.errors >= errors) {
    return { ...rising, severity: "warning", rule: "errors-rising", threshold: Math.max(least, times * (usual ?? 0)), isChronic: false };
  }
  // Above this share a failure counts even when it is not new.
  const chronic = usual !== null && usual > critical / 2 ? verdictAbove(windows, critical, 0, 0) : null;
  return chronic ? { ...chronic, usual, severity: "warning", rule: "errors", threshold: critical, isChronic: true } : null;
}

/** More than `level` failed, a multiple of the usual share, and beyond chance for this many requests. */
function verdictAbove(
  windows: readonly RouteCell[],
  level: number,
  times: number,
  usual: number | null,
): Pick<ErrorVerdict, "requests" | "errors" | "ratio" | "usual"> | null {
  const limit = Math.max(level, times * (usual ?? 0));
  const found = evidence(windows, ({ requests, errors }) => errors / requests > limit);
  if (found === null) return null;
  const { requests, errors } = found;
  if (errors <= limit * requests) return null;
  const expected = requests * (usual ?? 0);
  if (errors < expected + leastBad.errors * Math.sqrt(expected + 1)) return null;
  if (usual === null && errors < leastBad.errorsWithoutBaseline) return null;
  return { requests, errors, ratio: errors / requests, usual };
}

function judgeSlowness(fact: SummaryRouteHealthFact, nowMs: number, noise: HostNoise): SlowVerdict | null {
  if (isWaitingRequest(fact) || isTelemetryExport(fact)) return null;
  const windows = windowsOf(fact.cells, leastInWindow.slow, nowMs);
  const [before, yesterday] = [slowAgainst(windows, fact.before, noise), slowAgainst(windows, fact.yesterday, noise)];
  const found = before ?? yesterday;
  if (!found) return null;
  const timesOf = (baseline: RouteBaseline | null) =>
    baseline?.p95Us ? { p95Us: baseline.p95Us, times: found.p95Us / baseline.p95Us, isSettled: baseline.isSettled } : null;
  const verdict = { p95Us: found.p95Us, before: timesOf(fact.before), yesterday: timesOf(fact.yesterday) };
  // Slower than an hour ago but as slow as yesterday: usual for this time of day.
  if (before && fact.yesterday && !yesterday) return { ...verdict, times: verdict.before?.times ?? 0, severity: "info" };
  const known = [verdict.before, verdict.yesterday].flatMap((one) => (one === null ? [] : [one.times]));
  const { critical } = thresholds.latency;
  // Slower than yesterday but not than an hour ago: not new, and not getting worse.
  if (!before) return { ...verdict, times: Math.min(verdict.yesterday?.times ?? 0, critical), severity: "warning" };
  const times = Math.min(...known);
  const isCritical = times > critical * noise.times && found.p95Us - found.usualUs >= thresholds.latency.criticalUs;
  return { ...verdict, times, severity: isCritical ? "critical" : "warning" };
}

/** More than 5 % of the requests are slower than the baseline plus its noise. */
function slowAgainst(
  windows: readonly RouteCell[],
  baseline: RouteBaseline | null,
  noise: HostNoise,
): { p95Us: number; usualUs: number } | null {
  const usualUs = baseline?.p95Us ?? null;
  if (baseline === null || usualUs === null || baseline.requests < leastInBaseline || (baseline.p50Us ?? 0) >= waitingUs) return null;
  const { warning, minUs, soonUs, critical } = thresholds.latency;
  const spreadUs = Math.min(baseline.p95HighUs ?? usualUs, 3 * usualUs) - usualUs;
  const above = (times: number, floorUs: number): number =>
    Math.max(times * noise.times * usualUs, usualUs + Math.max(floorUs, 3 * noise.addedUs), usualUs + 1.5 * spreadUs);
  // A large factor counts from a few milliseconds on, a factor of two needs more.
  const limitUs = Math.min(above(warning, minUs), above(critical, soonUs));
  const limit = bucketOf(fineLayout, limitUs * 1_000);
  const slow = ({ durations }: RouteCell): number => countAbove(durations, limit);
  const found = evidence(windows, (window) => slow(window) > 0.05 * window.requests);
  if (found === null || slow(found) < leastBad.slow || slow(found) <= 0.05 * found.requests) return null;
  return { p95Us: (percentileNs(fineLayout, found.durations, 0.95) ?? 0) / 1_000, usualUs };
}

function countAbove({ lo, counts }: SparseHistogram, bucket: number): number {
  return counts.reduce((sum, count, index) => sum + (lo + index > bucket ? count : 0), 0);
}

/** Queueing counts only when the route also got slower, and not on a busy host, where everything waits for a CPU. */
function judgeQueue(fact: SummaryRouteHealthFact, nowMs: number, noise: HostNoise): QueueVerdict | null {
  if (fact.role === "client" || (fact.before === null && fact.yesterday === null)) return null;
  const usualUs = Math.max(0, ...[fact.before, fact.yesterday].map((baseline) => baseline?.meanUs ?? 0));
  const minUs = Math.max(thresholds.queue.minUs, 3 * noise.addedUs);
  const windows = windowsOf(fact.cells, leastInWindow.queue, nowMs);
  const of = (window: RouteCell): QueueVerdict => {
    const queueUs = window.queueSamples > 0 ? window.queueUs / window.queueSamples : 0;
    const meanUs = window.requests > 0 ? window.durationUs / window.requests : 0;
    return { queueUs, meanUs, part: meanUs > 0 ? queueUs / meanUs : 0 };
  };
  // More queue time than total time: the two were measured on different requests.
  const isBad = ({ queueUs, meanUs, part }: QueueVerdict): boolean =>
    queueUs >= minUs && part > thresholds.queue.part && part <= 1 && meanUs >= thresholds.queue.times * noise.times * usualUs;
  const found = evidence(windows, (window) => isBad(of(window)));
  const verdict = found === null || found.requests < 20 ? null : of(found);
  return verdict !== null && isBad(verdict) ? verdict : null;
}
