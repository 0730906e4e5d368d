/** Golden stored metric points, as agents of released builds sent them, and what queries read from them. */

import { expect, it } from "vitest";
import { silentLogger } from "../../../base/log.ts";
import { openColonyStore } from "../../colony/colony-store.ts";
import { type GoldenRow, insertGoldenRows } from "../../golden-rows.fixture.ts";
import type { Signal } from "../../signals/define-signal.ts";
import { metricPoint } from "../../signals/metrics.ts";
import { TestClock, temporaryFolder, testEngine } from "../../store.fixture.ts";
import { loadSeries } from "./load-series.ts";

const timeUs = 1_767_225_610_000_000;
const startUs = 1_767_225_600_000_000;
const source: GoldenRow = {
  source: 1,
  agent_id: "web-1",
  epoch: "e",
  first_pull: timeUs,
  last_pull: timeUs,
  cursors: "{}",
  losses: "{}",
};

const golden: readonly GoldenRow[] = [
  { series: "a", kind: "sum", temporality: "cumulative", is_monotonic: true, value: 42.5 },
  { series: "b", kind: "gauge", temporality: null, is_monotonic: false, special: "-inf" },
  { series: "c", kind: "sum", temporality: "cumulative", is_monotonic: true, special: "none" },
  { series: "d", kind: "histogram", count: 6, sum: 1.5, min: 0.1, max: 0.6, bounds: "[0.25,1]", counts: "[1,2,3]" },
  {
    series: "e",
    kind: "exponential_histogram",
    count: 6,
    sum: 1.5,
    scale: 3,
    zero_count: 1,
    zero_threshold: 0.001,
    positive_offset: -4,
    positive_counts: "[1,0,3]",
    negative_offset: 2,
    negative_counts: "[1]",
  },
  { series: "f", kind: "summary", count: 6, sum: 1.5, quantiles: "[[0.5,0.2],[0.99,null]]" },
];

it("loadSeries() reads golden points of every kind", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const signals = [metricPoint] as unknown as Signal[];
  const options = { file: folder.file("c.duckdb"), signals, maxBytes: 1024 ** 3, clock: new TestClock(), log: silentLogger };
  await using store = await openColonyStore(engine, options);
  await insertGoldenRows(store, "internal.sources", [source]);
  const common = { source: 1, ingest: 1, stored_at: timeUs, time: timeUs, mono_ms: 1, start_time: startUs };
  const identity = { service: "api", name: "requests", unit: "1", attributes: '{"größe":"x","status":200}' };
  const rows = golden.map((row, index) => ({ ...common, ...identity, seq: index + 1, is_monotonic: false, ...row }));
  await insertGoldenRows(store, 'raw."metric_point"', rows);
  const series = await loadSeries(store, { names: ["requests"], startUs, endUs: timeUs, maxPoints: 1_000 });
  expect(series[0]).toMatchObject({
    ...{ agentId: "web-1", service: "api", instance: null, name: "requests", unit: "1", kind: "sum", temporality: "cumulative" },
    ...{ isMonotonic: true, attributes: { größe: "x", status: 200 } },
  });
  const totals = { count: 6, sum: 1.5, min: null, max: null };
  const none = { timeUs, startUs, value: null, distribution: null, quantiles: null };
  expect(series.map(({ points }) => points)).toEqual([
    [{ ...none, value: 42.5 }],
    [{ ...none, value: Number.NEGATIVE_INFINITY }],
    [none],
    [{ ...none, distribution: { ...totals, min: 0.1, max: 0.6, buckets: { type: "explicit", bounds: [0.25, 1], counts: [1, 2, 3] } } }],
    [
      {
        ...none,
        distribution: {
          ...totals,
          buckets: {
            type: "exponential",
            scale: 3,
            zeroCount: 1,
            zeroThreshold: 0.001,
            positive: { offset: -4, counts: [1, 0, 3] },
            negative: { offset: 2, counts: [1] },
          },
        },
      },
    ],
    [
      {
        ...none,
        distribution: { ...totals, buckets: { type: "explicit", bounds: [], counts: [6] } },
        quantiles: [
          [0.5, 0.2],
          [0.99, null],
        ],
      },
    ],
  ]);
});
