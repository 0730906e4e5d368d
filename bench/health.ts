/**
 * Whether alarms can be believed. A simulated day with 100 services in which nothing is wrong but services restart, clients end, builds are
 * deployed, batch jobs run, traffic changes, hosts get busy and agents restart: how many alarms there are. And 20 kinds of fault: how soon the first
 * line names the service and route, and how soon it is gone after the repair. Rows of simulated agents go through a colony's store in simulated time
 * and are judged by the real tool. Six hours with CORAL_BENCH_SMALL=1.
 */

import { simulateDay } from "./lib/health-day.ts";
import { simulateFaults } from "./lib/health-faults.ts";
import { figureOf, isSmall, report, single } from "./lib/report.ts";

const hours = Number(process.env["CORAL_BENCH_HOURS"] ?? (isSmall ? 6 : 24));
const services = 100;
const seed = 16;

const day = await simulateDay(hours, services, seed);
const of = (health: string): number => day.episodes.filter((episode) => episode.health === health).length;
const faults = await simulateFaults(seed);
const found = faults.filter(({ foundMs }) => foundMs !== null);
const seconds = (values: readonly (number | null)[]): number[] => values.flatMap((value) => (value === null ? [] : [value / 1_000]));
const foundInTime = faults.filter(({ foundMs }) => foundMs !== null && foundMs <= 30_000).length;
const goneInTime = faults.filter(({ goneMs }) => goneMs !== null && goneMs <= 60_000).length;

report({
  name: "health",
  sizes: { services, hours, evaluations: day.evaluations, faults: faults.length },
  figures: [
    figureOf("false criticals in the simulated time", "rows", single(of("critical")), { kind: "at-most", value: 1 }),
    figureOf("false degradeds in the simulated time", "rows", single(of("degraded")), { kind: "at-most", value: 3 }),
    figureOf(
      "faults with service and route in the first line within 30 s of the second bad window",
      "%",
      single((100 * foundInTime) / faults.length),
      {
        kind: "at-least",
        value: 100,
      },
    ),
    figureOf("from the second bad window to the first line", "s", seconds(found.map(({ foundMs }) => foundMs)), {
      kind: "at-most",
      value: 30,
    }),
    figureOf("faults gone within 60 s of the repair", "%", single((100 * goneInTime) / faults.length), { kind: "at-least", value: 100 }),
    figureOf("from the repair until it is gone", "s", seconds(faults.map(({ goneMs }) => goneMs)), { kind: "at-most", value: 60 }),
  ],
  notes: [
    ...day.episodes.map(
      ({ service, health, atMs, reason }) => `${new Date(atMs).toISOString().slice(11, 16)} ${service} ${health}: ${reason}`,
    ),
    ...faults
      .filter(({ foundMs, goneMs }) => foundMs === null || foundMs > 30_000 || goneMs === null || goneMs > 60_000)
      .map(
        ({ name, foundMs, goneMs, seen }) =>
          `${name}: found after ${foundMs ?? "-"} ms, gone after ${goneMs ?? "-"} ms; first line ${seen}`,
      ),
  ],
});
