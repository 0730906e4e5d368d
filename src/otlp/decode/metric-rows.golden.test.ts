/** Golden rows of metric points: the fingerprint of a series must not change, and queries parse the JSON of buckets and quantiles. */

import { describe, expect, it } from "vitest";
import type { MetricPoint } from "./metric-point.ts";
import { metricRowOf, metricSeriesRowOf, seriesOf } from "./metric-rows.ts";

const point: MetricPoint = {
  service: "api",
  serviceVersion: "1.4.2",
  serviceInstance: "api-7",
  environment: "prod",
  hostName: "web-1",
  resource: '{"service.name":"api","zone":"a"}',
  scopeName: "m",
  scopeVersion: "1",
  name: "requests",
  description: "how many",
  unit: "{request}",
  kind: "sum",
  temporality: "cumulative",
  isMonotonic: true,
  attributes: '{"größe":"x","status":200}',
  startTimeUs: 1_767_225_600_000_000,
  timeUs: 1_767_225_610_000_000,
  hasNoValue: false,
  value: 42.5,
  exemplars: [],
};
const series = "a0d214fbdf3c5711";

const common = {
  at: 1_767_225_610_000_000,
  mono_ms: 12.5,
  service: "api",
  name: "requests",
  unit: "{request}",
  temporality: "cumulative",
  is_monotonic: true,
  attributes: '{"größe":"x","status":200}',
  series,
  service_version: "1.4.2",
  service_instance: "api-7",
  start_time: 1_767_225_600_000_000,
  value: null,
  special: null,
  count: null,
  sum: null,
  min: null,
  max: null,
  bounds: null,
  counts: null,
  scale: null,
  zero_count: null,
  zero_threshold: null,
  positive_offset: null,
  positive_counts: null,
  negative_offset: null,
  negative_counts: null,
  quantiles: null,
};

describe("seriesOf()", () => {
  it("returns the golden fingerprint", () => {
    expect(seriesOf(point)).toBe(series);
  });
});

describe("metricRowOf()", () => {
  const distribution = { count: 6, sum: 1.5, min: 0.1, max: 0.6 };
  const { value: _value, ...noValue } = point;

  it.each<[string, MetricPoint, Record<string, unknown>]>([
    ["a sum", point, { kind: "sum", value: 42.5 }],
    [
      "a gauge that is not a number, without start, version, instance and temporality",
      {
        ...point,
        kind: "gauge",
        temporality: "unspecified",
        value: Number.NaN,
        startTimeUs: 0,
        serviceVersion: "",
        serviceInstance: "",
      },
      { kind: "gauge", special: "nan", temporality: null, start_time: null, service_version: null, service_instance: null },
    ],
    ["an infinite value", { ...point, value: Number.NEGATIVE_INFINITY }, { kind: "sum", special: "-inf" }],
    ["the end of a series", { ...point, hasNoValue: true }, { kind: "sum", special: "none" }],
    [
      "a histogram",
      { ...noValue, ...distribution, kind: "histogram", bounds: [0.25, 1, Number.POSITIVE_INFINITY], counts: [1, 2, 2, 1] },
      { kind: "histogram", ...distribution, bounds: "[0.25,1]", counts: "[1,2,3]" },
    ],
    [
      "an exponential histogram",
      {
        ...noValue,
        ...distribution,
        kind: "exponential_histogram",
        scale: 3,
        zeroCount: 1,
        zeroThreshold: 0.001,
        positive: { offset: -4, counts: [1, 0, 3] },
        negative: { offset: 2, counts: [1] },
      },
      {
        kind: "exponential_histogram",
        ...distribution,
        scale: 3,
        zero_count: 1,
        zero_threshold: 0.001,
        positive_offset: -4,
        positive_counts: "[1,0,3]",
        negative_offset: 2,
        negative_counts: "[1]",
      },
    ],
    [
      "a summary",
      {
        ...noValue,
        ...distribution,
        kind: "summary",
        quantiles: [
          { quantile: 0.5, value: 0.2 },
          { quantile: 0.99, value: Number.NaN },
        ],
      },
      { kind: "summary", ...distribution, quantiles: "[[0.5,0.2],[0.99,null]]" },
    ],
  ])("stores %s as the golden row", (_name, given, golden) => {
    expect(metricRowOf(given, series, 12.5)).toEqual({ ...common, ...golden });
  });
});

describe("metricSeriesRowOf()", () => {
  it("stores the description of a series as the golden row", () => {
    expect(metricSeriesRowOf(point, series, point.timeUs, 12.5)).toEqual({
      at: 1_767_225_610_000_000,
      mono_ms: 12.5,
      series,
      service: "api",
      name: "requests",
      description: "how many",
      attributes: '{"größe":"x","status":200}',
      environment: "prod",
      host_name: "web-1",
      resource: '{"service.name":"api","zone":"a"}',
      scope_name: "m",
      scope_version: "1",
    });
  });
});
