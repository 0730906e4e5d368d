/** Latency and failures of one route before and after a deployment. */

import type { BuildFacts } from "../../model/deployments.ts";
import { type BlockTest, compareBlocks, median, middleMean } from "./block-test.ts";
import { type Comparison, minChange, minPersistent } from "./comparison.ts";
import { blocksOf, type ComparedRoute, histogramOf, percentileUs, type RouteBlock, sumOf } from "./route-blocks.ts";
import { cliffsDelta, cohensH, fisherTest } from "./significance.ts";

const minRequests = { p50: 50, p95: 100, errors: 50 };
const perBlock = { p50: 8, p95: 20, errors: 8 };
const minErrors = 5;
/** With more failures than this, the block test suffices without Fisher's test. */
const exactMaxErrors = 500;
/** A new route is a regression at this error share. */
const newRoute = { requests: 20, errors: 10, ratio: 0.2, blocks: 3 };

export function compareRoute(route: ComparedRoute, facts: BuildFacts): Comparison[] {
  const least = Math.min(sumOf(route.before, "requests"), sumOf(route.after, "requests"));
  const comparisons: (Comparison | null)[] = [];
  for (const metric of ["p50", "p95"] as const) if (least >= minRequests[metric]) comparisons.push(compareLatency(route, facts, metric));
  if (least >= minRequests.errors) comparisons.push(compareErrors(route, facts));
  return comparisons.filter((comparison) => comparison !== null);
}

/** Percentiles of blocks on a logarithmic scale: the test compares ratios, not milliseconds. */
function compareLatency(route: ComparedRoute, facts: BuildFacts, metric: "p50" | "p95"): Comparison | null {
  const blocks = blocksOf(route, facts, perBlock[metric]);
  if (blocks === null) return null;
  const share = metric === "p50" ? 0.5 : 0.95;
  const levels = (side: readonly RouteBlock[]): number[] =>
    side.flatMap((block) => {
      const us = percentileUs(block.histogram(), share);
      return us === null ? [] : [Math.log(Math.max(1, us))];
    });
  const test = compareBlocks(levels(blocks.before), levels(blocks.after), median);
  if (test === null) return null;
  const [before, after] = [Math.exp(test.before), Math.exp(test.after)];
  const least = Math.log(test.isProven ? minChange.latency : minChange.latencyUnproven);
  const isLarge = isUnusual(test, least) && Math.abs(after - before) >= minChange.latencyUs && test.persistent >= minPersistent.latency;
  // Expensive, and shown only with a change.
  const effect = isLarge ? rounded(cliffsDelta(histogramOf(route.before), histogramOf(route.after))) : 0;
  return {
    change: { metric, subject: route.subject, unit: "us", before, after, effect },
    pValue: test.pValue,
    outcome: isLarge ? (after > before ? "worse" : "better") : null,
  };
}

/** Larger than the minimum effect, and than any stretch of the same length before. */
export function isUnusual({ before, after, usual }: BlockTest, least: number): boolean {
  return Math.abs(after - before) >= Math.max(least, usual ?? 0);
}

/** Anscombe's transform: the variance of a share becomes equal at every level. */
const levelOf = ({ errors, requests }: Pick<RouteBlock, "errors" | "requests">): number =>
  Math.asin(Math.sqrt((errors + 3 / 8) / (requests + 3 / 4)));

function compareErrors(route: ComparedRoute, facts: BuildFacts): Comparison | null {
  const [a, b] = [route.before, route.after].map((cells) => ({ hits: sumOf(cells, "errors"), total: sumOf(cells, "requests") }));
  if (a === undefined || b === undefined) return null;
  const [before, after] = [a.hits / a.total, b.hits / b.total];
  const change = { metric: "errors" as const, subject: route.subject, unit: "ratio" as const, before, after };
  // Nothing failed: counts as a comparison without a finding.
  if (a.hits + b.hits < minErrors) return { change: { ...change, effect: 0 }, pValue: 1, outcome: null };
  const blocks = blocksOf(route, facts, perBlock.errors);
  const test = blocks && compareBlocks(blocks.before.map(levelOf), blocks.after.map(levelOf), middleMean);
  if (!test) return null;
  const exact = a.hits + b.hits <= exactMaxErrors ? fisherTest(a, b) : 0;
  const least = test.isProven ? minChange.errorsRatio : minChange.errorsUnproven;
  const isLarge =
    isUnusual(test, 0) &&
    Math.sign(after - before) === Math.sign(test.after - test.before) &&
    Math.abs(after - before) >= least &&
    Math.max(after, before) >= minChange.errors * Math.min(after, before) &&
    test.persistent >= minPersistent.errors;
  return {
    change: { ...change, effect: rounded(cohensH(before, after)) },
    pValue: Math.max(test.pValue, exact),
    outcome: isLarge ? (after > before ? "worse" : "better") : null,
  };
}

/**
 * A failing route that only the new build serves. The service as a whole must fail more than before, because a renamed route
 * that already failed is not a regression. Null for other routes.
 */
export function compareNewRoute(route: ComparedRoute, routes: readonly ComparedRoute[], facts: BuildFacts): Comparison | null {
  const [requests, errors] = [sumOf(route.after, "requests"), sumOf(route.after, "errors")];
  if (sumOf(route.before, "requests") > 0 || requests < newRoute.requests) return null;
  if (errors < newRoute.errors || errors < newRoute.ratio * requests) return null;
  const blockMs = facts.afterMs / 8;
  const failing = new Set(route.after.filter((cell) => cell.errors > 0).map(({ atMs }) => Math.floor(atMs / blockMs)));
  if (failing.size < newRoute.blocks) return null;
  const failed = (side: "before" | "after"): { hits: number; total: number } => ({
    hits: routes.reduce((sum, one) => sum + sumOf(one[side], "errors"), 0),
    total: routes.reduce((sum, one) => sum + sumOf(one[side], "requests"), 0),
  });
  const [before, after] = [failed("before"), failed("after")];
  if (before.total < minRequests.errors || after.hits / after.total < before.hits / before.total + minChange.errorsRatio) return null;
  const ratio = errors / requests;
  return {
    change: { metric: "errors", subject: route.subject, unit: "ratio", before: 0, after: ratio, effect: rounded(cohensH(0, ratio)) },
    // Compared with the error share of all requests before.
    pValue: fisherTest({ hits: before.hits, total: before.total }, { hits: errors, total: requests }),
    outcome: "worse",
  };
}

function rounded(value: number): number {
  return Number(value.toFixed(3));
}
