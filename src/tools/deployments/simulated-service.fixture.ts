/** Requests, CPU and memory of a simulated service before and after a deployment, with known truth. */

import { bucketOf, fineLayout, sparse } from "../../base/latency-histogram.ts";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import type { BuildFacts, RouteCell, RouteFacts } from "../../model/deployments.ts";

export interface SimulatedRoute {
  subject: string;
  requestsPerCell: number;
  medianUs: number;
  /** Standard deviation of the logarithm of the duration. */
  spread: number;
  errorShare: number;
}

export interface SimulatedChange {
  /** Factor for all durations. */
  slower?: number;
  /** Share of the requests after that take five times as long. */
  tail?: number;
  errorShare?: number;
  /** Only this route changes. */
  only?: string;
  /** A route that only the new build serves. */
  newRoute?: SimulatedRoute;
  /** Factor for CPU per request and resident memory. */
  cpu?: number;
  memory?: number;
}

/** Variation of a service without any deployment. */
export interface Noise {
  /** Wandering of the level of all durations, as a share, and how much of a deviation remains after ten seconds. */
  spread: number;
  remains: number;
  /** The same per route, for the request rate. */
  perRoute?: number;
  rate?: number;
  /** Amplitude of the daily cycle of rate and durations, and the hour of the deployment. */
  daily?: number;
  hour?: number;
  /** Bursts per hour, 30 to 90 s each: durations times `burstFactor`, and 3 % more failures. */
  bursts?: number;
  burstFactor?: number;
}

export interface Simulation {
  seed: number;
  routes: SimulatedRoute[];
  change?: SimulatedChange;
  wander?: Noise;
  beforeMs?: number;
  afterMs?: number;
  /** Also CPU and memory by minute. */
  withResources?: boolean;
}

export const cellMs = 10_000;
const minuteMs = 60_000;
const mebibyte = 1024 ** 2;

/** The whole time; `untilMs()` removes what an earlier look could not know yet. */
export function simulate(simulation: Simulation): BuildFacts {
  const { change = {}, wander = { spread: 0.08, remains: 0.8 }, beforeMs = 3_600_000, afterMs = 1_800_000 } = simulation;
  const routes = change.newRoute === undefined ? simulation.routes : [...simulation.routes, change.newRoute];
  const chance = chanceOf(simulation.seed);
  const facts: RouteFacts[] = routes.map(({ subject }) => {
    const [method = "", route = ""] = subject.split(" ");
    return { role: "server", method, route, before: [], after: [] };
  });
  const levels = new Levels(wander, chance, routes.length);
  const totals: number[] = [];
  for (let atMs = -beforeMs; atMs < afterMs; atMs += cellMs) {
    const isAfter = atMs >= 0;
    const { rate, durations, moreErrors } = levels.next(atMs);
    let total = 0;
    for (const [index, route] of routes.entries()) {
      if (route === change.newRoute && !isAfter) continue;
      const changed = isAfter && (change.only === undefined || change.only === route.subject) ? change : {};
      const made = cellOf(
        { ...route, requestsPerCell: route.requestsPerCell * rate },
        changed,
        durations[index] ?? 1,
        moreErrors,
        chance,
        route === change.newRoute,
      );
      facts[index]?.[isAfter ? "after" : "before"].push({ ...made, atMs: isAfter ? atMs : atMs + beforeMs });
      total += made.requests;
    }
    totals.push(total);
  }
  const resources =
    simulation.withResources === true
      ? resourcesOf(totals, beforeMs, change, chance)
      : { cpuCores: { before: [], after: [] }, memoryBytes: { before: [], after: [] } };
  return { source: "hooks", beforeMs, afterMs, cellMs, routes: facts, ...resources, newEgress: [], newErrors: [] };
}

/** Facts known this long after the deployment. */
export function untilMs(facts: BuildFacts, afterMs: number): BuildFacts {
  const minutes = Math.floor(afterMs / minuteMs);
  return {
    ...facts,
    afterMs,
    routes: facts.routes.map((route) => ({ ...route, after: route.after.filter(({ atMs }) => atMs < afterMs) })),
    cpuCores: { ...facts.cpuCores, after: facts.cpuCores.after.slice(0, minutes) },
    memoryBytes: { ...facts.memoryBytes, after: facts.memoryBytes.after.slice(0, minutes) },
  };
}

interface Chance {
  uniform: () => number;
  normal: () => number;
}

function chanceOf(seed: number): Chance {
  const random = new SeededRandom(seed);
  const uniform = (): number => (random.word() + 0.5) / 2 ** 32;
  let spare: number | undefined;
  // The Box–Muller transform yields two values at a time.
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
  return { uniform, normal };
}

/** First-order autoregressive series of levels, with the time of day and bursts on top. */
class Levels {
  readonly #noise: Noise;
  readonly #chance: Chance;
  readonly #routes: number[];
  #all: number;
  #rate: number;
  #burstUntilMs = Number.NEGATIVE_INFINITY;

  constructor(noise: Noise, chance: Chance, routes: number) {
    this.#noise = noise;
    this.#chance = chance;
    this.#all = chance.normal();
    this.#rate = noise.rate === undefined ? 0 : chance.normal();
    this.#routes = Array.from({ length: routes }, () => (noise.perRoute === undefined ? 0 : chance.normal()));
  }

  next(atMs: number): { rate: number; durations: number[]; moreErrors: number } {
    const { spread, remains, perRoute, rate = 0, daily = 0, hour = 0, bursts = 0, burstFactor = 3 } = this.#noise;
    const { uniform, normal } = this.#chance;
    const step = (level: number): number => remains * level + Math.sqrt(1 - remains ** 2) * normal();
    this.#all = step(this.#all);
    if (rate > 0) this.#rate = step(this.#rate);
    if (perRoute !== undefined) for (const [index, level] of this.#routes.entries()) this.#routes[index] = step(level);
    if (bursts > 0 && uniform() < (bursts * cellMs) / 3_600_000) this.#burstUntilMs = atMs + 30_000 + uniform() * 60_000;
    const isBurst = atMs < this.#burstUntilMs;
    const day = daily * Math.sin((2 * Math.PI * (hour + atMs / 3_600_000)) / 24);
    const shared = spread * this.#all + 0.3 * day + (isBurst ? Math.log(burstFactor) : 0);
    return {
      rate: Math.exp(rate * this.#rate + day),
      durations: this.#routes.map((own) => Math.exp(shared + (perRoute ?? 0) * own)),
      moreErrors: isBurst ? 0.03 : 0,
    };
  }
}

const scratch = new Array<number>(fineLayout.bucketCount).fill(0);

function cellOf(
  route: SimulatedRoute,
  change: SimulatedChange,
  factor: number,
  moreErrors: number,
  { uniform, normal }: Chance,
  isNew: boolean,
): Omit<RouteCell, "atMs"> {
  const counts = scratch.fill(0);
  // Poisson arrivals.
  const requests = Math.max(0, Math.round(route.requestsPerCell + Math.sqrt(route.requestsPerCell) * normal()));
  const errorShare = (isNew ? route.errorShare : (change.errorShare ?? route.errorShare)) + moreErrors;
  let errors = 0;
  for (let request = 0; request < requests; request++) {
    const tail = change.tail !== undefined && uniform() < change.tail ? 5 : 1;
    const us = route.medianUs * Math.exp(route.spread * normal()) * factor * (change.slower ?? 1) * tail;
    const bucket = bucketOf(fineLayout, us * 1_000);
    counts[bucket] = (counts[bucket] ?? 0) + 1;
    if (uniform() < errorShare) errors++;
  }
  return { requests, errors, histogram: sparse(counts) };
}

/** 20 ms of CPU for each request and a base load; memory that creeps up and falls with each collection. By minute. */
function resourcesOf(
  totals: readonly number[],
  beforeMs: number,
  change: SimulatedChange,
  { normal }: Chance,
): Pick<BuildFacts, "cpuCores" | "memoryBytes" | "resourceMinutes"> {
  const resourceMinutes = { before: [] as number[], after: [] as number[] };
  const resources = {
    cpuCores: { before: [] as number[], after: [] as number[] },
    memoryBytes: { before: [] as number[], after: [] as number[] },
  };
  const cells = minuteMs / cellMs;
  let level = normal();
  for (let minute = 0; minute < Math.floor(totals.length / cells); minute++) {
    const isAfter = minute * minuteMs >= beforeMs;
    const requests = totals.slice(minute * cells, (minute + 1) * cells).reduce((sum, count) => sum + count, 0);
    level = 0.8 * level + 0.6 * normal();
    const side = isAfter ? "after" : "before";
    const [cpu, memory] = isAfter ? [change.cpu ?? 1, change.memory ?? 1] : [1, 1];
    resourceMinutes[side].push(isAfter ? minute - beforeMs / minuteMs : minute);
    resources.cpuCores[side].push(0.02 + ((requests * 0.02 * cpu) / 60) * Math.exp(0.1 * level));
    resources.memoryBytes[side].push(200 * mebibyte * memory * (1 + 0.05 * ((minute % 7) / 7) + 0.02 * level));
  }
  return { ...resources, resourceMinutes };
}
