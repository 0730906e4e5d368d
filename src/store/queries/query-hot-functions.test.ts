import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestClock } from "../store.fixture.ts";
import { queryHotFunctions } from "./query-hot-functions.ts";
import { openStoredHosts, type SignalRows, type StoredHosts } from "./stored-hosts.fixture.ts";

const clock = new TestClock();
const nowMs = clock.wall;
const minuteMs = 60_000;
let hosts: StoredHosts;

type Row = NonNullable<SignalRows["profile"]>[number];

function row(agoMinutes: number, stack: string, samples: number, more: Partial<Row> = {}): Row {
  const atMs = nowMs - agoMinutes * minuteMs;
  const base = { service: "api", pid: 7, start_ticks: 1, thread: "main", window_ms: 30_000 };
  return { atMs, ...base, stack, samples, cpu_us: samples * 50_000, ...more };
}

const framesOf = (...names: string[]): string => JSON.stringify(["main", ...names].map((name) => [name, "api", "native"]));

beforeAll(async () => {
  hosts = await openStoredHosts(clock);
  await hosts.add("a", {
    profileStack: [
      { atMs: nowMs, stack: "hash", frames: framesOf("login", "hash"), is_whole: true },
      { atMs: nowMs, stack: "render", frames: framesOf("render"), is_whole: true },
      { atMs: nowMs, stack: "deep", frames: framesOf("walk", "walk", "walk"), is_whole: true },
    ],
    profile: [
      row(2, "hash", 300),
      row(3, "render", 190),
      row(3, "deep", 52),
      row(3, "gone", 10),
      row(2, "render", 900, { service: "other" }),
      row(62, "hash", 20),
      row(63, "render", 200),
      row(64, "deep", 50),
      row(300, "hash", 9_000),
    ],
  });
});
afterAll(() => hosts[Symbol.asyncDispose]());

const ask = (more: Partial<Parameters<typeof queryHotFunctions>[1]> = {}) =>
  queryHotFunctions(hosts.store, {
    service: "api",
    now: { fromMs: nowMs - 10 * minuteMs, untilMs: nowMs },
    before: { fromMs: nowMs - 70 * minuteMs, untilMs: nowMs - 60 * minuteMs },
    limit: 10,
    ...more,
  });

describe("queryHotFunctions()", () => {
  it("lists functions that grew, significant growth first, a function before its callers", async () => {
    const { samples, cores, hottest, grown: functions } = await ask();
    expect(samples).toEqual({ now: 552, before: 270 });
    expect(cores.now).toBeCloseTo((552 * 0.05) / 600, 6);
    expect(functions.slice(0, 2).map(({ name, isSignificant }) => [name, isSignificant])).toEqual([
      ["hash", true],
      ["login", true],
    ]);
    expect(functions[0]).toMatchObject({ file: "api", kind: "native", self: { now: 300 / 552, before: 20 / 270 } });
    expect(functions[0]?.cores.now).toBeCloseTo((300 * 0.05) / 600, 6);
    expect(functions[0]?.deviations).toBeGreaterThan(10);
    expect(hottest.map(({ name }) => name)).toEqual(["hash", "render", "walk"]);
    // Their shares fell; main's share is unchanged.
    expect(functions.map(({ name }) => name)).not.toContain("render");
    expect(functions.filter(({ isSignificant }) => isSignificant).map(({ name }) => name)).toEqual(["hash", "login"]);
  });

  it("finds no growth between equal times, counts recursion once, and ignores other services", async () => {
    const same = { fromMs: nowMs - 70 * minuteMs, untilMs: nowMs - 60 * minuteMs };
    expect((await ask({ now: same, before: { fromMs: 0, untilMs: 1 } })).grown.every(({ isSignificant }) => !isSignificant)).toBe(true);
    const walk = (await ask({ before: { fromMs: 0, untilMs: 1 } })).hottest.find(({ name }) => name === "walk");
    expect(walk?.total.now).toBeCloseTo(52 / 552, 6);
    expect(await ask({ service: "nobody" })).toEqual({
      samples: { now: 0, before: 0 },
      cores: { now: 0, before: 0 },
      hottest: [],
      grown: [],
    });
    expect((await ask({ agentIds: ["somebody-else"] })).grown).toEqual([]);
  });
});
