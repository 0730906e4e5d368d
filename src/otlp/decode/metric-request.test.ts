import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { decodeMetricRequest } from "./metric-request.ts";
import { attributeFields, type Field, metricRequest, packed } from "./otlp-encoder.fixture.ts";

const receivedAtUs = 1_700_000_000_000_000;
const times: Field[] = [
  [2, "fixed64", 1_700_000_000_000_000_000n],
  [3, "fixed64", 1_700_000_010_000_000_999n],
];

function decode(...metrics: readonly Field[][]) {
  return decodeMetricRequest(
    metricRequest([{ resource: { "service.name": "api", zone: "a" }, scope: { name: "m", version: "1" }, items: metrics }]),
    receivedAtUs,
  );
}

const metric = (field: number, data: Field[], name = "requests"): Field[] => [
  [1, "text", name],
  [2, "text", "how many"],
  [3, "text", "{request}"],
  [field, "message", data],
];

const common = {
  service: "api",
  scopeName: "m",
  scopeVersion: "1",
  name: "requests",
  description: "how many",
  unit: "{request}",
  startTimeUs: 1_700_000_000_000_000,
  timeUs: 1_700_000_010_000_000,
  resource: '{"service.name":"api","zone":"a"}',
  hasNoValue: false,
};

describe("decodeMetricRequest()", () => {
  it("reads gauges of both number types, with attributes in canonical order", () => {
    const { points } = decode(
      metric(5, [
        [1, "message", [...times, [4, "double", 1.5], ...attributeFields(7, { b: 1n, a: "x" })]],
        [1, "message", [...times, [6, "fixed64", -7n], ...attributeFields(7, { a: "x", b: 1n })]],
      ]),
    );
    expect(points).toHaveLength(2);
    expect(points[0]).toMatchObject({ ...common, kind: "gauge", value: 1.5, attributes: '{"a":"x","b":1}', temporality: "unspecified" });
    expect(points[1]).toMatchObject({ value: -7, attributes: '{"a":"x","b":1}' });
  });

  it("reads sums with temporality and monotonicity, even if these fields come last", () => {
    const { points } = decode(
      metric(7, [
        [1, "message", [...times, [6, "fixed64", 12n]]],
        [2, "varint", 2],
        [3, "varint", 1],
      ]),
      metric(7, [
        [2, "varint", 1],
        [1, "message", [...times, [4, "double", 0.5]]],
      ]),
    );
    expect(points[0]).toMatchObject({ ...common, kind: "sum", temporality: "cumulative", isMonotonic: true, value: 12, attributes: "{}" });
    expect(points[1]).toMatchObject({ temporality: "delta", isMonotonic: false, value: 0.5 });
  });

  it("reads histograms with all optional fields", () => {
    const exemplar: Field[] = [
      [2, "fixed64", 1_700_000_005_000_000_000n],
      [3, "double", 0.25],
      [4, "bytes", Buffer.from("b7ad6b7169203331", "hex")],
      [5, "bytes", Buffer.from("0af7651916cd43dd8448eb211c80319c", "hex")],
      ...attributeFields(7, { user: "u" }),
    ];
    const point: Field[] = [
      ...times,
      [4, "fixed64", 6n],
      [5, "double", 3.5],
      packed(6, [1, 2, 3], "fixed64"),
      packed(7, [0.1, 1], "double"),
      [8, "message", exemplar],
      ...attributeFields(9, { route: "/" }),
      [11, "double", 0.05],
      [12, "double", 2],
    ];
    const { points } = decode(
      metric(9, [
        [1, "message", point],
        [2, "varint", 1],
      ]),
    );
    expect(points[0]).toMatchObject({
      ...common,
      kind: "histogram",
      temporality: "delta",
      count: 6,
      sum: 3.5,
      min: 0.05,
      max: 2,
      bounds: [0.1, 1],
      counts: [1, 2, 3],
      attributes: '{"route":"/"}',
      exemplars: [
        {
          timeUs: 1_700_000_005_000_000,
          value: 0.25,
          traceId: "0af7651916cd43dd8448eb211c80319c",
          spanId: "b7ad6b7169203331",
          attributes: '{"user":"u"}',
        },
      ],
    });
  });

  it("reads repeated numbers that are not packed", () => {
    const point: Field[] = [...times, [4, "fixed64", 3n], [6, "fixed64", 1n], [6, "fixed64", 2n], [7, "double", 5]];
    expect(decode(metric(9, [[1, "message", point]])).points[0]).toMatchObject({ counts: [1, 2], bounds: [5] });
  });

  it("reads exponential histograms", () => {
    const point: Field[] = [
      ...attributeFields(1, { a: true }),
      ...times,
      [4, "fixed64", 10n],
      [5, "double", 99],
      [6, "zigzag", -3],
      [7, "fixed64", 1n],
      [8, "message", [[1, "zigzag", -2], packed(2, [1, 0, 300], "varint")]],
      [9, "message", [[1, "zigzag", 5], packed(2, [2], "varint")]],
      [14, "double", 1e-9],
    ];
    expect(
      decode(
        metric(10, [
          [1, "message", point],
          [2, "varint", 2],
        ]),
      ).points[0],
    ).toMatchObject({
      kind: "exponential_histogram",
      temporality: "cumulative",
      count: 10,
      sum: 99,
      scale: -3,
      zeroCount: 1,
      zeroThreshold: 1e-9,
      positive: { offset: -2, counts: [1, 0, 300] },
      negative: { offset: 5, counts: [2] },
    });
  });

  it("reads summaries", () => {
    const quantile = (at: number, value: number): Field => [
      6,
      "message",
      [
        [1, "double", at],
        [2, "double", value],
      ],
    ];
    const point: Field[] = [...times, [4, "fixed64", 2n], [5, "double", 4], quantile(0.5, 1), quantile(0.99, 3)];
    expect(decode(metric(11, [[1, "message", point]])).points[0]).toMatchObject({
      kind: "summary",
      count: 2,
      sum: 4,
      quantiles: [
        { quantile: 0.5, value: 1 },
        { quantile: 0.99, value: 3 },
      ],
    });
  });

  it("keeps a point without a value only if it is flagged", () => {
    expect(decode(metric(5, [[1, "message", [...times, [8, "varint", 1]]]])).points[0]).toMatchObject({ hasNoValue: true });
    expect(decode(metric(5, [[1, "message", times]]))).toMatchObject({ points: [], malformed: 1 });
  });

  it("uses the arrival time for a point without a time", () => {
    expect(decode(metric(5, [[1, "message", [[4, "double", 1]]]])).points[0]).toMatchObject({ timeUs: receivedAtUs, startTimeUs: 0 });
  });

  it.each<[string, Field[]]>([
    ["counts that do not match the bounds", [[4, "fixed64", 1n], packed(6, [1], "fixed64"), packed(7, [1, 2], "double")]],
    ["bounds that are not ascending", [[4, "fixed64", 3n], packed(6, [1, 1, 1], "fixed64"), packed(7, [2, 2], "double")]],
    ["too many buckets", [packed(6, Array<number>(5_000).fill(1), "fixed64")]],
    ["a packed list that ends inside a number", [[6, "bytes", Buffer.alloc(12)]]],
  ])("rejects a histogram with %s, and continues", (_name, fields) => {
    const good: Field[] = [...times, [4, "fixed64", 0n]];
    const { points, malformed } = decode(
      metric(9, [
        [1, "message", [...times, ...fields]],
        [1, "message", good],
      ]),
    );
    expect(malformed).toBe(1);
    expect(points).toHaveLength(1);
  });

  it("rejects a metric without a name, and skips one without data", () => {
    expect(decode(metric(5, [[1, "message", [[4, "double", 1]]]], ""))).toMatchObject({ points: [], malformed: 1 });
    expect(decode([[1, "text", "empty"]])).toMatchObject({ points: [], malformed: 0 });
  });

  it("survives truncated and changed requests", () => {
    const random = new SeededRandom(9);
    const body = metricRequest([
      {
        items: [
          metric(9, [[1, "message", [...times, [4, "fixed64", 6n], packed(6, [1, 2, 3], "fixed64"), packed(7, [0.1, 1], "double")]]]),
          metric(10, [[1, "message", [...times, [8, "message", [packed(2, [1, 2], "varint")]]]]]),
          metric(11, [[1, "message", [...times, [6, "message", [[1, "double", 0.5]]]]]]),
        ],
      },
    ]);
    for (let round = 0; round < 5_000; round++) {
      const changed = Buffer.from(body);
      for (let change = random.below(5); change >= 0; change--) changed[random.below(changed.length)] = random.below(256);
      const { points } = decodeMetricRequest(
        random.below(3) === 0 ? changed.subarray(0, random.below(changed.length)) : changed,
        receivedAtUs,
      );
      expect(points.length).toBeLessThan(20);
      for (const point of points) JSON.parse(point.attributes);
    }
  });
});
