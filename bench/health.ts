/**
 * Precision and delay of health alarms.
 *
 * - `day`: a simulated day with 100 healthy services: services restart, clients end, builds are deployed, batch jobs run, traffic changes, hosts get
 *   busy and agents restart. Every alarm is false.
 * - `simulated`: 20 kinds of fault as rows of simulated agents, in simulated time.
 * - `live`: faults of real programs under load, observed by a real `coral up`: how soon the first line of `coral query summary` names the service and
 *   the route, how soon it disappears after the repair, and which other services are accused.
 *
 * CORAL_BENCH_PARTS selects parts, CORAL_BENCH_ONLY live faults by substrings of their names, CORAL_BENCH_SEED names and ports. No live fault begins
 * later than CORAL_BENCH_MINUTES after the start. With CORAL_BENCH_SMALL=1 the day has six hours, with three live faults.
 */

import { simulateDay } from "./lib/health-day.ts";
import { simulateFaults } from "./lib/health-faults.ts";
import { describeLive, runLiveFaults } from "./lib/live/run-live-faults.ts";
import { type Figure, figureOf, isSmall, report, single } from "./lib/report.ts";

interface Part {
  sizes: Record<string, number>;
  figures: Figure[];
  notes: string[];
}

const listIn = (name: string): string[] => (process.env[name] ?? "").split(",").filter((text) => text !== "");
const hours = Number(process.env["CORAL_BENCH_HOURS"] ?? (isSmall ? 6 : 24));
const seed = Number(process.env["CORAL_BENCH_SEED"] ?? 16);
const services = 100;

async function day(): Promise<Part> {
  const { episodes, evaluations } = await simulateDay(hours, services, seed);
  const of = (health: string): number => episodes.filter((episode) => episode.health === health).length;
  return {
    sizes: { services, hours, evaluations },
    figures: [
      figureOf("false criticals in the simulated time", "rows", single(of("critical")), { kind: "at-most", value: 1 }),
      figureOf("false degradeds in the simulated time", "rows", single(of("degraded")), { kind: "at-most", value: 3 }),
    ],
    notes: episodes.map(
      ({ service, health, atMs, reason }) => `${new Date(atMs).toISOString().slice(11, 16)} ${service} ${health}: ${reason}`,
    ),
  };
}

interface Times {
  foundMs: number | null;
  goneMs: number | null;
}

const isFound = ({ foundMs }: Times): boolean => foundMs !== null && foundMs <= 30_000;
const isGone = ({ goneMs }: Times): boolean => goneMs !== null && goneMs <= 60_000;

function timeFigures(what: string, faults: readonly Times[]): Figure[] {
  const seconds = (of: (fault: Times) => number | null): number[] =>
    faults.map(of).flatMap((value) => (value === null ? [] : [value / 1_000]));
  const part = (isGood: (fault: Times) => boolean): number => (100 * faults.filter(isGood).length) / Math.max(1, faults.length);
  const all = { kind: "at-least", value: 100 } as const;
  return [
    figureOf(`${what}: service and route in the first line within 30 s of the second bad window`, "%", single(part(isFound)), all),
    figureOf(
      `${what}: from the second bad window to the first line`,
      "s",
      seconds(({ foundMs }) => foundMs),
      { kind: "at-most", value: 30 },
    ),
    figureOf(`${what}: gone within 60 s of the repair`, "%", single(part(isGone)), all),
    figureOf(
      `${what}: from the repair until it is gone`,
      "s",
      seconds(({ goneMs }) => goneMs),
      { kind: "at-most", value: 60 },
    ),
  ];
}

async function simulated(): Promise<Part> {
  const faults = await simulateFaults(seed);
  const missed = faults.filter((fault) => !isFound(fault) || !isGone(fault));
  return {
    sizes: { simulatedFaults: faults.length },
    figures: timeFigures("simulated faults", faults),
    notes: missed.map(
      ({ name, foundMs, goneMs, seen }) => `${name}: found after ${foundMs ?? "-"} ms, gone after ${goneMs ?? "-"} ms; first line ${seen}`,
    ),
  };
}

async function live(): Promise<Part> {
  const asked = listIn("CORAL_BENCH_ONLY");
  const minutes = process.env["CORAL_BENCH_MINUTES"];
  const { skipped, results } = await runLiveFaults(
    seed,
    isSmall && asked.length === 0 ? ["one route of two", "slow provider", "killed"] : asked,
    minutes === undefined ? Infinity : Number(minutes) * 60_000,
  );
  const tried = results.filter((result) => result.skipped === undefined);
  const accused = tried.reduce((sum, result) => sum + result.accused.size, 0);
  return {
    sizes: { liveFaults: tried.length },
    figures: [
      ...(tried.length === 0 ? [] : timeFigures("live faults", tried)),
      figureOf("live faults: bystanders accused", "rows", single(accused), { kind: "at-most", value: Math.floor(tried.length / 20) }),
    ],
    notes: skipped === undefined ? results.map(describeLive) : [`live faults skipped: ${skipped}`],
  };
}

const parts = { day, simulated, live };
const wanted = listIn("CORAL_BENCH_PARTS");
const done: Part[] = [];
for (const [name, run] of Object.entries(parts)) if (wanted.length === 0 || wanted.includes(name)) done.push(await run());

report({
  name: "health",
  sizes: Object.assign({}, ...done.map(({ sizes }) => sizes)) as Record<string, number>,
  figures: done.flatMap(({ figures }) => figures),
  notes: done.flatMap(({ notes }) => notes),
});
