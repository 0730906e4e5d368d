import { describe, expect, it } from "vitest";
import type { MetricRowFact } from "../../../model/metrics.ts";
import type { MetricResult } from "../../../tools/index.ts";
import { useColony } from "../../daemon.fixture.ts";
import { metricRate, metricValue, plainNumber, trend } from "./metric-text.ts";

const here = useColony();

const resultOf = (over: Partial<MetricResult> = {}): MetricResult => ({
  ...{ sinceMs: 3_600_000, startAt: null, stepMs: 60_000, total: 1, metrics: [], rows: [], series: [] },
  ...over,
});
const rowOf = (over: Partial<MetricRowFact> = {}): MetricRowFact => ({
  ...{ service: "api", group: null, unit: "s", kind: "histogram", isCounter: false, series: 2, rate: 12.5, total: 45_000, last: null },
  ...{ mean: 0.012, min: null, max: null, p50: 0.01, p95: 0.042, p99: 1.5, points: [0.01, null, 0.04], ratePoints: [] },
  ...over,
});

describe("coral query metrics", () => {
  it("lists metrics", async () => {
    const lastAt = new Date(Date.now() - 3 * 86_400_000).toISOString();
    const metric = {
      name: "took",
      unit: "s",
      kind: "exponential_histogram",
      isCounter: false,
      serviceCount: 7,
      series: 12,
      lastAt,
    } as const;
    const counter = { ...metric, name: "hits", unit: "", kind: "sum", isCounter: true, services: ["a"], serviceCount: 1 } as const;
    here.colony.tool(
      "coral_query_metrics",
      resultOf({
        metrics: [
          { ...metric, services: ["a", "b", "c", "d", "e"] },
          { ...counter, services: ["a"] },
        ],
      }),
    );
    const { stdout, code } = await here.world.coral("query metrics --service x --agent y");
    expect(code).toBe(0);
    expect(stdout.split("\n").slice(0, 3)).toEqual([
      "METRIC  KIND                   UNIT  SERVICES    SERIES    LAST",
      "took    exponential histogram  s     a, b, c +4      12  3d ago",
      "hits    counter                -     a               12  3d ago",
    ]);
    expect(here.colony.calls[0]?.body).toEqual({ since: "1h", points: 30, service: "x", agent: "y" });
  });

  it("shows a histogram, a counter and a gauge, each with its own columns", async () => {
    here.colony.tool("coral_query_metrics", resultOf({ rows: [rowOf()] }));
    const histogram = await here.world.coral("query metrics took --by http.route --since 2h --step 5m --limit 3");
    expect(histogram.stdout).toBe(
      [
        "took  last 1h · by http.route · step 1m",
        "SERVICE  HTTP.ROUTE    RATE   COUNT  MEAN   P50   P95   P99  P95 OVER TIME",
        "api      -           12.5/s  45,000  12ms  10ms  42ms  1.5s  ▃ █",
        "",
      ].join("\n"),
    );
    expect(here.colony.calls[0]?.body).toEqual({ since: "2h", points: 30, name: "took", by: "http.route", step: "5m", limit: 3 });
    const none = { mean: null, p50: null, p95: null, p99: null };
    here.colony.tool(
      "coral_query_metrics",
      resultOf({ rows: [rowOf({ ...none, kind: "sum", isCounter: true, unit: "By", rate: 2_048, total: 1024 ** 2 })] }),
    );
    expect((await here.world.coral("query metrics sent")).stdout).toContain("api      2.00 KiB/s  1.00 MiB  ▃ █");
    here.colony.tool(
      "coral_query_metrics",
      resultOf({
        rows: [rowOf({ ...none, kind: "gauge", unit: "Cel", rate: null, total: null, last: -3, min: -3, max: 21.25, points: [-3, 21] })],
      }),
    );
    expect((await here.world.coral("query metrics heat")).stdout).toContain("api      -3 Cel  -3 Cel  21.3 Cel  ▁█");
    const csv = await here.world.coral("query metrics heat -o csv");
    expect(csv.stdout.split("\n")[0]).toBe("service,last,min,max,points,series,kind,unit");
  });

  it("prints why there are no rows", async () => {
    const completeness = { complete: false, notes: [{ kind: "no-data", message: "nothing was sent" }] };
    here.colony.tool("coral_query_metrics", { ...resultOf({ total: 0 }), completeness });
    expect(await here.world.coral("query metrics")).toEqual({ code: 0, stdout: "", stderr: "note: nothing was sent\n" });
  });
});

describe("coral query promql", () => {
  it("prints a line per series", async () => {
    const series = [
      { labels: { __name__: "up", service: "api", job: "api", route: 'a"b' }, points: [1, 2, 1_234.5] },
      { labels: {}, points: [null, null] },
    ];
    here.colony.tool("coral_query_metrics", resultOf({ series }));
    const { stdout } = await here.world.coral("query promql up --since 30m --step 1m");
    const lines = stdout.split("\n").map((line) => line.trimEnd().split(/ {2,}/));
    expect(lines).toEqual([["SERIES", "NOW", "OVER TIME"], ['up{route="a\\"b", service="api"}', "1,235", "▁▁█"], ["{}", "-", "-"], [""]]);
    expect(here.colony.calls[0]?.body).toEqual({ promql: "up", since: "30m", points: 30, step: "1m" });
    expect((await here.world.coral(["query", "promql", " "])).stderr).toContain("Cannot evaluate an empty expression");
  });
});

describe("metricValue()", () => {
  it.each<[number | null, string, string | null]>([
    [0.0042, "s", "4.2ms"],
    [1_500, "ms", "1.5s"],
    [12, "ns", "12ns"],
    [1_048_576, "By", "1.00 MiB"],
    [-1_204, "{request}", "-1,204"],
    [0.5, "1", "0.5"],
    [1e-7, "", "1.00e-7"],
    [12_345.6, "Cel", "12,346 Cel"],
    [null, "s", null],
  ])("%d %s", (value, unit, wanted) => {
    expect(metricValue(value, unit)).toBe(wanted);
  });

  it("prints rates and trends", () => {
    expect(metricRate(0.25, "{request}")).toBe("0.25/s");
    expect(metricRate(null, "By")).toBeNull();
    expect(plainNumber(2 ** 60)).toBe("1.15e+18");
    expect(trend([null])).toBe("");
    expect(trend([0, null, 8])).toBe("▁ █");
  });
});
