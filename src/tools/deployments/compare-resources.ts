/** CPU and memory of a service before and after a deployment, one value per minute. */

import type { BuildFacts } from "../../model/deployments.ts";
import { compareBlocks, median } from "./block-test.ts";
import { isUnusual } from "./compare-route.ts";
import { type Comparison, minChange, minPersistent } from "./comparison.ts";
import { type ComparedRoute, sumOf } from "./route-blocks.ts";
import { fisherTest } from "./significance.ts";

const minMinutes = { cpu: 5, memoryBefore: 8, memoryAfter: 8 };

export function compareResources(facts: BuildFacts, routes: readonly ComparedRoute[]): Comparison[] {
  return [compareCpu(facts, routes), compareMemory(facts)].filter((comparison) => comparison !== null);
}

const minuteMs = 60_000;

/** Per request where requests are known: more work is not a regression. */
function compareCpu({ cpuCores, resourceMinutes, beforeMs, afterMs }: BuildFacts, routes: readonly ComparedRoute[]): Comparison | null {
  if (Math.min(cpuCores.before.length, cpuCores.after.length) < minMinutes.cpu) return null;
  const perSecond = (side: "before" | "after", sideMs: number): number =>
    (routes.reduce((total, route) => total + sumOf(route[side], "requests"), 0) * 1_000) / sideMs;
  const [rateBefore, rateAfter] = [perSecond("before", beforeMs), perSecond("after", afterMs)];
  const isByRequest = rateBefore >= 1 && rateAfter >= 1;
  const levels = (side: "before" | "after", rate: number): number[] => {
    const rates = ratesByMinute(routes, side);
    return cpuCores[side].map((cores, index) => {
      // A rate far below the usual one marks a minute with missing data.
      const own = rates.get(resourceMinutes?.[side][index] ?? -1) ?? 0;
      return Math.log(Math.max(1e-3, isByRequest ? (cores / (own > rate / 10 ? own : rate)) * 1e6 : cores));
    });
  };
  const test = compareBlocks(levels("before", rateBefore), levels("after", rateAfter), median);
  if (test === null) return null;
  const [before, after] = [Math.exp(test.before), Math.exp(test.after)];
  const cores = Math.abs(after - before) * (isByRequest ? Math.min(rateBefore, rateAfter) / 1e6 : 1);
  const least = Math.log(test.isProven ? minChange.resource : minChange.resourceUnproven);
  const isLarge = isUnusual(test, least) && cores >= minChange.cpuCores && test.persistent >= minPersistent.resource;
  return {
    change: { metric: "cpu", subject: "", unit: isByRequest ? "cpu-us" : "cores", before, after, effect: null },
    pValue: test.pValue,
    outcome: isLarge ? (after > before ? "worse" : "better") : null,
  };
}

function ratesByMinute(routes: readonly ComparedRoute[], side: "before" | "after"): Map<number, number> {
  const rates = new Map<number, number>();
  for (const route of routes)
    for (const { atMs, requests } of route[side]) {
      const minute = Math.floor(atMs / minuteMs);
      rates.set(minute, (rates.get(minute) ?? 0) + (requests * 1_000) / minuteMs);
    }
  return rates;
}

/**
 * Only memory growth counts: a young process uses little. Memory moves too slowly to estimate its variance, so every minute of
 * the second half must exceed every minute before.
 */
function compareMemory({ memoryBytes }: BuildFacts): Comparison | null {
  const settled = memoryBytes.after.slice(Math.floor(memoryBytes.after.length / 2));
  if (memoryBytes.before.length < minMinutes.memoryBefore || memoryBytes.after.length < minMinutes.memoryAfter) return null;
  const [before, after] = [median(memoryBytes.before), median(settled)];
  const most = Math.max(...memoryBytes.before);
  const above = settled.filter((bytes) => bytes > most).length;
  const isLarge = above === settled.length && after >= minChange.resource * most && after - before >= minChange.memoryBytes;
  return {
    change: { metric: "memory", subject: "", unit: "bytes", before, after, effect: null },
    pValue: fisherTest({ hits: 0, total: memoryBytes.before.length }, { hits: above, total: settled.length }),
    outcome: isLarge ? "worse" : null,
  };
}
