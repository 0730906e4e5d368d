/** Requests of a made-up service before and after a deployment, with known truth. */

import { bucketOf, fineLayout, sparse } from "../../base/latency-histogram.ts";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import type { BuildFacts, RouteCell, RouteFacts } from "../../model/deployments.ts";

export interface SimulatedRoute {
  subject: string;
  requestsPerCell: number;
  medianUs: number;
  /** Of the logarithm of the duration. */
  spread: number;
  errorShare: number;
}

export interface SimulatedChange {
  /** All durations times this. */
  slower?: number;
  /** Of the requests after, this share takes five times as long. */
  tail?: number;
  errorShare?: number;
  /** All routes, or the first only. */
  only?: string;
}

export interface Simulation {
  seed: number;
  routes: SimulatedRoute[];
  change?: SimulatedChange;
  /** How much the level of all durations wanders, as a share; and how much of it remains after ten seconds. */
  wander?: { spread: number; remains: number };
  beforeMs?: number;
  afterMs?: number;
}

export const cellMs = 10_000;

/** All of the time; `untilMs()` cuts what is not known yet at an earlier look. */
export function simulate(simulation: Simulation): BuildFacts {
  const { routes, change = {}, wander = { spread: 0.08, remains: 0.8 }, beforeMs = 3_600_000, afterMs = 1_800_000 } = simulation;
  const random = new SeededRandom(simulation.seed);
  const uniform = (): number => (random.word() + 0.5) / 2 ** 32;
  let spare: number | undefined;
  // Two at a time, as Box and Muller have it.
  const normal = (): number => {
    if (spare !== undefined) {
      const kept = spare;
      spare = undefined;
      return kept;
    }
    const [radius, angle] = [Math.sqrt(-2 * Math.log(uniform())), 2 * Math.PI * uniform()];
    spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  };
  const facts: RouteFacts[] = routes.map(({ subject }) => {
    const [method = "", route = ""] = subject.split(" ");
    return { role: "server", method, route, before: [], after: [] };
  });
  let level = normal();
  const cells = (beforeMs + afterMs) / cellMs;
  for (let cell = 0; cell < cells; cell++) {
    const isAfter = cell * cellMs >= beforeMs;
    level = wander.remains * level + Math.sqrt(1 - wander.remains ** 2) * normal();
    for (const [index, route] of routes.entries()) {
      const changed = isAfter && (change.only === undefined || change.only === route.subject) ? change : {};
      const made = cellOf(route, changed, Math.exp(wander.spread * level), { uniform, normal });
      facts[index]?.[isAfter ? "after" : "before"].push({ ...made, atMs: cell * cellMs - (isAfter ? beforeMs : 0) });
    }
  }
  return {
    source: "hooks",
    beforeMs,
    afterMs,
    cellMs,
    routes: facts,
    cpuCores: { before: [], after: [] },
    memoryBytes: { before: [], after: [] },
    newEgress: [],
    newErrors: [],
  };
}

/** What was known so long after the deployment. */
export function untilMs(facts: BuildFacts, afterMs: number): BuildFacts {
  return {
    ...facts,
    afterMs,
    routes: facts.routes.map((route) => ({ ...route, after: route.after.filter(({ atMs }) => atMs < afterMs) })),
  };
}

interface Chance {
  uniform: () => number;
  normal: () => number;
}

const scratch = new Array<number>(fineLayout.bucketCount).fill(0);

function cellOf(route: SimulatedRoute, change: SimulatedChange, factor: number, { uniform, normal }: Chance): Omit<RouteCell, "atMs"> {
  const counts = scratch.fill(0);
  // Arrivals vary, too.
  const requests = Math.max(0, Math.round(route.requestsPerCell + Math.sqrt(route.requestsPerCell) * normal()));
  let errors = 0;
  for (let request = 0; request < requests; request++) {
    const tail = change.tail !== undefined && uniform() < change.tail ? 5 : 1;
    const us = route.medianUs * Math.exp(route.spread * normal()) * factor * (change.slower ?? 1) * tail;
    const bucket = bucketOf(fineLayout, us * 1_000);
    counts[bucket] = (counts[bucket] ?? 0) + 1;
    if (uniform() < (change.errorShare ?? route.errorShare)) errors++;
  }
  return { requests, errors, histogram: sparse(counts) };
}
