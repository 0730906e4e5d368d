import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { rowsOf } from "../columns/batch-rows.fixture.ts";
import { MalformedError } from "../columns/protobuf-reader.ts";
import { inspectRequest, type OtlpSignal } from "../decode/inspect-request.ts";
import { LogDecoder } from "../decode/log-request.ts";
import { decodeMetricRequest } from "../decode/metric-request.ts";
import { SpanDecoder } from "../decode/trace-request.ts";
import { jsonToProtobuf } from "./json-request.ts";

const bytes = (json: unknown): Uint8Array => Buffer.from(typeof json === "string" ? json : JSON.stringify(json));

function spans(json: unknown) {
  const decoder = new SpanDecoder();
  decoder.add(jsonToProtobuf("traces", bytes(json)), 1);
  expect(decoder.counts.malformed).toBe(0);
  return rowsOf(decoder.finish());
}

const trace = (span: object, resource: object = {}) => ({
  resourceSpans: [{ resource, scopeSpans: [{ scope: { name: "s" }, spans: [span] }] }],
});
const ids = { traceId: "5B8EFFF798038103D269B633813FC60C", spanId: "EEE19B7EC3C1B174" };

describe("jsonToProtobuf()", () => {
  it("reads spans with hex ids, times as strings and enums by number or name", () => {
    const json = trace(
      {
        ...ids,
        parentSpanId: "eee19b7ec3c1b173",
        name: 'I\'m a "server" span é 😀',
        startTimeUnixNano: "1544712660000000123",
        endTimeUnixNano: "1544712661000000124",
        kind: "SPAN_KIND_SERVER",
        status: { code: 2, message: "oh" },
        attributes: [
          { key: "text", value: { stringValue: "a\u0001\n/" } },
          { key: "int", value: { intValue: "-9223372036854775808" } },
          { key: "number", value: { intValue: 7 } },
          { key: "double", value: { doubleValue: 1e3 } },
          { key: "nan", value: { doubleValue: "NaN" } },
          { key: "bool", value: { boolValue: true } },
          { key: "bytes", value: { bytesValue: "AAEC/w==" } },
          { key: "array", value: { arrayValue: { values: [{ stringValue: "x" }, {}, { arrayValue: {} }] } } },
          { key: "map", value: { kvlistValue: { values: [{ key: "k", value: { intValue: "1" } }] } } },
          { key: "none", value: null },
        ],
        events: [{ timeUnixNano: "1544712660000001123", name: "e", attributes: [] }],
        links: [{ ...ids, traceState: "a=b" }],
        flags: 257,
        unknownField: { deeply: [{ nested: [1, "two", null, true, { a: {} }] }] },
        droppedAttributesCount: 3,
      },
      { attributes: [{ key: "service.name", value: { stringValue: "web" } }] },
    );
    expect(spans(json)).toEqual([
      expect.objectContaining({
        service: "web",
        scope_name: "s",
        trace_id: "5b8efff798038103d269b633813fc60c",
        span_id: "eee19b7ec3c1b174",
        parent_span_id: "eee19b7ec3c1b173",
        name: 'I\'m a "server" span é 😀',
        time: 1_544_712_660_000_000n,
        duration_ns: 1_000_000_001n,
        kind: "server",
        status: "error",
        status_message: "oh",
        flags: 257,
        dropped: 3,
        attributes:
          '{"text":"a\\u0001\\n/","int":-9223372036854775808,"number":7,"double":1000.0,"nan":"NaN","bool":true,"bytes":"AAEC/w==","array":["x",null,[]],"map":{"k":1},"none":null}',
        events: '[{"offset_ns":1000,"name":"e"}]',
        links: '[{"trace_id":"5b8efff798038103d269b633813fc60c","span_id":"eee19b7ec3c1b174","trace_state":"a=b"}]',
      }),
    ]);
  });

  it.each([
    ["intValue", "99999999999999999999"],
    ["intValue", "9223372036854775808"],
    ["intValue", "-9223372036854775809"],
    ["intValue", "1e300"],
  ])("refuses the %s %s, which has more than 64 bits", (kind, value) => {
    const attributes = [{ key: "n", value: { [kind]: value } }];
    const request = JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [{ attributes }] }] }] });
    expect(() => jsonToProtobuf("traces", Buffer.from(request))).toThrow("64 bits");
  });

  it("keeps times exact if they were sent as numbers", () => {
    const text = JSON.stringify(trace({ ...ids, name: "n", startTimeUnixNano: "START", endTimeUnixNano: "END" }));
    const [row] = spans(text.replace('"START"', "1700000000123456789").replace('"END"', "1700000000123456790"));
    expect(row).toMatchObject({ time: 1_700_000_000_123_456n, duration_ns: 1n });
  });

  it("accepts names as in the schema, with underscores, and a byte order mark", () => {
    const json = { resource_spans: [{ scope_spans: [{ spans: [{ trace_id: ids.traceId, span_id: ids.spanId, name: "n", kind: 3 }] }] }] };
    expect(spans(`\ufeff ${JSON.stringify(json)} `)[0]).toMatchObject({ name: "n", kind: "client" });
  });

  it("unescapes strings", () => {
    const text = JSON.stringify(trace({ ...ids, name: "NAME" })).replace(
      "NAME",
      '\\ud83d\\ude00 \\u00e9 \\"\\\\\\/\\b\\f\\n\\r\\t \\ud83d!',
    );
    expect(spans(text)[0]?.["name"]).toBe('😀 é "\\/\b\f\n\r\t \ufffd!');
  });

  it("reads log records", () => {
    const decoder = new LogDecoder();
    const record = {
      timeUnixNano: "1000000",
      severityNumber: "SEVERITY_NUMBER_WARN2",
      body: { stringValue: "hello" },
      ...ids,
      eventName: "e",
    };
    decoder.add(jsonToProtobuf("logs", bytes({ resourceLogs: [{ scopeLogs: [{ logRecords: [record] }] }] })), 1);
    expect(rowsOf(decoder.finish())[0]).toMatchObject({
      time: 1_000n,
      severity_number: 14,
      severity: "warn",
      body: "hello",
      event_name: "e",
    });
  });

  it("reads metrics of every kind", () => {
    const times = { startTimeUnixNano: "1000000", timeUnixNano: "2000000" };
    const metrics = [
      {
        name: "g",
        unit: "By",
        gauge: {
          dataPoints: [
            { ...times, asInt: "5" },
            { ...times, asDouble: 0.5 },
          ],
        },
      },
      {
        name: "s",
        sum: { dataPoints: [{ ...times, asInt: -3 }], aggregationTemporality: "AGGREGATION_TEMPORALITY_DELTA", isMonotonic: true },
      },
      {
        name: "h",
        histogram: {
          aggregationTemporality: 2,
          dataPoints: [{ ...times, count: "3", sum: 6, bucketCounts: ["1", 2], explicitBounds: [1.5], min: 1, max: 4 }],
        },
      },
      {
        name: "e",
        exponentialHistogram: {
          dataPoints: [{ ...times, count: 2, scale: -1, zeroCount: "1", positive: { offset: -4, bucketCounts: ["1"] } }],
        },
      },
      { name: "q", summary: { dataPoints: [{ ...times, count: "1", sum: 2, quantileValues: [{ quantile: 0.5, value: 2 }] }] } },
    ];
    const body = jsonToProtobuf("metrics", bytes({ resourceMetrics: [{ scopeMetrics: [{ metrics }] }] }));
    expect(inspectRequest("metrics", body)).toMatchObject({ rows: 6, rejected: 0, reason: "" });
    const { points, malformed } = decodeMetricRequest(body, 1);
    expect(malformed).toBe(0);
    expect(points).toMatchObject([
      { name: "g", unit: "By", kind: "gauge", value: 5, startTimeUs: 1_000, timeUs: 2_000 },
      { name: "g", value: 0.5 },
      { name: "s", kind: "sum", value: -3, temporality: "delta", isMonotonic: true },
      { name: "h", kind: "histogram", temporality: "cumulative", count: 3, sum: 6, counts: [1, 2], bounds: [1.5], min: 1, max: 4 },
      { name: "e", scale: -1, zeroCount: 1, positive: { offset: -4, counts: [1] } },
      { name: "q", quantiles: [{ quantile: 0.5, value: 2 }] },
    ]);
  });

  it.each([
    "",
    "{",
    "[]",
    "null",
    '"text"',
    "{}}",
    '{"resourceSpans":{}}',
    '{"resourceSpans":[1]}',
    '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"xyz"}]}]}]}',
    '{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":5}]}]}]}',
    '{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":"soon"}]}]}]}',
    '{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":1.5}]}]}]}',
    '{"a":"\\x"}',
    '{"a":"\\u12"}',
    '{"a":"never ends}',
    '{"a":tru}',
    '{"a" 1}',
    '{"a":[1,]}',
  ])("refuses %s", (text) => {
    expect(() => jsonToProtobuf("traces", bytes(text))).toThrow(MalformedError);
  });

  it("refuses values that are nested too deep, in known and unknown fields", () => {
    const value = `${'{"arrayValue":{"values":['.repeat(200)}${"]}}".repeat(200)}`;
    const known = JSON.stringify(trace({ attributes: [{ key: "k", value: "VALUE" }] })).replace('"VALUE"', value);
    expect(() => jsonToProtobuf("traces", bytes(known))).toThrow(/too deep/);
    expect(() => jsonToProtobuf("traces", bytes(`{"x":${"[".repeat(100_000)}`))).toThrow(/too deep/);
  });

  it("produces a valid request from anything it accepts, and never hangs", () => {
    const random = new SeededRandom(21);
    const samples: Record<OtlpSignal, string> = {
      traces: JSON.stringify(
        trace({ ...ids, name: "n", startTimeUnixNano: "5", attributes: [{ key: "a", value: { stringValue: "\n" } }] }),
      ),
      logs: JSON.stringify({
        resourceLogs: [{ scopeLogs: [{ logRecords: [{ body: { kvlistValue: { values: [] } }, severityNumber: 9 }] }] }],
      }),
      metrics: JSON.stringify({
        resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: "g", gauge: { dataPoints: [{ asInt: "5" }] } }] }] }],
      }),
    };
    const signs = '{}[]",:\\0123456789-.eE nulltruefals';
    for (let round = 0; round < 6_000; round++) {
      const signal = random.pick(["traces", "logs", "metrics"] as const);
      const body = Buffer.from(samples[signal]);
      for (let change = random.below(4); change >= 0; change--)
        body[random.below(body.length)] = signs.charCodeAt(random.below(signs.length));
      try {
        inspectRequest(signal, jsonToProtobuf(signal, body));
      } catch (error) {
        expect(error).toBeInstanceOf(MalformedError);
      }
    }
  });
});
