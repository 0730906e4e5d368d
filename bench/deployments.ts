/**
 * Verdicts on simulated deployments with known truth. Durations and rates drift over minutes (autoregressive), follow the time of day and have bursts,
 * as without deployments. Innocent deployments must not be called a regression; real regressions must be found quickly. A sample goes through the
 * store, detection and SQL; the rest through the comparison only. A fifth of the size with CORAL_BENCH_SMALL=1.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/log.ts";
import { SeededRandom } from "../src/base/seeded-random.fixture.ts";
import { DeploymentWatch } from "../src/colony/deployments/deployment-watch.ts";
import type { BuildFacts } from "../src/model/deployments.ts";
import { type ColonyStore, openColonyStore } from "../src/store/colony/index.ts";
import { openEngine } from "../src/store/engine/index.ts";
import { derivedSignals, signals } from "../src/store/signals/index.ts";
import {
  type Noise,
  type SimulatedChange,
  type SimulatedRoute,
  simulate,
  untilMs,
} from "../src/tools/deployments/simulated-service.fixture.ts";
import { compareBuilds, type Verdict, verdictOf } from "../src/tools/index.ts";
import { figureOf, isSmall, report, single } from "./lib/report.ts";
import { spreadOf } from "./lib/spread.ts";

const minuteMs = 60_000;
const lookMinutes = [2, 5, 15, 30];
/** The time after the deployment is measured from this delay on. */
const warmUpMs = minuteMs;
const innocent = isSmall ? 120 : 600;
const perKind = isSmall ? 6 : 30;
const throughStore = isSmall ? 6 : 24;

const noises: Noise[] = [
  { spread: 0.05, remains: 0.5, perRoute: 0.03, rate: 0.1, daily: 0.3 },
  { spread: 0.1, remains: 0.9, perRoute: 0.05, rate: 0.2, daily: 0.4, bursts: 1 },
  { spread: 0.1, remains: 0.97, perRoute: 0.05, rate: 0.3, daily: 0.4, bursts: 0.5, burstFactor: 2 },
  { spread: 0.2, remains: 0.95, perRoute: 0.15, rate: 0.4, daily: 0.5, bursts: 2 },
];

const kinds: Record<string, SimulatedChange> = {
  "p95 and p50 ×1.5": { slower: 1.5 },
  "p95 and p50 ×2": { slower: 2 },
  "p95 and p50 ×2, one route": { slower: 2, only: "GET /users/{id}" },
  "p95 only: 10% of requests ×5": { tail: 0.1 },
  "5% more failures, one route": { errorShare: 0.055, only: "GET /users/{id}" },
  "30% failures, a quiet route": { errorShare: 0.3, only: "GET /search" },
  "new route, 60% failures": { newRoute: { subject: "GET /v2/users", requestsPerCell: 5, medianUs: 5_000, spread: 0.5, errorShare: 0.6 } },
  "CPU per request ×2": { cpu: 2 },
  "memory ×1.6": { memory: 1.6 },
};

/** Rates and durations differ by service. */
function routesOf(random: SeededRandom): SimulatedRoute[] {
  const busy = [0.5, 1, 2][random.below(3)] ?? 1;
  return [
    { subject: "GET /users/{id}", requestsPerCell: 60 * busy, medianUs: 8_000, spread: 0.5, errorShare: 0.002 },
    { subject: "POST /orders", requestsPerCell: 20 * busy, medianUs: 40_000, spread: 0.7, errorShare: 0.01 },
    { subject: "GET /search", requestsPerCell: 10 * busy, medianUs: 20_000, spread: 0.9, errorShare: 0.005 },
    { subject: "GET /health", requestsPerCell: 2, medianUs: 300, spread: 0.2, errorShare: 0 },
  ];
}

/** One deployment in four has only ten minutes of history, because another one preceded it. */
function factsOf(seed: number, change: SimulatedChange): BuildFacts {
  const random = new SeededRandom(seed);
  const wander = { ...random.pick(noises), hour: random.below(24) };
  const beforeMs = random.below(4) === 0 ? 10 * minuteMs : 60 * minuteMs;
  return simulate({ seed, routes: routesOf(random), change, wander, beforeMs, withResources: true });
}

interface Judged {
  /** The first verdict. */
  first: Verdict;
  /** Minutes after the deployment; null: never called a regression. */
  regressionMinutes: number | null;
}

/** Repeats the comparison at the same times as the colony. */
function judge(facts: BuildFacts): Judged {
  let first: Verdict = "not-enough-data";
  for (const minutes of lookMinutes) {
    const verdict = verdictOf(compareBuilds(untilMs(facts, minutes * minuteMs), lookMinutes.length));
    if (first === "not-enough-data") first = verdict;
    if (verdict === "regression") return { first, regressionMinutes: minutes + warmUpMs / minuteMs };
  }
  return { first, regressionMinutes: null };
}

const startedMs = Date.UTC(2026, 0, 2, 12);
let nowMs = startedMs;
const clock: Clock = { wallMs: () => nowMs, monotonicMs: () => nowMs };
const timestamp = (ms: number): string => `make_timestamp(${Math.floor(ms * 1_000)})`;

/** Writes a service's requests and scans as an agent reports them. */
async function fill(store: ColonyStore, service: string, facts: BuildFacts): Promise<void> {
  const rows: string[] = [];
  for (const { method, route, before, after } of facts.routes) {
    const cells = [
      // The time before ends, and the time after starts, at a distance from the deployment.
      ...before.map((cell) => ({ ...cell, ms: startedMs - 30_000 - facts.beforeMs + cell.atMs })),
      ...after.map((cell) => ({ ...cell, ms: startedMs + warmUpMs + cell.atMs })),
    ];
    for (const { ms, requests, errors, histogram } of cells)
      for (const [isError, count] of [[false, requests - errors] as const, [true, errors] as const]) {
        if (count === 0) continue;
        // Failures have no separate durations here.
        const counts = isError ? "[]" : `[${histogram.counts.join(",")}]`;
        rows.push(
          `(1, 1, ${timestamp(ms + 10_000)}, 0, ${timestamp(ms)}, 0, '${service}', 'server', 'http', '${method}', '${route}', '${isError ? 500 : 200}', ${isError}, 10000, ${count}, 0, ${isError ? 0 : histogram.lo}, ${counts}, false, 80, '', 0, 0, 0, 0, 0, [], 0, [])`,
        );
      }
  }
  const columns = `source, ingest, stored_at, seq, "time", mono_ms, service, role, protocol, method, route, status, is_error, window_ms, requests, duration_us, duration_lo, duration_counts, is_tls, server_port, peer_address, request_bytes, response_bytes, queue_us, queue_samples, queue_lo, queue_counts, first_byte_lo, first_byte_counts`;
  for (let from = 0; from < rows.length; from += 2_000) {
    const part = rows.slice(from, from + 2_000).join(", ");
    await store.write((transaction) => transaction.run(`INSERT INTO raw.red (${columns}) VALUES ${part}`));
  }
}

async function scan(store: ColonyStore, services: readonly string[], build: string, buildMs: number, pull: number): Promise<void> {
  const rows = services.map(
    (service, index) =>
      `(1, ${pull}, ${timestamp(nowMs - 5_000)}, 0, ${timestamp(nowMs - 6_000)}, 0, '${service}', 'tcp', ${8_000 + index}, '0.0.0.0', ${100 + index}, ${pull}, 1, 'script', 0.8, 'listening_socket', ${timestamp(buildMs)}, '${build}', '{}', '', 0, false)`,
  );
  await store.write((transaction) =>
    transaction.run(
      `INSERT INTO raw.service_instance (source, ingest, stored_at, seq, "time", mono_ms, service, protocol, port, address, pid, start_ticks, netns, named_by, confidence, method, started, build, environment, command_line, user_id, managed) VALUES ${rows.join(", ")}`,
    ),
  );
}

interface Sample {
  service: string;
  isReal: boolean;
  facts: BuildFacts;
}

/** Detection, SQL and comparison: how many verdicts equal those of the comparison alone. */
async function judgeStored(samples: readonly Sample[]): Promise<{ found: number; same: number; looksMs: number[] }> {
  const directory = mkdtempSync(join(tmpdir(), "coral-bench-deployments-"));
  const engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 512 * 1024 ** 2, threads: 1, log: silentLogger });
  try {
    nowMs = startedMs - minuteMs;
    const store = await openColonyStore(engine, {
      file: join(directory, "colony.duckdb"),
      signals: [...signals, ...derivedSignals],
      maxBytes: 4 * 1024 ** 3,
      clock,
      log: silentLogger,
    });
    await store.write((transaction) =>
      transaction.run("INSERT INTO internal.sources VALUES (1, 'web-1', 'epoch', make_timestamp(0), make_timestamp(0), '{}', '{}')"),
    );
    for (const { service, facts } of samples) await fill(store, service, facts);
    const watch = new DeploymentWatch({ store, settings: () => ({ windowMs: 30 * minuteMs, lagMs: 20_000 }), clock, log: silentLogger });
    const services = samples.map(({ service }) => service);
    await scan(store, services, "aaaa", startedMs - 86_400_000, 10);
    await watch.step();
    const called = new Set<string>();
    const looksMs: number[] = [];
    for (const [index, minutes] of [0.5, ...lookMinutes.map((look) => look + 1.6)].entries()) {
      nowMs = startedMs + minutes * minuteMs;
      await scan(store, services, "bbbb", startedMs, 20 + index);
      const beganMs = performance.now();
      await watch.step();
      looksMs.push(performance.now() - beganMs);
      for (const { service, verdict } of await watch.list({ sinceMs: 7_200_000, limit: 1_000 }))
        if (verdict === "regression") called.add(service);
    }
    const found = (await watch.list({ sinceMs: 7_200_000, limit: 1_000 })).length;
    await store.close();
    return {
      found,
      same: samples.filter(({ service, facts }) => called.has(service) === (judge(facts).regressionMinutes !== null)).length,
      looksMs,
    };
  } finally {
    await engine.close();
    rmSync(directory, { recursive: true });
  }
}

const share = (count: number, of: number): number => (100 * count) / of;
let [falseFirst, falseAny, falseBetter] = [0, 0, 0];
for (let index = 0; index < innocent; index++) {
  const { first, regressionMinutes } = judge(factsOf(1_000_003 + index * 7_919, {}));
  if (first === "regression") falseFirst++;
  if (regressionMinutes !== null) falseAny++;
  if (first === "improvement") falseBetter++;
}
const figures = [
  figureOf("innocent deployments called a regression at the first verdict", "%", single(share(falseFirst, innocent)), {
    kind: "at-most",
    value: 1,
  }),
  figureOf("innocent deployments called a regression at any verdict", "%", single(share(falseAny, innocent))),
  figureOf("innocent deployments called an improvement at the first verdict", "%", single(share(falseBetter, innocent))),
];
const notes: string[] = [];
for (const [kindIndex, [kind, change]] of Object.entries(kinds).entries()) {
  const times: number[] = [];
  for (let index = 0; index < perKind; index++) {
    const { regressionMinutes } = judge(factsOf(5_000_011 + (kindIndex * perKind + index) * 104_729, change));
    if (regressionMinutes !== null) times.push(regressionMinutes);
  }
  figures.push(figureOf(`missed: ${kind}`, "%", single(share(perKind - times.length, perKind))));
  if (times.length > 0) figures.push(figureOf(`time to verdict: ${kind}`, "s", spreadOf(times.map((minutes) => minutes * 60))));
}
const samples = Array.from({ length: throughStore }, (_, index): Sample => {
  const isReal = index % 2 === 1;
  // Resources are not written to the store.
  const facts = factsOf(9_000_011 + index * 15_485_863, isReal ? { slower: 2.5, only: "GET /users/{id}" } : {});
  const { resourceMinutes: _minutes, ...rest } = facts;
  return {
    service: `service-${index}`,
    isReal,
    facts: { ...rest, cpuCores: { before: [], after: [] }, memoryBytes: { before: [], after: [] } },
  };
});
const stored = await judgeStored(samples);
if (stored.found !== samples.length) throw new Error(`Cannot judge the sample: ${stored.found} of ${samples.length} deployments detected`);
figures.push(
  figureOf("sample through the store: same verdict as the comparison alone", "%", single(share(stored.same, samples.length)), {
    kind: "at-least",
    value: 95,
  }),
  figureOf(`one step with ${samples.length} deployments to compare`, "ms", spreadOf(stored.looksMs)),
);
notes.push("Time to verdict counts from the start of the new build; looks are at 3, 6, 16 and 31 minutes.");
report({ name: "deployments", sizes: { innocent, perKind, kinds: Object.keys(kinds).length, throughStore }, figures, notes });
