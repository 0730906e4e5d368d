import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { batchFromSegmentRows, type SegmentRow } from "../../store/segments/index.ts";
import { span } from "../../store/signals/index.ts";
import { rowsOf } from "../columns/batch-rows.fixture.ts";
import { type SamplingPlan, SpanSampler } from "./sampling.ts";
import { SamplingBudget } from "./sampling-budget.ts";
import { TraceSet } from "./trace-set.ts";

type Row = SegmentRow<typeof span.columns>;
interface StoredSpan {
  trace_id: string;
  span_id: string;
  service: string;
  status: string;
  weight: number;
  duration_ns: bigint;
}

const slowNs = 500e6;
const noneWanted = new Uint8Array(0);
const plan = (share: number, wanted: Uint8Array = noneWanted): SamplingPlan => ({ share, slowNs, wanted });

function made(trace: number, index: number, over: Partial<Row> = {}): Row {
  return {
    time: 1_700_000_000_000_000,
    service: "api",
    trace_id: (Math.imul(trace + 1, 0x9e3779b1) >>> 0)
      .toString(16)

      .padStart(32, "0"),
    span_id: (trace * 16 + index + 1).toString(16).padStart(16, "0"),
    name: "GET /",
    kind: "server",
    duration_ns: 1_000_000,
    status: "unset",
    weight: 1,
    ...over,
  };
}

const spansOf = (batch: Parameters<typeof rowsOf>[0]) => rowsOf(batch) as unknown as StoredSpan[];

describe("SpanSampler", () => {
  it("keeps complete traces with an error or a slow span, with weight 1", () => {
    const rows = [
      made(1, 0),
      made(1, 1, { status: "error" }),
      made(2, 0),
      made(3, 0, { duration_ns: slowNs }),
      made(3, 1),
      made(4, 0, { http_status_code: 503 }),
      made(5, 0, { http_status_code: 404 }),
    ];
    const { batch, dropped, wantedRows } = new SpanSampler().sample(batchFromSegmentRows(span, rows), plan(0), 0);
    expect(spansOf(batch).map(({ span_id }) => span_id)).toEqual([rows[0], rows[1], rows[3], rows[4], rows[5]].map((row) => row?.span_id));
    expect(spansOf(batch).every(({ weight }) => weight === 1)).toBe(true);
    expect({ dropped, wantedRows }).toEqual({ dropped: 2, wantedRows: 5 });
  });

  it("keeps everything at a share of 1", () => {
    const batch = batchFromSegmentRows(span, [made(1, 0), made(2, 0)]);
    expect(spansOf(new SpanSampler().sample(batch, plan(1), 0).batch)).toEqual(spansOf(batch));
  });

  it("keeps later spans of a wanted trace, and recovers earlier ones with weight 0", () => {
    const sampler = new SpanSampler();
    const first = sampler.sample(batchFromSegmentRows(span, [made(1, 1), made(2, 1), made(1, 2)]), plan(0), 0);
    expect(first.batch.rows).toBe(0);
    const second = sampler.sample(batchFromSegmentRows(span, [made(1, 0, { status: "error" })]), plan(0), 1_000);
    expect(spansOf(second.batch).map(({ span_id, weight }) => [span_id, weight])).toEqual([
      [made(1, 0).span_id, 1],
      [made(1, 1).span_id, 0],
      [made(1, 2).span_id, 0],
    ]);
    expect(second.rescued).toBe(2);
    const third = sampler.sample(batchFromSegmentRows(span, [made(1, 3), made(2, 2)]), plan(0, second.wanted), 2_000);
    expect(spansOf(third.batch).map(({ span_id, weight }) => [span_id, weight])).toEqual([[made(1, 3).span_id, 1]]);
  });

  it("recovers no span twice, and none after the window", () => {
    const sampler = new SpanSampler({ windowMs: 1_000 });
    sampler.sample(batchFromSegmentRows(span, [made(1, 1)]), plan(0), 0);
    const error = () => batchFromSegmentRows(span, [made(1, 0, { status: "error" })]);
    expect(sampler.sample(error(), plan(0), 500).rescued).toBe(1);
    expect(sampler.sample(error(), plan(0), 600).rescued).toBe(0);
    sampler.sample(batchFromSegmentRows(span, [made(2, 1)]), plan(0), 700);
    sampler.sample(batchFromSegmentRows(span, [made(9, 1)]), plan(0), 1_800);
    expect(sampler.sample(batchFromSegmentRows(span, [made(2, 0, { status: "error" })]), plan(0), 1_900).rescued).toBe(0);
  });

  it("buffers at most the given bytes", () => {
    const sampler = new SpanSampler({ windowBytes: 1 });
    sampler.sample(batchFromSegmentRows(span, [made(1, 1)]), plan(0), 0);
    expect(sampler.sample(batchFromSegmentRows(span, [made(1, 0, { status: "error" })]), plan(0), 1).rescued).toBe(0);
  });

  it("preserves weighted counts and percentiles, and keeps traces complete", () => {
    const random = new SeededRandom(42);
    const traces = 10_000;
    const sent: Row[][] = Array.from({ length: 40 }, () => []);
    for (let trace = 0; trace < traces; trace++) {
      const isError = random.below(100) < 2;
      const segment = random.below(38);
      const rootMs = 1 + Math.exp((random.below(1_000) / 1_000) * 6.5);
      for (let index = 4; index >= 0; index--) {
        const duration = Math.round((rootMs * 1e6) / (index + 1));
        // Children end first, and often arrive in an earlier segment than their root span.
        sent[segment + (index === 0 ? random.below(3) : 0)]?.push(
          made(trace, index, { service: `s-${index}`, duration_ns: duration, status: isError && index === 2 ? "error" : "ok" }),
        );
      }
    }
    const sampler = new SpanSampler();
    const wanted = new TraceSet(16_384);
    const stored: StoredSpan[] = [];
    for (const [segment, rows] of sent.entries()) {
      // The share changes over time, as it does under a budget.
      const result = sampler.sample(batchFromSegmentRows(span, rows), plan(segment < 20 ? 0.25 : 0.125, wanted.packed()), segment * 700);
      for (let at = 0; at < result.wanted.length; at += 16) wanted.add(result.wanted, at);
      stored.push(...spansOf(result.batch));
    }
    const all = sent.flat();
    expect(stored.length).toBeLessThan(all.length * 0.4);
    const weightOf = (spans: readonly StoredSpan[]) => spans.reduce((sum, { weight }) => sum + weight, 0);

    // Exact: spans kept because of an error or their duration.
    expect(weightOf(stored.filter(({ status }) => status === "error"))).toBe(all.filter(({ status }) => status === "error").length);
    const isSlow = (duration: number | bigint) => Number(duration) >= slowNs;
    expect(weightOf(stored.filter((each) => isSlow(each.duration_ns)))).toBe(all.filter((each) => isSlow(each.duration_ns)).length);

    // On average: with 10,000 traces at shares of 1/4 and 1/8 the standard deviation is 2.2 %; three of them are allowed.
    for (const service of ["s-0", "s-1", "s-2", "s-3", "s-4"]) {
      const estimate = weightOf(stored.filter((each) => each.service === service));
      expect(Math.abs(estimate / traces - 1)).toBeLessThan(0.065);
      for (const quantile of [0.5, 0.9, 0.99]) {
        const true_ = percentile(
          all.filter((each) => each.service === service).map((each) => [Number(each.duration_ns), 1]),
          quantile,
        );
        const found = percentile(
          stored.filter((each) => each.service === service).map((each) => [Number(each.duration_ns), each.weight]),
          quantile,
        );
        expect(Math.abs(found / true_ - 1)).toBeLessThan(0.1);
      }
    }

    // Complete: every trace with an error or a slow span has all of its spans, each once.
    expect(new Set(stored.map(({ span_id }) => span_id)).size).toBe(stored.length);
    const perTrace = new Map<string, number>();
    for (const { trace_id } of stored) perTrace.set(trace_id, (perTrace.get(trace_id) ?? 0) + 1);
    const wantedTraces = new Set(all.filter((each) => each.status === "error" || isSlow(each.duration_ns)).map(({ trace_id }) => trace_id));
    expect([...wantedTraces].filter((trace) => perTrace.get(trace) !== 5)).toEqual([]);
  });
});

function percentile(values: [number, number][], quantile: number): number {
  const sorted = values.sort((a, b) => a[0] - b[0]);
  const total = sorted.reduce((sum, [, weight]) => sum + weight, 0);
  let seen = 0;
  for (const [value, weight] of sorted) {
    seen += weight;
    if (seen >= total * quantile) return value;
  }
  return Number.NaN;
}

describe("SamplingBudget", () => {
  const outcome = (rows: number, over = {}) => ({
    rows,
    sizeBytes: rows * 100,
    dropped: 0,
    rescued: 0,
    wantedRows: 0,
    wanted: noneWanted,
    ...over,
  });

  it("keeps everything without a budget", () => {
    const budget = new SamplingBudget({ bytesPerSecond: undefined, slowMs: 500 });
    for (let second = 0; second < 100; second++) budget.report(outcome(100_000), second * 1_000);
    expect(budget.plan()).toBeUndefined();
  });

  it("finds a share that fits the budget, and returns to 1 when it is not needed", () => {
    const budget = new SamplingBudget({ bytesPerSecond: 100_000, slowMs: 500 });
    let nowMs = 0;
    const run = (perSecond: number, wantedPerSecond: number, seconds: number): number => {
      let bytes = 0;
      for (let second = 0; second < seconds; second++, nowMs += 1_000) {
        const { share } = budget;
        const kept = Math.round(perSecond * share);
        const rows = kept + wantedPerSecond;
        budget.report(outcome(rows, { dropped: perSecond - kept, wantedRows: wantedPerSecond }), nowMs);
        bytes = rows * 100;
      }
      return bytes;
    };
    expect(run(500, 10, 60)).toBe(51_000);
    expect(run(20_000, 100, 120)).toBeLessThanOrEqual(100_000);
    expect(budget.share).toBe(1 / 32);
    run(100, 0, 120);
    expect(budget.share).toBe(1);
  });

  it("remembers a bounded number of wanted traces", () => {
    const budget = new SamplingBudget({ bytesPerSecond: 1, slowMs: 500 });
    for (let round = 0; round < 5; round++) {
      const wanted = Uint8Array.from({ length: 16 * 8_192 }, (_, index) => (index * 31 + round * 7 + (index >> 8)) & 255);
      budget.report(outcome(1, { wanted }), round);
    }
    expect(budget.plan()?.wanted.length).toBeLessThanOrEqual(16 * 16_384);
  });
});
