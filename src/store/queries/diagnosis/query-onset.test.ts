import { afterAll, beforeAll, expect, it } from "vitest";
import { silentLogger } from "../../../base/log.ts";
import { type ColonyStore, openColonyStore } from "../../colony/colony-store.ts";
import type { Engine } from "../../engine/engine.ts";
import { derivedSignals, signals } from "../../signals/signal-list.ts";
import { TestClock, temporaryFolder, testEngine } from "../../store.fixture.ts";
import { queryOnset } from "./query-onset.ts";

const dayMs = 86_400_000;
const stepMs = 10_000;
const folder = temporaryFolder();
let engine: Engine;
let store: ColonyStore;
let startMs = Date.UTC(2026, 0, 5, 12);

beforeAll(async () => {
  engine = await testEngine(folder.path);
  store = await openColonyStore(engine, {
    file: folder.file("colony.duckdb"),
    signals: [...signals, ...derivedSignals],
    maxBytes: 64 * 1024 ** 2,
    clock: new TestClock(),
    log: silentLogger,
  });
});

afterAll(async () => {
  await store.close();
  await engine.close();
  folder[Symbol.dispose]();
});

/**
 * Stores requests of `shop`, a day after earlier ones, with these durations in milliseconds per ten-second step. Returns the index of the
 * onset's step.
 */
async function troubleOf(steps: readonly number[]): Promise<{ onset: number | null; end: number | null }> {
  startMs += dayMs;
  const at = `make_timestamp(${startMs * 1_000}) + t * INTERVAL 10 SECONDS`;
  await store.write((transaction) =>
    transaction.run(
      `INSERT INTO raw.red SELECT 1, 1, ${at}, t, ${at}, 0, 'shop', 'server', 'http', false, 80, '127.0.0.1', NULL, 'GET', '/buy', '200', false, ${stepMs}, 60,
         0, 0, 60000 * ([${steps.join(", ")}])[t + 1], 0, 0, 0, [], 0, [], 0, [] FROM range(${steps.length}) r(t)`,
    ),
  );
  const { onsetMs, endMs } = await queryOnset(store, { untilMs: startMs + steps.length * stepMs });
  const stepOf = (ms: number | null): number | null => (ms === null ? null : (ms - startMs) / stepMs);
  return { onset: stepOf(onsetMs), end: stepOf(endMs) };
}

const onsetOf = async (steps: readonly number[]): Promise<number | null> => (await troubleOf(steps)).onset;

const usual = Array.from({ length: 60 }, (_, step) => 20 + (step % 3));

it("starts at the first bad step, even if only part of it is bad", async () => {
  expect(await onsetOf([...usual, 90, 210, 205, 220])).toBe(60);
});

it("does not start with mild noise before the incident", async () => {
  expect(await onsetOf([...usual, 34, 36, 300, 310, 305, 320])).toBe(62);
  // A busy host half a minute earlier: 2.7 times the limit, compared with 12 times.
  expect(await onsetOf([...usual, 47, 33, 21, 430, 420])).toBe(63);
});

it("starts at a mild step if the whole incident is mild", async () => {
  expect(await onsetOf([...usual, 36, 38, 37, 40])).toBe(60);
});

it("ends after enough good steps, and has no end while it lasts", async () => {
  expect(await troubleOf([...usual, 300, 310, 305, 20, 21, 22, 20, 21])).toEqual({ onset: 60, end: 63 });
  expect(await troubleOf([...usual, 300, 310, 305, 20])).toEqual({ onset: 60, end: null });
});

it("is null without an incident, or if only a single step was bad", async () => {
  expect(await onsetOf(usual)).toBeNull();
  expect(await onsetOf([...usual, 300, 20, 21])).toBeNull();
});
