import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Clock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import type { SummaryFacts, SummaryPlaceFact } from "../../model/summary.ts";
import { type ColonyStore, openColonyStore } from "../../store/colony/index.ts";
import { type Engine, openEngine } from "../../store/engine/index.ts";
import { queryEvents } from "../../store/queries/index.ts";
import { derivedSignals, signals } from "../../store/signals/index.ts";
import { HealthWatch } from "./health-watch.ts";

let nowMs: number;
const clock: Clock = { wallMs: () => nowMs, monotonicMs: () => nowMs };
const { signal } = new AbortController();
let directory: string;
let engine: Engine;
let store: ColonyStore;
let places: SummaryPlaceFact[];
let evaluations: number;
let newest = 0;
let watch: HealthWatch;

const placeOf = (health: string): SummaryPlaceFact => ({
  service: "api",
  agentId: "web-1",
  instances: 1,
  isPresent: true,
  isStale: false,
  isListening: true,
  isReplaced: false,
  seenMs: 3_600_000,
  health,
  healthDetail: "status 503",
});

function watchOf(): HealthWatch {
  const facts = (): SummaryFacts => ({
    nowMs,
    windowMs: 300_000,
    requests: [],
    routes: [],
    calls: [],
    places,
    hosts: [],
    cgroups: [],
    patterns: [],
    events: [],
    logServices: ["api"],
    aliases: new Map(),
  });
  return new HealthWatch({
    store,
    backend: {
      agents: async () => [],
      deployments: async () => [],
      summary: async () => {
        evaluations++;
        return facts();
      },
    },
    serviceId: async (label) => `program:${label}#1`,
    newest: () => newest,
    clock,
    log: silentLogger,
  });
}

beforeEach(async () => {
  nowMs = Date.UTC(2026, 0, 1, 12);
  directory = mkdtempSync(join(tmpdir(), "coral-health-"));
  engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 256 * 1024 ** 2, threads: 1, log: silentLogger });
  store = await openColonyStore(engine, {
    file: join(directory, "colony.duckdb"),
    signals: [...signals, ...derivedSignals],
    maxBytes: 1024 ** 3,
    clock,
    log: silentLogger,
  });
  evaluations = 0;
  places = [placeOf("healthy")];
  watch = watchOf();
});

afterEach(async () => {
  await store.close();
  await engine.close();
  rmSync(directory, { recursive: true });
});

async function steps(count: number): Promise<void> {
  for (let step = 0; step < count; step++) {
    nowMs += 120_000;
    await watch.step(signal);
  }
}

const events = async (): Promise<string[]> =>
  (await queryEvents(store, { nowMs: nowMs + 1, sinceMs: 86_400_000, limit: 100 })).map(
    ({ kind, severity, message }) => `${severity} ${kind}: ${message}`,
  );

it("records a change when the next evaluation agrees, and the recovery", async () => {
  await steps(2);
  places = [placeOf("unhealthy")];
  await steps(1);
  expect(await events()).toEqual([]);
  await steps(3);
  expect(await events()).toEqual(["error service-critical: api is critical: its health check fails: status 503"]);
  places = [placeOf("healthy")];
  await steps(1);
  places = [placeOf("unhealthy")];
  await steps(1);
  expect(await events()).toHaveLength(1);
  places = [placeOf("healthy")];
  await steps(2);
  expect((await events())[0]).toBe("info service-recovered: api is ok again, after it was critical");
  const [row] = await store.query("SELECT details FROM registry.events WHERE kind = 'service-critical'");
  expect(JSON.parse(String(row?.["details"]))).toMatchObject({
    service: "program:api#1",
    before: "ok",
    after: "critical",
    rule: "unhealthy",
  });
});

it("does not repeat reports after a restart", async () => {
  places = [placeOf("unhealthy")];
  await steps(2);
  watch = watchOf();
  await steps(2);
  expect(await events()).toHaveLength(1);
  places = [placeOf("healthy")];
  await steps(2);
  expect(await events()).toHaveLength(2);
});

it("evaluates without new rows only every two minutes, or while something is wrong", async () => {
  const often = async (): Promise<void> => {
    for (let step = 0; step < 5; step++) {
      nowMs += 10_000;
      await watch.step(signal);
    }
  };
  await steps(1);
  await often();
  expect(evaluations).toBe(1);
  newest++;
  nowMs += 1_000;
  await watch.step(signal);
  expect(evaluations).toBe(2);
  places = [placeOf("unhealthy")];
  await steps(2);
  await often();
  expect(evaluations).toBe(9);
});
