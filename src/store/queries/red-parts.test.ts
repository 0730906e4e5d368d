import { expect, it } from "vitest";
import type { Queryable } from "../tables/queryable.ts";
import { redWindow } from "./red-parts.ts";

const minuteMs = 60_000;
const nowMs = Date.parse("2026-03-01T12:09:00Z");

/** A store that only reports the age of its oldest rows, in milliseconds before now. */
function storeOf(ages: { raw?: number; "1m"?: number; "10m"?: number; newest?: number }): Queryable {
  const row = Object.fromEntries(Object.entries(ages).map(([name, ageMs]) => [name, (nowMs - ageMs) * 1_000]));
  return { query: async () => [row] };
}

const covered = async (ages: Parameters<typeof storeOf>[0], sinceMs = 5 * minuteMs): Promise<number> =>
  (await redWindow(storeOf({ newest: 0, ...ages }), { sinceMs, nowMs, one: true })).coveredMs;

it("redWindow() covers the time since the first row, not since the start of that row's bucket", async () => {
  expect(await covered({ raw: minuteMs, "1m": 1.5 * minuteMs, "10m": 9 * minuteMs })).toBe(minuteMs + 10_000);
});

it("redWindow() covers the whole window when rows are older, also if only coarse rows remain", async () => {
  expect(await covered({ raw: 60 * minuteMs, "1m": 61 * minuteMs, "10m": 69 * minuteMs })).toBe(5 * minuteMs);
  expect(await covered({ raw: 30 * minuteMs, "1m": 90 * minuteMs, "10m": 300 * minuteMs }, 60 * minuteMs)).toBe(60 * minuteMs);
});

it("redWindow() covers at least one window", async () => {
  expect(await covered({ raw: 0 })).toBe(10_000);
});
