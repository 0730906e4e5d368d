import { describe, expect, it } from "vitest";
import { cpuMsOf } from "../../base/cpu-time.fixture.ts";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { parseSample } from "./prometheus-sample.ts";
import { parsePrometheusText, type ScrapeSource } from "./prometheus-text.ts";

const source: ScrapeSource = { service: "node", instance: "h:9100", atUs: 1_700_000_000_000_000, isOpenMetrics: false, maxSamples: 1_000 };
const read = (text: string, over: Partial<ScrapeSource> = {}) => parsePrometheusText(text, { ...source, ...over });

describe("parseSample()", () => {
  it.each<[string, ReturnType<typeof parseSample>]>([
    ["up 1", { name: "up", labels: [], value: 1 }],
    ["up{} 1.5e3 1700", { name: "up", labels: [], value: 1_500, timestamp: 1_700 }],
    [
      'a:b_c{x="1", y = "two",} -3',
      {
        name: "a:b_c",
        labels: [
          ["x", "1"],
          ["y", "two"],
        ],
        value: -3,
      },
    ],
    [String.raw`a{x="q\"\\\n"} +Inf`, { name: "a", labels: [["x", 'q"\\\n']], value: Number.POSITIVE_INFINITY }],
    ['a{x="{},= #"} NaN', { name: "a", labels: [["x", "{},= #"]], value: Number.NaN }],
    ['a_bucket{le="1"} 5 # {trace_id="x"} 0.5', { name: "a_bucket", labels: [["le", "1"]], value: 5 }],
    ['{"a.b", "x.y"="z"} 2', { name: "a.b", labels: [["x.y", "z"]], value: 2 }],
    ['{"a.b"} 2', { name: "a.b", labels: [], value: 2 }],
    ["up", undefined],
    ["up one", undefined],
    ["up 1 2 3", undefined],
    ['a{x="1"', undefined],
    ['a{x="1" y="2"} 1', undefined],
    ["a{x=1} 1", undefined],
    ["9a 1", undefined],
    ['{x="1"} 1', undefined],
    [`a{${Array.from({ length: 65 }, (_, index) => `l${index}="x"`).join(",")}} 1`, undefined],
    [`a{x="${"y".repeat(5_000)}"} 1`, undefined],
  ])("%.60s", (line, wanted) => {
    expect(parseSample(line)).toEqual(wanted);
  });
});

describe("parsePrometheusText()", () => {
  it("reads counters, gauges and untyped samples", () => {
    const { points, malformed, cut } = read(
      '# HELP http_requests_total All\\nof them.\n# TYPE http_requests_total counter\nhttp_requests_total{b="2",a="1"} 7\n# TYPE temp_celsius gauge\ntemp_celsius 21.5 1600000000000\nother 1\r\n\n# just words\n',
    );
    expect([malformed, cut]).toEqual([0, 0]);
    expect(points).toHaveLength(3);
    expect(points[0]).toMatchObject({
      ...{
        service: "node",
        serviceInstance: "h:9100",
        name: "http_requests_total",
        kind: "sum",
        temporality: "cumulative",
        isMonotonic: true,
        value: 7,
      },
      ...{ attributes: '{"a":"1","b":"2"}', description: "All\nof them.", unit: "", timeUs: source.atUs },
    });
    expect(points[1]).toMatchObject({ kind: "gauge", unit: "Cel", value: 21.5, timeUs: 1_600_000_000_000_000, isMonotonic: false });
    expect(points[2]).toMatchObject({ kind: "gauge", name: "other" });
  });

  it("assembles histograms and summaries", () => {
    const { points, malformed } = read(
      [
        "# TYPE took_seconds histogram",
        'took_seconds_bucket{route="/a",le="+Inf"} 10',
        'took_seconds_bucket{route="/a",le="0.1"} 4',
        'took_seconds_bucket{le="0.5",route="/a"} 9',
        'took_seconds_sum{route="/a"} 2.5',
        'took_seconds_count{route="/a"} 10',
        'took_seconds_bucket{route="/b",le="+Inf"} 0',
        "# TYPE size_bytes summary",
        'size_bytes{quantile="0.99"} 900',
        'size_bytes{quantile="0.5"} 100',
        "size_bytes_sum 1000",
        "size_bytes_count 5",
      ].join("\n"),
    );
    expect(malformed).toBe(0);
    expect(points).toMatchObject([
      {
        name: "took_seconds",
        kind: "histogram",
        unit: "s",
        attributes: '{"route":"/a"}',
        bounds: [0.1, 0.5],
        counts: [4, 5, 1],
        count: 10,
        sum: 2.5,
      },
      { name: "took_seconds", attributes: '{"route":"/b"}', bounds: [], counts: [0], count: 0 },
      {
        name: "size_bytes",
        kind: "summary",
        unit: "By",
        count: 5,
        sum: 1_000,
        quantiles: [
          { quantile: 0.5, value: 100 },
          { quantile: 0.99, value: 900 },
        ],
      },
    ]);
  });

  it("reads OpenMetrics", () => {
    const { points } = read("# TYPE jobs counter\n# UNIT jobs seconds\njobs_total 5 1600000000.5\njobs_created 1600000000\n# EOF\n", {
      isOpenMetrics: true,
    });
    expect(points).toMatchObject([{ name: "jobs_total", kind: "sum", unit: "s", timeUs: 1_600_000_000_500_000 }]);
  });

  it("counts malformed lines and samples above the limit", () => {
    expect(read("a 1\nb b\nc 3\n").malformed).toBe(1);
    expect(read('# TYPE h histogram\nh_bucket{le="1"} 5\nh_bucket{le="2"} 3\nh_bucket{le="+Inf"} 5\n')).toMatchObject({
      points: [],
      malformed: 1,
    });
    expect(read('# TYPE h histogram\nh_bucket{le="x"} 5\nh_count 5\n')).toMatchObject({
      malformed: 1,
      points: [{ count: 5, counts: [5] }],
    });
    expect(read("a 1\n".repeat(10), { maxSamples: 4 })).toMatchObject({ cut: 6 });
  });

  it("survives random input", () => {
    const random = new SeededRandom(9);
    const parts = [
      "a",
      "{",
      "}",
      '"',
      "=",
      ",",
      "\\",
      " ",
      "1",
      "\n",
      "# TYPE a histogram\n",
      'a_bucket{le="1"} 2\n',
      "NaN",
      "#",
      "é",
      "\t",
      "_count",
      "+Inf",
      '{"x"}',
    ];
    for (let round = 0; round < 20_000; round++) {
      const text = Array.from({ length: random.below(20) }, () => random.pick(parts)).join("");
      const { points, malformed } = read(text);
      expect(points.length + malformed).toBeLessThanOrEqual(text.split("\n").length);
    }
  });

  it("takes linear time for long lines", () => {
    const text = `a{x="${"\\".repeat(60_000)}\n${"{".repeat(100_000)}\na{${'x="y",'.repeat(10_000)}\n${" ".repeat(200_000)}a 1\n`;
    expect(cpuMsOf(() => read(text))).toBeLessThan(2_000);
  });
});
