import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestClock } from "../store.fixture.ts";
import { queryProfile } from "./query-profile.ts";
import { openStoredHosts, type SignalRows, type StoredHosts } from "./stored-hosts.fixture.ts";

const clock = new TestClock();
const nowMs = clock.wall;
const minuteMs = 60_000;
let hosts: StoredHosts;

type Row = NonNullable<SignalRows["profile"]>[number];

function row(agoMs: number, stack: string, samples: number, more: Partial<Row> = {}): Row {
  const atMs = nowMs - agoMs;
  return {
    atMs,
    service: "api",
    pid: 7,
    start_ticks: 1,
    thread: "main",
    stack,
    samples,
    cpu_us: samples * 50_000,
    window_ms: 30_000,
    ...more,
  };
}

beforeAll(async () => {
  hosts = await openStoredHosts(clock);
  const frames = (name: string): string =>
    JSON.stringify([
      ["main", "api", "native"],
      [name, "api", "native"],
    ]);
  await hosts.add("a", {
    profileStack: [
      { atMs: nowMs - 40 * minuteMs, stack: "s1", frames: frames("hash"), is_whole: true },
      // Agents send a stack's description again after some hours.
      { atMs: nowMs - minuteMs, stack: "s1", frames: frames("hash"), is_whole: true },
      { atMs: nowMs - minuteMs, stack: "s2", frames: frames("render"), is_whole: false },
    ],
    profile: [
      row(2 * minuteMs, "s1", 30),
      row(minuteMs, "s1", 10, { pid: 8, thread: "pool" }),
      row(minuteMs, "s2", 5),
      row(minuteMs, "gone", 2),
      row(minuteMs, "s2", 99, { service: "other" }),
      row(31 * minuteMs, "s2", 8),
      row(60 * minuteMs, "s2", 1_000),
    ],
    profileLoss: [{ atMs: nowMs - minuteMs, loss: "ring-full", count: 4, window_ms: 30_000 }],
  });
});
afterAll(() => hosts[Symbol.asyncDispose]());

const ask = (more: Partial<Parameters<typeof queryProfile>[1]> = {}) =>
  queryProfile(hosts.store, { service: "api", sinceMs: 10 * minuteMs, nowMs, ...more });

describe("queryProfile()", () => {
  it("sums samples by stack for one service and time", async () => {
    const facts = await ask();
    expect(facts).toMatchObject({
      samples: 47,
      cpuUs: 2_350_000,
      samplesBefore: 0,
      instances: 2,
      losses: [{ loss: "ring-full", count: 4 }],
    });
    expect(facts.fromMs).toBe(nowMs - 2 * minuteMs - 30_000);
    expect(facts.stacks.map(({ frames, samples, isWhole }) => [frames.at(-1)?.[0], samples, isWhole])).toEqual([
      ["hash", 40, true],
      ["render", 5, false],
      ["[stack not known]", 2, false],
    ]);
  });

  it("adds the samples of the baseline", async () => {
    const facts = await ask({ baselineMs: 30 * minuteMs });
    expect(facts.samplesBefore).toBe(8);
    expect(facts.stacks.map(({ samples, samplesBefore }) => [samples, samplesBefore])).toContainEqual([5, 8]);
  });

  it("filters by thread and by agent", async () => {
    expect((await ask({ thread: "pool" })).samples).toBe(10);
    expect((await ask({ agentIds: ["somebody-else"] })).samples).toBe(0);
    expect((await ask({ service: ["nobody", "other"] })).samples).toBe(99);
  });

  it("returns nothing for a service without samples", async () => {
    expect(await ask({ service: "nobody" })).toMatchObject({ stacks: [], samples: 0, fromMs: null });
  });
});
