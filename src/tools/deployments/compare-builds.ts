/**
 * What changed with a new build: each route's latency and errors, the rate, CPU and memory of the time after against the time before. Pure:
 * the same facts give the same report. docs/summary.md explains the tests and their limits.
 */

import { bucketStartNs, fineLayout, mergeHistograms, type SparseHistogram, sparse } from "../../base/latency-histogram.ts";
import type { BuildFacts, RouteCell } from "../../model/deployments.ts";
import type { BuildChange, BuildReport, Verdict } from "../schemas/deployment.ts";
import { routeSubject } from "./describe-deployment.ts";
import { type Cell, cliffsDelta, cohensH, compareMeans, compareShares, holm, type ShareTest, studentTail } from "./statistics.ts";

/** Share of unchanged deployments that raise a false alarm, over all looks at one. */
export const falseAlarmRate = 0.01;

/** Parts that the time after is cut into: enough to see how they vary, and long enough not to depend on each other. */
const partsAfter = 12;
/** The time after is compared as one piece with pieces of the same length before, when there are this many. */
const minPieces = 10;
const minRequests = { p50: 50, p95: 100, errors: 50 };
const minErrors = 5;
/** Smaller changes are not worth an alert, however certain. */
const minChange = {
  latency: 1.1,
  latencyUs: 100,
  errors: 1.5,
  errorsRatio: 0.002,
  rate: 2,
  resource: 1.25,
  cpuCores: 0.05,
  memoryBytes: 32 * 1024 ** 2,
};
const routesMax = 20;
const changesMax = 20;

interface ComparedRoute {
  /** `GET /users/{id}`; empty for all routes together. */
  subject: string;
  before: RouteCell[];
  after: RouteCell[];
}

interface Comparison {
  change: Omit<BuildChange, "pValue" | "outcome">;
  pValue: number;
  /** Whether the change is large enough, and which way. */
  outcome: BuildChange["outcome"] | null;
}

/** `looks`: how often a deployment is looked at in all; each look has its share of the false alarms. */
export function compareBuilds(facts: BuildFacts, looks: number): BuildReport {
  const routes = facts.routes.map((route): ComparedRoute => ({ ...route, subject: routeSubject(route) }));
  const ordered = routes.sort((a, b) => requestsOf(b) - requestsOf(a)).slice(0, routesMax);
  const perRoute = ordered.map((route) => compareRoute(route, facts));
  let judged = perRoute.flat();
  const tooFew = perRoute.filter((comparisons) => comparisons.length === 0).length;
  // Routes that are too quiet each for itself are compared together.
  if (judged.length === 0 && ordered.length > 1) judged = compareRoute(togetherOf(ordered), facts);
  judged = [...judged, ...compareResources(facts, ordered)];
  const alpha = falseAlarmRate / looks;
  const found = [...kept(judged, alpha), ...kept(compareRates(ordered, facts), alpha)];
  const sum = (side: "before" | "after"): number => facts.routes.reduce((total, route) => total + sumOf(route[side], "requests"), 0);
  return {
    source: facts.source,
    beforeMs: facts.beforeMs,
    afterMs: facts.afterMs,
    requestsBefore: sum("before"),
    requestsAfter: sum("after"),
    comparisons: judged.length,
    tooFew,
    alpha,
    changes: found
      .sort((a, b) => outcomeOrder.indexOf(a.outcome) - outcomeOrder.indexOf(b.outcome) || severity(b) - severity(a))
      .slice(0, changesMax),
    newEgress: facts.newEgress,
    newErrors: facts.newErrors,
  };
}

const outcomeOrder: BuildChange["outcome"][] = ["worse", "better", "changed"];

export function verdictOf(report: BuildReport): Verdict {
  if (report.changes.some(({ outcome }) => outcome === "worse")) return "regression";
  if (report.changes.some(({ outcome }) => outcome === "better")) return "improvement";
  return report.comparisons > 0 ? "no-change" : "not-enough-data";
}

function kept(comparisons: readonly Comparison[], alpha: number): BuildChange[] {
  const adjusted = holm(comparisons.map(({ pValue }) => pValue));
  return comparisons.flatMap(({ change, outcome }, index): BuildChange[] => {
    const pValue = adjusted[index] ?? 1;
    return outcome === null || pValue >= alpha ? [] : [{ ...change, outcome, pValue: Number(pValue.toPrecision(3)) }];
  });
}

/** How bad, for the order: errors before latency, more before less. */
function severity({ metric, before, after }: BuildChange): number {
  const weight = metric === "errors" ? 10 : metric === "p95" ? 2 : 1;
  return weight * Math.abs(Math.log((after + 1e-6) / (before + 1e-6)));
}

function compareRoute(route: ComparedRoute, facts: BuildFacts): Comparison[] {
  const [before, after] = [sumOf(route.before, "requests"), sumOf(route.after, "requests")];
  const comparisons: (Comparison | null)[] = [];
  const durations = { before: histogramOf(route.before), after: histogramOf(route.after) };
  if (before >= minRequests.p50 && after >= minRequests.p50) comparisons.push(compareLatency(route, durations, facts, "p50"));
  if (before >= minRequests.p95 && after >= minRequests.p95) comparisons.push(compareLatency(route, durations, facts, "p95"));
  if (before >= minRequests.errors && after >= minRequests.errors) comparisons.push(compareErrors(route, facts));
  return comparisons.filter((comparison) => comparison !== null);
}

/**
 * A percentile has changed when the share of requests above one value has: that value is the percentile of both sides together, as in Mood's
 * test of the median.
 */
function compareLatency(
  route: ComparedRoute,
  { before, after }: { before: SparseHistogram; after: SparseHistogram },
  facts: BuildFacts,
  metric: "p50" | "p95",
): Comparison | null {
  const share = metric === "p50" ? 0.5 : 0.95;
  const limit = bucketAt(mergeHistograms(before, after), share);
  const above = (cell: RouteCell): Cell => ({ hits: countAbove(cell.histogram, limit), total: countAbove(cell.histogram, -1) });
  const test = shareTest(route, facts, above);
  const [beforeUs, afterUs] = [percentileUs(before, share), percentileUs(after, share)];
  if (test === null || beforeUs === null || afterUs === null) return null;
  const isLarge =
    Math.max(afterUs / beforeUs, beforeUs / afterUs) >= minChange.latency && Math.abs(afterUs - beforeUs) >= minChange.latencyUs;
  // Both must agree: the values and the share above.
  const outcome = !isLarge
    ? null
    : afterUs > beforeUs && test.after > test.before
      ? "worse"
      : afterUs < beforeUs && test.after < test.before
        ? "better"
        : null;
  return {
    change: { metric, subject: route.subject, unit: "us", before: beforeUs, after: afterUs, effect: rounded(cliffsDelta(before, after)) },
    pValue: test.pValue,
    outcome,
  };
}

function compareErrors(route: ComparedRoute, facts: BuildFacts): Comparison | null {
  if (sumOf(route.before, "errors") + sumOf(route.after, "errors") < minErrors) {
    // Nothing failed: that is a comparison, too, and one without a find.
    return {
      change: { metric: "errors", subject: route.subject, unit: "ratio", before: 0, after: 0, effect: 0 },
      pValue: 1,
      outcome: null,
    };
  }
  const test = shareTest(route, facts, ({ errors, requests }) => ({ hits: errors, total: requests }));
  if (test === null) return null;
  const { before, after } = test;
  const isLarge =
    Math.abs(after - before) >= minChange.errorsRatio && Math.max(after, before) >= minChange.errors * Math.min(after, before);
  return {
    change: { metric: "errors", subject: route.subject, unit: "ratio", before, after, effect: rounded(cohensH(before, after)) },
    pValue: test.pValue,
    outcome: isLarge ? (after > before ? "worse" : "better") : null,
  };
}

/**
 * By parts of both sides. What drifts more slowly than a part lasts makes neighbours alike, so a short time after is also compared as one piece
 * with as long pieces of the time before, and the more doubtful of both answers counts.
 */
function shareTest(route: ComparedRoute, facts: BuildFacts, hits: (cell: RouteCell) => Cell): ShareTest | null {
  const partMs = Math.max(facts.cellMs, Math.ceil(facts.afterMs / partsAfter / facts.cellMs) * facts.cellMs);
  const test = compareShares(cellsOf(route.before, partMs, hits), cellsOf(route.after, partMs, hits));
  if (test === null) return null;
  const pieces = cellsOf(route.before, facts.afterMs, hits).filter(({ total }) => total > 0);
  if (pieces.length < minPieces) return test;
  return { ...test, pValue: Math.max(test.pValue, pieceTest(pieces, test.after)) };
}

/** Whether one more piece with this share would be unusual among the others. */
function pieceTest(pieces: readonly Cell[], share: number): number {
  const shares = pieces.map(({ hits, total }) => hits / total);
  const mean = shares.reduce((sum, value) => sum + value, 0) / shares.length;
  const spread = Math.sqrt(shares.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (shares.length - 1));
  if (spread === 0) return share === mean ? 1 : 0;
  // As compareMeans() would with one value on a side, if that had a spread of its own.
  const t = Math.abs(share - mean) / (spread * Math.sqrt(1 + 1 / shares.length));
  return 2 * studentTail(t, shares.length - 1);
}

function compareRates(routes: readonly ComparedRoute[], facts: BuildFacts): Comparison[] {
  const partMs = Math.max(facts.cellMs, Math.ceil(facts.afterMs / partsAfter / facts.cellMs) * facts.cellMs);
  return routes.flatMap((route): Comparison[] => {
    const rates = (cells: readonly RouteCell[], sideMs: number): number[] => {
      const counts = new Array<number>(Math.floor(sideMs / partMs)).fill(0);
      for (const { atMs, requests } of cells) {
        const part = Math.floor(atMs / partMs);
        if (part < counts.length) counts[part] = (counts[part] ?? 0) + requests;
      }
      return counts.map((count) => (count * 1_000) / partMs);
    };
    const test = compareMeans(rates(route.before, facts.beforeMs), rates(route.after, facts.afterMs));
    if (test === null || Math.max(sumOf(route.before, "requests"), sumOf(route.after, "requests")) < minRequests.p95) return [];
    const { before, after, pValue } = test;
    const isLarge = Math.max(before, after) >= minChange.rate * Math.min(before, after);
    const change = { metric: "rate" as const, subject: route.subject, unit: "per-second" as const, before, after, effect: null };
    return [{ change, pValue, outcome: isLarge ? "changed" : null }];
  });
}

/** CPU per request where requests are known: more work is not a regression. Of memory only growth counts: a young process has little. */
function compareResources({ cpuCores, memoryBytes, beforeMs, afterMs }: BuildFacts, routes: readonly ComparedRoute[]): Comparison[] {
  const comparisons: Comparison[] = [];
  const perSecond = (side: "before" | "after", sideMs: number): number =>
    (routes.reduce((total, route) => total + sumOf(route[side], "requests"), 0) * 1_000) / sideMs;
  const [rateBefore, rateAfter] = [perSecond("before", beforeMs), perSecond("after", afterMs)];
  const isByRequest = rateBefore >= 1 && rateAfter >= 1;
  const scaled = (values: readonly number[], rate: number): number[] => values.map((cores) => (isByRequest ? (cores / rate) * 1e6 : cores));
  const cpu = compareMeans(scaled(cpuCores.before, rateBefore), scaled(cpuCores.after, rateAfter));
  if (cpu && cpuCores.after.length >= 5 && cpuCores.before.length >= 5) {
    const { before, after, pValue } = cpu;
    const cores = Math.abs(after - before) * (isByRequest ? Math.min(rateBefore, rateAfter) / 1e6 : 1);
    const isLarge = Math.max(before, after) >= minChange.resource * Math.min(before, after) && cores >= minChange.cpuCores;
    const unit = isByRequest ? ("cpu-us" as const) : ("cores" as const);
    comparisons.push({
      change: { metric: "cpu", subject: "", unit, before, after, effect: null },
      pValue,
      outcome: isLarge ? (after > before ? "worse" : "better") : null,
    });
  }
  const settled = memoryBytes.after.slice(Math.floor(memoryBytes.after.length / 2));
  const memory = memoryBytes.before.length >= 5 && memoryBytes.after.length >= 8 ? compareMeans(memoryBytes.before, settled) : null;
  if (memory) {
    const { before, after, pValue } = memory;
    const isLarge = after >= minChange.resource * before && after - before >= minChange.memoryBytes;
    const change = { metric: "memory" as const, subject: "", unit: "bytes" as const, before, after, effect: null };
    comparisons.push({ change, pValue, outcome: isLarge ? "worse" : null });
  }
  return comparisons;
}

function togetherOf(routes: readonly ComparedRoute[]): ComparedRoute {
  return { subject: "", before: routes.flatMap((route) => route.before), after: routes.flatMap((route) => route.after) };
}

function requestsOf({ before, after }: ComparedRoute): number {
  return sumOf(before, "requests") + sumOf(after, "requests");
}

function sumOf(cells: readonly RouteCell[], field: "requests" | "errors"): number {
  return cells.reduce((total, cell) => total + cell[field], 0);
}

function histogramOf(cells: readonly RouteCell[]): SparseHistogram {
  const sums = new Array<number>(fineLayout.bucketCount).fill(0);
  for (const { histogram } of cells) {
    const { lo, counts } = histogram;
    for (let index = 0; index < counts.length; index++) {
      const bucket = Math.min(lo + index, fineLayout.bucketCount - 1);
      sums[bucket] = (sums[bucket] ?? 0) + (counts[index] ?? 0);
    }
  }
  return sparse(sums);
}

function cellsOf(cells: readonly RouteCell[], partMs: number, hits: (cell: RouteCell) => Cell): Cell[] {
  const parts = new Map<number, Cell>();
  for (const cell of cells) {
    const part = Math.floor(cell.atMs / partMs);
    const one = hits(cell);
    const sum = parts.get(part);
    if (sum) {
      sum.hits += one.hits;
      sum.total += one.total;
    } else parts.set(part, one);
  }
  return [...parts.values()];
}

/** Buckets above `limit`; all for -1. */
function countAbove({ lo, counts }: SparseHistogram, limit: number): number {
  let sum = 0;
  for (let index = Math.max(0, limit + 1 - lo); index < counts.length; index++) sum += counts[index] ?? 0;
  return sum;
}

/** The bucket such that the share above it is as near to `1 - share` as buckets allow, and not nothing. */
function bucketAt(histogram: SparseHistogram, share: number): number {
  const total = countAbove(histogram, -1);
  let upto = 0;
  for (const [index, count] of histogram.counts.entries()) {
    const next = upto + count;
    if (next >= share * total) {
      const isBelow = next >= total || share * total - upto < next - share * total;
      return histogram.lo + (isBelow ? index - 1 : index);
    }
    upto = next;
  }
  return histogram.lo + histogram.counts.length;
}

/** Between the bounds of its bucket by how far into it the percentile lies, so that changes smaller than a bucket show. */
export function percentileUs({ lo, counts }: SparseHistogram, share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let upto = 0;
  for (const [index, count] of counts.entries()) {
    if (count > 0 && upto + count >= share * total) {
      const [start, end] = [bucketStartNs(fineLayout, lo + index), bucketStartNs(fineLayout, lo + index + 1)];
      return (start + ((end - start) * (share * total - upto)) / count) / 1_000;
    }
    upto += count;
  }
  return null;
}

function rounded(value: number): number {
  return Number(value.toFixed(3));
}
