/**
 * Precision and delay of incidents: the real watch over a real store in simulated time.
 *
 * - `day`: a day of 100 healthy services with many changes (bench/lib/health-day.ts). Every incident is false.
 * - `faults`: faults with a known cause, one after the other: when the incident opens, whether there is exactly one, what it merges, when it closes.
 * - `cpu`: the watch over 1,000 services: processor time of a step against its interval.
 *
 * CORAL_BENCH_PARTS selects parts, CORAL_BENCH_HOURS the length of the day, CORAL_BENCH_STEP the seconds between two evaluations of the day.
 */

import { incidentId } from "../src/model/incident.ts";
import { simulateDay } from "./lib/health-day.ts";
import { Dice, HealthWorld, rowsOf, type SimulatedRoute, windowMs } from "./lib/health-world.ts";
import { simulateIncidents } from "./lib/incident-faults.ts";
import { type WatchedWorld, watchIncidents } from "./lib/incident-world.ts";
import { type Figure, figureOf, isSmall, report, single } from "./lib/report.ts";

interface Part {
  sizes: Record<string, number>;
  figures: Figure[];
  notes: string[];
}

const seed = Number(process.env["CORAL_BENCH_SEED"] ?? 18);
const hours = Number(process.env["CORAL_BENCH_HOURS"] ?? (isSmall ? 2 : 24));
const stepMs = Number(process.env["CORAL_BENCH_STEP"] ?? 30) * 1_000;
const services = 100;
const dayAgents = ["web-1", "web-2", "web-3", "db-1", "jobs-1"];
const { signal } = new AbortController();

async function day(): Promise<Part> {
  let watched: WatchedWorld | undefined;
  let found: string[] = [];
  const look = async (world: HealthWorld): Promise<void> => {
    watched ??= watchIncidents(world, dayAgents);
    await watched.watch.step(signal);
    found = (await watched.incidents()).map(({ number, openedMs, symptoms: [first] }) => {
      const at = new Date(openedMs).toISOString().slice(11, 19);
      return `${at} ${incidentId(number)} ${first?.service ?? ""}: ${first?.message ?? ""}`;
    });
  };
  const { evaluations } = await simulateDay(hours, services, seed, { stepMs, look });
  return {
    sizes: { services, hours, looks: evaluations },
    figures: [figureOf("false incidents in the simulated time", "rows", single(found.length), { kind: "at-most", value: 1 })],
    notes: found,
  };
}

async function faults(): Promise<Part> {
  const results = await simulateIncidents(seed);
  const seconds = (values: readonly (number | null)[]): number[] => values.flatMap((ms) => (ms === null ? [] : [ms / 1_000]));
  const part = (isGood: (one: (typeof results)[number]) => boolean): number => (100 * results.filter(isGood).length) / results.length;
  const all = { kind: "at-least", value: 100 } as const;
  return {
    sizes: { faults: results.length },
    figures: [
      figureOf("from the fault to its incident", "s", seconds(results.map(({ openedMs }) => openedMs)), { kind: "at-most", value: 30 }),
      figureOf("faults with an incident", "%", single(part(({ openedMs }) => openedMs !== null)), all),
      figureOf("faults with the right incidents, entries and causes", "%", single(part(({ isRight }) => isRight)), all),
      figureOf("closed after the repair", "%", single(part(({ closedMs }) => closedMs !== null)), all),
      figureOf("from the repair until it is closed", "s", seconds(results.map(({ closedMs }) => closedMs)), {
        kind: "at-most",
        value: 300,
      }),
    ],
    notes: results.map(
      ({ name, openedMs, closedMs, isRight, seen }) =>
        `${isRight ? "right" : "WRONG"}  ${name}: after ${openedMs === null ? "-" : openedMs / 1_000} s, closed after ${closedMs === null ? "-" : closedMs / 1_000} s: ${seen}`,
    ),
  };
}

/** The interval between two evaluations: rows come every ten seconds. */
const intervalMs = 10_000;

async function cpu(): Promise<Part> {
  const count = isSmall ? 200 : 1_000;
  const agents = Array.from({ length: 20 }, (_, index) => `host-${index}`);
  const dice = new Dice(seed);
  await using world = await new HealthWorld(Date.UTC(2026, 0, 5), agents).open();
  const routes = Array.from({ length: 3 * count }, (_, index): SimulatedRoute => {
    const number = index % count;
    return {
      ...{ service: `service-${number}`, agentId: agents[number % agents.length] ?? "", role: "server", protocol: "http", method: "GET" },
      ...{
        route: `/route/${Math.floor(index / count)}`,
        peer: null,
        port: 10_000 + number,
        perSecond: 0.6,
        medianMs: 20,
        spread: 0.3,
        errorRatio: 0,
      },
    };
  });
  for (let number = 0; number < count; number++)
    await world.register(`service-${number}`, agents[number % agents.length] ?? "", 10_000 + number);
  const { watch } = watchIncidents(world, agents);
  const usedMs: number[] = [];
  const steps = isSmall ? 30 : 90;
  for (let step = 0; step < steps; step++) {
    world.nowMs += windowMs;
    const red = new Map(agents.map((agentId) => [agentId, { red: [] as ReturnType<typeof rowsOf> }]));
    for (const route of routes) red.get(route.agentId)?.red.push(...rowsOf(route, world.nowMs, {}, dice));
    await world.add(red);
    if (world.nowMs % 60_000 === 0) await world.store.rollup();
    const before = process.cpuUsage();
    await watch.step(signal);
    const { user, system } = process.cpuUsage(before);
    if (step >= steps / 2) usedMs.push((user + system) / 1_000);
  }
  return {
    sizes: { watchedServices: count, watchedRoutes: routes.length },
    figures: [
      figureOf("one look at all services", "ms", usedMs),
      figureOf(
        "watching, of a core",
        "%",
        usedMs.map((ms) => (100 * ms) / intervalMs),
        { kind: "at-most", value: 5 },
      ),
    ],
    notes: [],
  };
}

const parts = { faults, cpu, day };
const wanted = (process.env["CORAL_BENCH_PARTS"] ?? "").split(",").filter((text) => text !== "");
const done: Part[] = [];
for (const [name, run] of Object.entries(parts)) if (wanted.length === 0 || wanted.includes(name)) done.push(await run());

report({
  name: "incidents",
  sizes: Object.assign({}, ...done.map(({ sizes }) => sizes)) as Record<string, number>,
  figures: done.flatMap(({ figures }) => figures),
  notes: done.flatMap(({ notes }) => notes),
});
