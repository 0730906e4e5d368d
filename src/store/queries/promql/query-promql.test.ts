import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestClock } from "../../store.fixture.ts";
import { openStoredHosts, type SignalRows, type StoredHosts } from "../stored-hosts.fixture.ts";
import { prometheusNames } from "./prometheus-names.ts";
import { type PromqlQuery, queryPromql } from "./query-promql.ts";

type Point = NonNullable<SignalRows["metricPoint"]>[number];

const clock = new TestClock();
const nowMs = clock.wall;
const minuteMs = 60_000;
let hosts: StoredHosts;

/** Every 15 s over the last 20 min; the newest sample is now. */
const times = Array.from({ length: 80 }, (_, index) => nowMs - (79 - index) * 15_000);
const common = { service: "api", unit: "1", temporality: "cumulative", is_monotonic: true } as const;

function points(name: string, series: string, attributes: object, value: (index: number) => number, more: Partial<Point> = {}): Point[] {
  return times.map((atMs, index) => ({
    ...common,
    name,
    kind: "sum",
    series,
    attributes: JSON.stringify(attributes),
    atMs,
    value: value(index),
    ...more,
  }));
}

const gauge = { kind: "gauge", unit: "By", is_monotonic: false, temporality: null } as const;

beforeAll(async () => {
  hosts = await openStoredHosts(clock);
  await hosts.add("a", {
    metricPoint: [
      ...points("http.requests", "r1", { route: "/a", code: 200 }, (index) => 1_000 + index * 30),
      ...points("http.requests", "r2", { route: "/a", code: 500 }, (index) => 100 + index * 3),
      // The counter restarts at the 70th sample.
      ...points("http.requests", "r3", { route: "/b", code: 200 }, (index) => (index < 70 ? 5_000 + index * 15 : (index - 70) * 15), {
        service: "web",
      }),
      ...points("mem", "g1", { pool: "x" }, (index) => index, gauge),
      ...points("ended", "g3", {}, () => 1, gauge).map((point, index) => (index < 78 ? point : { ...point, value: null, special: "none" })),
      ...points("mem", "g2", { pool: "y" }, () => 7, gauge),
      ...times.map(
        (atMs, index): Point => ({
          ...{
            ...common,
            unit: "s",
            name: "took",
            kind: "histogram",
            series: "h1",
            attributes: "{}",
            atMs,
            count: index * 10,
            sum: index * 5,
          },
          // Per 15 s: 4 observations up to 0.1, 4 up to 0.5, 2 above.
          ...{ bounds: "[0.1,0.5]", counts: JSON.stringify([index * 4, index * 4, index * 2]) },
        }),
      ),
      ...times.map(
        (atMs, index): Point => ({
          ...{
            ...common,
            temporality: "delta",
            unit: "s",
            name: "exp",
            kind: "exponential_histogram",
            series: "e1",
            attributes: "{}",
            atMs,
          },
          // Per 15 s: 5 observations in (1, 2], 5 in (2, 4]. From the 40th sample on with a coarser scale.
          ...{
            start_time: (atMs - 15_000) * 1_000,
            count: 10,
            sum: 20,
            zero_count: 0,
            zero_threshold: 0,
            negative_offset: 0,
            negative_counts: "[]",
          },
          ...(index < 40
            ? { scale: 1, positive_offset: 0, positive_counts: "[2,3,3,2]" }
            : { scale: 0, positive_offset: 0, positive_counts: "[5,5]" }),
        }),
      ),
      ...times.slice(-20).map(
        (atMs): Point => ({
          ...{
            ...common,
            temporality: "delta",
            name: "jobs",
            kind: "sum",
            series: "j1",
            attributes: "{}",
            atMs,
            start_time: (atMs - 15_000) * 1_000,
            value: 3,
          },
        }),
      ),
    ],
  });
});
afterAll(() => hosts[Symbol.asyncDispose]());

const ask = async (expression: string, more: Partial<PromqlQuery> = {}) =>
  (await queryPromql(hosts.store, { expression, startMs: nowMs, endMs: nowMs, stepMs: minuteMs, limit: 1_000, ...more })).rows;

/** `route=/a,code=200` → value. Labels that all series share are left out. */
async function values(expression: string): Promise<Record<string, number | null>> {
  const rows = await ask(expression);
  const hidden = new Set(["agent", "job", "__name__"]);
  return Object.fromEntries(
    rows.map(({ labels, points: [value] }) => [
      Object.entries(labels)
        .filter(([name]) => !hidden.has(name))
        .map(([name, text]) => `${name}=${text}`)
        .sort()
        .join(","),
      value === null || value === undefined ? null : Number(value.toPrecision(10)),
    ]),
  );
}

const [apiOk, apiBad, webOk] = ["code=200,route=/a,service=api", "code=500,route=/a,service=api", "code=200,route=/b,service=web"] as [
  string,
  string,
  string,
];

describe("queryPromql()", () => {
  // Rates by hand: r1 rises by 30 in 15 s, r2 by 3, r3 by 15. Samples cover all of a range except its first 15 s; extrapolation covers
  // those.
  it.each<[string, Record<string, number | null>]>([
    ["http_requests_total", { [apiOk]: 3_370, [apiBad]: 337, [webOk]: 135 }],
    ["http_requests", { [apiOk]: 3_370, [apiBad]: 337, [webOk]: 135 }],
    ['{"http.requests", code="500"}', { [apiBad]: 337 }],
    ["rate(http_requests_total[5m])", { [apiOk]: 2, [apiBad]: 0.2, [webOk]: Number(((18 * 15) / 285).toPrecision(10)) }],
    ["increase(http_requests_total{code='500'}[5m])", { [apiBad]: 60 }],
    ["irate(http_requests_total{route='/a'}[5m])", { [apiOk]: 2, [apiBad]: 0.2 }],
    ["sum by (route) (rate(http_requests_total{route='/a'}[5m]))", { "route=/a": 2.2 }],
    ["sum without (code, route, agent) (http_requests_total)", { "service=api": 3_707, "service=web": 135 }],
    [
      "sum(rate(http_requests_total{code=~'5..'}[2m])) / sum(rate(http_requests_total{service='api'}[2m]))",
      { "": Number((0.2 / 2.2).toPrecision(10)) },
    ],
    ["http_requests_total{code!~'2.*|x'}", { [apiBad]: 337 }],
    ["http_requests_total{code!='200', nothing=''}", { [apiBad]: 337 }],
    ["http_requests_total{job='web'}", { [webOk]: 135 }],
    ["http_requests_total{route='/a'} offset 5m", { [apiOk]: 3_370 - 600, [apiBad]: 337 - 60 }],
    ["count(http_requests_total)", { "": 3 }],
    ["avg(mem_bytes)", { "": 43 }],
    ["min(mem)", { "": 7 }],
    ["max by (pool) (mem) > 10", { "pool=x": 79 }],
    ["mem > bool 10", { "pool=x,service=api": 1, "pool=y,service=api": 0 }],
    ["avg_over_time(mem{pool='x'}[1m])", { "pool=x,service=api": 77.5 }],
    ["delta(mem{pool='x'}[1m])", { "pool=x,service=api": 4 }],
    ["max_over_time(mem[10m]) - min_over_time(mem[10m])", { "pool=x,service=api": 39, "pool=y,service=api": 0 }],
    ["topk(1, mem)", { "pool=x,service=api": 79 }],
    ["quantile(0.5, mem)", { "": 43 }],
    ["-mem{pool='y'} + 2 ^ 3", { "pool=y,service=api": 1 }],
    [
      "http_requests_total{code='500'} / ignoring(code) http_requests_total{code='200'}",
      { "route=/a,service=api": Number((337 / 3_370).toPrecision(10)) },
    ],
    ["rate(took_seconds_count[5m])", { "service=api": Number((10 / 15).toPrecision(10)) }],
    ["rate(took_sum[5m]) / rate(took_count[5m])", { "service=api": 0.5 }],
    ["took_bucket{le='0.5'}", { "le=0.5,service=api": 79 * 8 }],
    // 4 of 10 are up to 0.1 and 8 up to 0.5, so the median is a quarter of the way from 0.1 to 0.5.
    ["histogram_quantile(0.5, sum by (le) (rate(took_seconds_bucket[5m])))", { "": 0.2 }],
    ["histogram_quantile(0.99, rate(took_bucket[5m]))", { "service=api": 0.5 }],
    // Half lies in (1, 2] and half in (2, 4], spread evenly within the bounds that all points share.
    ["histogram_quantile(0.5, rate(exp_seconds_bucket[15m]))", { "service=api": 2 }],
    ["histogram_quantile(0.75, rate(exp_seconds_bucket[15m]))", { "service=api": 3 }],
    ["increase(exp_count[15m])", { "service=api": 600 }],
    ["rate(jobs[4m])", { "service=api": 0.2 }],
    ["absent(nothing{a='b'})", { "a=b": 1 }],
    ["absent(mem)", {}],
    ["nothing", {}],
    ["1 + 2 * 3", { "": 7 }],
    ["1 > bool 2", { "": 0 }],
    ["vector(3) or vector(4)", { "": 3 }],
    ["mem{pool='x'} and mem", { "pool=x,service=api": 79 }],
    ["mem unless mem{pool='x'}", { "pool=y,service=api": 7 }],
    ["round(mem{pool='y'} / 2)", { "pool=y,service=api": 4 }],
    ["clamp_max(mem, 10)", { "pool=x,service=api": 10, "pool=y,service=api": 7 }],
    ["scalar(mem{pool='y'}) * 2", { "": 14 }],
    ["1 / 0", { "": null }],
  ])("%s", async (expression, wanted) => {
    expect(await values(expression)).toEqual(wanted);
  });

  it("counts a series that began within the range from its start", async () => {
    // 20 deltas of 3 in the last 5 min, all counted, including the first.
    expect((await ask("increase(jobs[10m])"))[0]?.points[0]).toBeCloseTo(60, 9);
  });

  it("reads the data that subqueries, offset and @ need from before the window", async () => {
    expect((await ask("max_over_time(mem{pool='x'}[5m:15s] offset 10m)"))[0]?.points[0]).toBe(39);
    expect((await ask(`mem{pool='x'} @ ${(nowMs - 15 * minuteMs) / 1_000}`))[0]?.points[0]).toBe(19);
    const rows = await ask("avg_over_time(mem{pool='x'}[2m:1m] @ start())", { startMs: nowMs - 10 * minuteMs, stepMs: 5 * minuteMs });
    expect(rows[0]?.points).toEqual([37, 37, 37]);
  });

  it("returns no value after a stale marker, also within five minutes", async () => {
    const rows = await ask("ended", { startMs: nowMs - minuteMs, stepMs: 15_000 });
    expect(rows[0]?.points).toEqual([1, 1, 1, null, null]);
    expect(await values("count_over_time(ended[1m])")).toEqual({ "service=api": 2 });
  });

  it("sorts ascending for sort()", async () => {
    expect((await ask("sort(mem)")).map(({ points: [value] }) => value)).toEqual([7, 79]);
  });

  it("returns a point at every step, null where there is no data", async () => {
    const rows = await ask("mem{pool='x'}", { startMs: nowMs - 30 * minuteMs, stepMs: 5 * minuteMs });
    expect(rows[0]?.points).toEqual([null, null, null, 19, 39, 59, 79]);
  });

  it("limits steps, series and selectors", async () => {
    await expect(ask("mem", { startMs: 0, stepMs: 1 })).rejects.toThrow("steps");
    await expect(ask("max_over_time(mem[1d:1s])")).rejects.toThrow("Cannot evaluate a subquery in 86400 steps");
    await expect(ask(Array.from({ length: 21 }, () => "mem").join(" + "))).rejects.toThrow("selectors");
    expect((await queryPromql(hosts.store, { expression: "mem", startMs: nowMs, endMs: nowMs, stepMs: 1, limit: 1 })).total).toBe(2);
    const aborted = AbortSignal.abort(new Error("enough"));
    await expect(ask("sum_over_time(mem[20m])", { startMs: nowMs - 600_000, stepMs: 100, signal: aborted })).rejects.toThrow("enough");
  });

  it("reports why an expression is invalid", async () => {
    await expect(ask("mem{pool=~'('}")).rejects.toThrow('Cannot use the regular expression "("');
    await expect(ask("http_requests_total / on(service) http_requests_total")).rejects.toThrow("several series on the right side");
    await expect(ask("rate({__name__=~'mem|jobs'}[5m]) * on(service) group_left mem")).rejects.toThrow("several series on the right side");
    await expect(ask("label_replace(mem, 'pool', '', 'pool', '.*')")).rejects.toThrow("have the same labels");
    await expect(ask("label_replace(mem, 'a', '', 'pool', '(')")).rejects.toThrow('Cannot use the regular expression "("');
    await expect(ask("label_replace(mem, '0', '', 'pool', '')")).rejects.toThrow('"0" is not a label name');
    await expect(ask("double_exponential_smoothing(mem[5m], 2, 0.5)")).rejects.toThrow("between 0 and 1");
    // A backtracking engine would need exponential time for this pattern.
    expect(await ask(`mem{pool=~'(x+x+)+y${"x".repeat(30)}'}`)).toEqual([]);
  });
});

describe("prometheusNames()", () => {
  it.each([
    [
      { name: "http.server.request.duration", unit: "s", kind: "histogram", isMonotonic: false },
      "http_server_request_duration_seconds_bucket",
    ],
    [{ name: "process.memory", unit: "By", kind: "gauge", isMonotonic: false }, "process_memory_bytes"],
    [{ name: "requests", unit: "{request}", kind: "sum", isMonotonic: true }, "requests_total"],
    [{ name: "cpu.utilization", unit: "1", kind: "gauge", isMonotonic: false }, "cpu_utilization_ratio"],
    [{ name: "net", unit: "By/s", kind: "gauge", isMonotonic: false }, "net_bytes_per_second"],
    [{ name: "already_seconds_total", unit: "s", kind: "sum", isMonotonic: true }, "already_seconds_total"],
  ] as const)("%o", (metric, wanted) => {
    expect(prometheusNames(metric)[0]?.text).toBe(wanted);
  });
});
