/** Searches over more spans than a query may read in order. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import type { SegmentReader } from "../segments/segment-source.ts";
import { queryTraces, type TracesQuery } from "./query-traces.ts";
import { openStoredSpans, type SpanValues, type StoredSpans, traceIdOf } from "./stored-spans.fixture.ts";

const hourMs = 3_600_000;
let spans: StoredSpans;
let made: RandomSpan[];

const ask = (more: Partial<TracesQuery> = {}) =>
  queryTraces(spans.store, { error: false, sinceMs: hourMs, nowMs: spans.clock.wall, order: "newest", limit: 20, ...more });

interface RandomSpan {
  trace: string;
  atUs: number;
  duration_ns: number;
  status: "error" | "unset";
  weight: number;
}

/**
 * Spans of service "many" up to now, fewer the further back. One trace in the last seconds has more spans than all others. Six segments.
 */
async function addRandomSpans(random: SeededRandom): Promise<RandomSpan[]> {
  const made: RandomSpan[] = [];
  const add = (count: number, withinMs: number, traceOf: () => string): void => {
    for (let index = 0; index < count; index++) {
      const backUs = random.below(withinMs * 1_000) + 1;
      const error = random.below(10) === 0;
      const status = error ? "error" : "unset";
      made.push({
        trace: traceOf(),
        atUs: -backUs,
        duration_ns: 1 + random.below(1_000_000),
        status,
        weight: 1 + random.below(3),
      });
    }
  };
  const anyOf =
    (traces: number): (() => string) =>
    () =>
      `a${(1 + random.below(traces)).toString(16)}`;
  add(2_000, 1_000, () => "ab0");
  add(2_000, 9_000, anyOf(500));
  add(700, 50_000, anyOf(600));
  add(500, 500_000, anyOf(700));
  add(300, hourMs - 1, anyOf(800));
  // Distinct times give exactly one correct order.
  const taken = new Set<number>();
  for (const one of made) {
    while (taken.has(one.atUs)) one.atUs--;
    taken.add(one.atUs);
  }
  made.sort((a, b) => a.atUs - b.atUs);
  const part = Math.ceil(made.length / 6);
  for (let from = 0; from < made.length; from += part)
    await spans.add(made.slice(from, from + part).map((one, index) => ({ ...one, id: (from + index + 1).toString(16), service: "many" })));
  return made;
}

/** Expected result: trace, longest matching span and weight of the traces with the newest matching spans. */
function newestOf(fitting: readonly RandomSpan[], limit: number): [string, number, number][] {
  const found = new Map<string, [string, number, number]>();
  for (const { trace, duration_ns, weight } of fitting.toSorted((a, b) => b.atUs - a.atUs)) {
    const before = found.get(trace) ?? [traceIdOf(trace), 0, 0];
    found.set(trace, [before[0], Math.max(before[1], duration_ns), Math.max(before[2], weight)]);
  }
  return [...found.values()].slice(0, limit);
}

beforeAll(async () => {
  spans = await openStoredSpans();
  made = await addRandomSpans(new SeededRandom(11));
});
afterAll(() => spans[Symbol.asyncDispose]());

describe("queryTraces()", () => {
  it("returns the same as a full scan in time order, however far back it has to read", async () => {
    for (const limit of [1, 20, 200]) {
      for (const sinceMs of [5_000, 90_000, hourMs]) {
        for (const filter of [{}, { error: true }, { minDurationNs: 900_000 }] as const) {
          const answer = await ask({ service: "many", limit, sinceMs, ...filter });
          const fitting = made.filter(
            (one) =>
              one.atUs >= -sinceMs * 1_000 &&
              (!("error" in filter) || one.status === "error") &&
              one.duration_ns >= ("minDurationNs" in filter ? filter.minDurationNs : 0),
          );
          const what = JSON.stringify({ limit, sinceMs, ...filter });
          const found = answer.rows.map(({ traceId, matchDurationNs, weight }) => [traceId, matchDurationNs, weight]);
          expect(found, what).toEqual(newestOf(fitting, limit));
          const { size } = new Set(fitting.map(({ trace }) => trace));
          expect([answer.traces, answer.storedSpans], what).toEqual([size, fitting.length]);
          expect(answer.estimatedSpans, what).toBe(fitting.reduce((sum, { weight }) => sum + weight, 0));
        }
      }
    }
  });

  it("reads only the newest files for the newest traces", async () => {
    const files: number[] = [];
    const { segments } = spans.store;
    const watched = {
      query: spans.store.query.bind(spans.store),
      segments: {
        segmentSource: async (...[signal, range]: Parameters<SegmentReader["segmentSource"]>) => {
          const source = await (segments as SegmentReader).segmentSource(signal, range);
          if (range?.lookup === undefined) files.push(source.files);
          return source;
        },
      },
    };
    await queryTraces(watched, { service: "many", error: false, sinceMs: hourMs, nowMs: spans.clock.wall, order: "newest", limit: 5 });
    expect(files).toEqual([6, 5]);
  });

  it("estimates counts of tens of thousands of traces, and counts few exactly", async () => {
    const crowd = Array.from(
      { length: 70_000 },
      (_, index): SpanValues => ({
        trace: `c0ffee${(index >> 1).toString(16)}`,
        id: (index + 1).toString(16),
        atUs: index,
        service: "crowd",
        status: index % 1_000 === 0 ? "error" : "unset",
      }),
    );
    await spans.add(crowd);
    const { traces, storedSpans } = await ask({ service: "crowd" });
    expect(storedSpans).toBe(70_000);
    expect(Math.abs(traces - 35_000)).toBeLessThan(700);
    expect(await ask({ service: "crowd", error: true })).toMatchObject({ traces: 70, storedSpans: 70 });
  });
});
