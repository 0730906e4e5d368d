/** Golden rows of incidents and objectives, with the JSON inside them. */

import { afterEach, beforeEach, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import type { Incident, Objective } from "../../model/incident.ts";
import type { Engine } from "../engine/engine.ts";
import { insertGoldenRows, storedRows } from "../golden-rows.fixture.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { type ColonyStore, openColonyStore } from "./colony-store.ts";
import { countIncidents, deleteObjectives, loadIncidents, loadObjectives, saveIncidents, saveObjective } from "./incident-tables.ts";
import { listEvents } from "./registry-tables.ts";

const nowMs = new TestClock().wallMs();
let folder: ReturnType<typeof temporaryFolder>;
let engine: Engine;
let store: ColonyStore;

const openStore = (): Promise<ColonyStore> =>
  openColonyStore(engine, { file: folder.file("c.duckdb"), signals: [], maxBytes: 1024 ** 3, log: silentLogger, clock: new TestClock() });

beforeEach(async () => {
  folder = temporaryFolder();
  engine = await testEngine(folder.path);
  store = await openStore();
});
afterEach(async () => {
  await store.close();
  await engine.close();
  folder[Symbol.dispose]();
});

const incident: Incident = {
  number: 7,
  state: "open",
  severity: "critical",
  startedMs: nowMs - 60_000,
  openedMs: nowMs - 30_000,
  updatedMs: nowMs,
  endedMs: null,
  closedMs: null,
  symptoms: [
    {
      service: "program:shop#1",
      route: "GET /buy",
      measure: "latency",
      isDeclared: false,
      usual: 60_000,
      limit: 90_000,
      worst: 300_000,
      now: 280_000,
      message: "GET /buy p95 is 300 ms",
      startedMs: nowMs - 60_000,
      lastBadMs: nowMs,
      okSinceMs: null,
    },
  ],
  cause: {
    service: "program:stock#2",
    kind: "slow",
    pointer: "GET /reserve/{id}",
    confidence: 0.87,
    summary: "stock is slow by itself",
    chain: ["shop", "stock"],
    evidence: [{ id: "ev-8200f310", statement: "GET /reserve/{id} takes 193 ms" }],
    change: null,
  },
  ruledOut: [],
  next: [],
  changes: [],
  evidence: [],
  timeline: [{ atMs: nowMs - 30_000, kind: "opened", text: "é" }],
  diagnosedMs: nowMs - 30_000,
  mergedInto: null,
};
const goldenIncident = {
  number: 7,
  state: "open",
  started_at: (nowMs - 60_000) * 1_000,
  opened_at: (nowMs - 30_000) * 1_000,
  updated_at: nowMs * 1_000,
  ended_at: null,
  closed_at: null,
  service: "program:shop#1",
  cause: "program:stock#2",
  facts: `{"severity":"critical","symptoms":[{"service":"program:shop#1","route":"GET /buy","measure":"latency","isDeclared":false,"usual":60000,"limit":90000,"worst":300000,"now":280000,"message":"GET /buy p95 is 300 ms","startedMs":${nowMs - 60_000},"lastBadMs":${nowMs},"okSinceMs":null}],"cause":{"service":"program:stock#2","kind":"slow","pointer":"GET /reserve/{id}","confidence":0.87,"summary":"stock is slow by itself","chain":["shop","stock"],"evidence":[{"id":"ev-8200f310","statement":"GET /reserve/{id} takes 193 ms"}],"change":null},"ruledOut":[],"next":[],"changes":[],"evidence":[],"timeline":[{"atMs":${nowMs - 30_000},"kind":"opened","text":"é"}],"diagnosedMs":${nowMs - 30_000},"mergedInto":null}`,
};
const objective: Objective = {
  service: "program:shop#1",
  route: "GET /buy",
  p95Us: 300_000,
  errorRatio: null,
  setBy: "local",
  setMs: nowMs,
};
const goldenObjective = {
  service: "program:shop#1",
  route: "GET /buy",
  p95_us: 300_000,
  error_ratio: null,
  set_by: "local",
  set_at: nowMs * 1_000,
};

it("stores incidents as golden rows, with their events", async () => {
  const event = { atMs: nowMs, kind: "incident-opened", message: "inc-7 opened", details: { incident: "inc-7" } };
  await saveIncidents(store, { incidents: [{ ...incident, state: "closed" }], events: [], nowMs });
  await saveIncidents(store, { incidents: [incident], events: [event], nowMs });
  expect(await storedRows(store, "registry.incidents")).toEqual([goldenIncident]);
  expect((await listEvents(store, 0)).map(({ kind, message }) => [kind, message])).toEqual([["incident-opened", "inc-7 opened"]]);
  expect(await countIncidents(store)).toEqual({ open: 1, last: 7 });
});

it("reads incidents of another build, open ones first", async () => {
  const closed = { ...goldenIncident, number: 9, state: "closed", ended_at: nowMs * 1_000, closed_at: nowMs * 1_000 };
  await insertGoldenRows(store, "registry.incidents", [closed, goldenIncident]);
  await store.close();
  store = await openStore();
  expect(await loadIncidents(store, { limit: 10 })).toEqual([
    incident,
    { ...incident, number: 9, state: "closed", endedMs: nowMs, closedMs: nowMs },
  ]);
  expect(await loadIncidents(store, { number: 9, limit: 1 })).toMatchObject([{ number: 9 }]);
  expect(await loadIncidents(store, { state: "closed", fromMs: nowMs + 1, limit: 1 })).toEqual([]);
});

it("stores, replaces and deletes objectives", async () => {
  await saveObjective(store, { ...objective, p95Us: 1 });
  await saveObjective(store, objective);
  expect(await storedRows(store, "registry.objectives")).toEqual([goldenObjective]);
  expect(await loadObjectives(store)).toEqual([objective]);
  expect(await deleteObjectives(store, ["program:shop#1"], "")).toBe(0);
  expect(await deleteObjectives(store, ["program:shop#1"], "GET /buy")).toBe(1);
  expect(await loadObjectives(store)).toEqual([]);
});
