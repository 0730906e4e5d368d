/**
 * Compares the time after a deployment with the time before: latency and errors of each route, rate, CPU and memory. Pure: the
 * same facts give the same report. docs/summary.md explains the tests and their limits.
 */

import type { BuildFacts } from "../../model/deployments.ts";
import type { BuildChange, BuildReport, Verdict } from "../schemas/deployment.ts";
import { compareBlocks, median } from "./block-test.ts";
import { compareResources } from "./compare-resources.ts";
import { compareNewRoute, compareRoute } from "./compare-route.ts";
import { type Comparison, minChange } from "./comparison.ts";
import { routeSubject } from "./deployment-text.ts";
import { type ComparedRoute, sumOf } from "./route-blocks.ts";
import { holm } from "./significance.ts";

/** False alarm rate per deployment, over all looks at it. */
export const falseAlarmRate = 0.01;

const minRateRequests = 100;
const routesMax = 20;
const changesMax = 20;

/** `looks`: total number of comparisons of a deployment; each gets its share of the false alarm rate. */
export function compareBuilds(facts: BuildFacts, looks: number): BuildReport {
  const routes = facts.routes.map((route): ComparedRoute => ({ ...route, subject: routeSubject(route) }));
  const ordered = routes.sort((a, b) => requestsOf(b) - requestsOf(a)).slice(0, routesMax);
  const perRoute = ordered.map((route) => compareRoute(route, facts));
  let judged = perRoute.flat();
  const tooFew = perRoute.filter((comparisons) => comparisons.length === 0).length;
  // Routes with too few requests are pooled and compared together.
  if (judged.length === 0 && ordered.length > 1) judged = compareRoute(togetherOf(ordered), facts);
  const fresh = ordered.map((route) => compareNewRoute(route, ordered, facts)).filter((comparison) => comparison !== null);
  judged = [...judged, ...fresh, ...compareResources(facts, ordered)];
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

/** Sort key: errors before latency, larger changes first. */
function severity({ metric, before, after }: BuildChange): number {
  const weight = metric === "errors" ? 10 : metric === "p95" ? 2 : 1;
  return weight * Math.abs(Math.log((after + 1e-6) / (before + 1e-6)));
}

/** A rate that doubled or halved, or a route that came or went. */
function compareRates(routes: readonly ComparedRoute[], facts: BuildFacts): Comparison[] {
  const { cellMs, beforeMs, afterMs } = facts;
  const blockMs = Math.ceil(afterMs / 8 / cellMs) * cellMs;
  return routes.flatMap((route): Comparison[] => {
    if (Math.max(sumOf(route.before, "requests"), sumOf(route.after, "requests")) < minRateRequests) return [];
    const rates = (cells: ComparedRoute["before"], sideMs: number): number[] => {
      const counts = new Array<number>(Math.floor(sideMs / blockMs)).fill(0);
      for (const { atMs, requests } of cells) {
        const block = Math.floor(atMs / blockMs);
        if (block < counts.length) counts[block] = (counts[block] ?? 0) + requests;
      }
      return counts.map((count) => (count * 1_000) / blockMs);
    };
    const test = compareBlocks(rates(route.before, beforeMs), rates(route.after, afterMs), median);
    if (test === null) return [];
    const { before, after, pValue } = test;
    const isLarge = Math.max(before, after) >= minChange.rate * Math.min(before, after);
    const change = { metric: "rate" as const, subject: route.subject, unit: "per-second" as const, before, after, effect: null };
    return [{ change, pValue, outcome: isLarge ? "changed" : null }];
  });
}

function togetherOf(routes: readonly ComparedRoute[]): ComparedRoute {
  return { subject: "", before: routes.flatMap((route) => route.before), after: routes.flatMap((route) => route.after) };
}

function requestsOf({ before, after }: ComparedRoute): number {
  return sumOf(before, "requests") + sumOf(after, "requests");
}
