/**
 * Feeds a million truncated, mutated, spliced and random requests, lines and pages to every parser of OTLP input. None may throw anything but the
 * expected refusal, take long, or leak memory. The decoder accounts for every row that the receiver admits.
 */

import { describe, expect, it } from "vitest";
import { cpuMsOf } from "../../src/base/cpu-time.fixture.ts";
import { SeededRandom } from "../../src/base/seeded-random.fixture.ts";
import { MalformedError } from "../../src/otlp/columns/protobuf-reader.ts";
import { inspectRequest, type OtlpSignal } from "../../src/otlp/decode/inspect-request.ts";
import { LogDecoder } from "../../src/otlp/decode/log-request.ts";
import { decodeMetricRequest } from "../../src/otlp/decode/metric-request.ts";
import { type Field, logRequest, metricRequest, packed, traceRequest, varint } from "../../src/otlp/decode/otlp-encoder.fixture.ts";
import { SpanDecoder } from "../../src/otlp/decode/trace-request.ts";
import { jsonToProtobuf } from "../../src/otlp/json/json-request.ts";
import { parseLogLine } from "../../src/otlp/logs/parse-log-line.ts";
import { parsePrometheusText } from "../../src/otlp/prometheus/prometheus-text.ts";

const mebibyte = 1024 ** 2;
const receivedAtUs = 1_700_000_000_000_000;
/** Inputs of each kind; a million in total. */
const inputs = { spans: 260_000, logs: 180_000, metrics: 180_000, json: 200_000, prometheus: 60_000, lines: 120_000 };
/** Reading the CPU clock costs as much as a small input, so inputs are timed in batches of a few milliseconds. */
const inputsPerBatch = 50;
/** CPU time; an input that takes this long is a hang. */
const maxBatchMs = 1_000;
const maxGrowthBytes = 256 * mebibyte;

const ids = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" };
const span = {
  ...ids,
  parentSpanId: "00f067aa0ba902b7",
  name: "GET /orders/{id}",
  startNs: 1_700_000_000_000_000_000n,
  endNs: 1_700_000_000_001_000_000n,
  attributes: { "http.request.method": "GET", "http.response.status_code": 503n, list: ["a", 1n, [true]], "db.password": "x", ratio: 0.5 },
  events: [{ timeNs: 1_700_000_000_000_500_000n, name: "exception", attributes: { "exception.type": "E" } }],
  links: [{ ...ids, attributes: { a: "b" } }],
};
const resource = { "service.name": "api", "service.version": "1", "process.pid": 7n };
const times: Field[] = [
  [2, "fixed64", 1_700_000_000_000_000_000n],
  [3, "fixed64", 1_700_000_001_000_000_000n],
];
const metric = (kind: number, point: Field[]): Field[] => [
  [1, "text", "m"],
  [
    kind,
    "message",
    [
      [1, "message", [...times, ...point]],
      [2, "varint", 2],
    ],
  ],
];
const bodies: Record<OtlpSignal, Buffer> = {
  traces: traceRequest([{ resource, items: [span, { ...span, spanId: "b7ad6b7169203332" }] }, { items: [span] }]),
  logs: logRequest([
    { resource, items: [{ timeNs: 1_700_000_000_000_000_000n, severity: 17, body: "token=abc failed", attributes: { a: "b" } }] },
  ]),
  metrics: metricRequest([
    {
      resource,
      items: [
        metric(5, [[4, "double", 1.5]]),
        metric(9, [[4, "fixed64", 6n], packed(6, [1, 2, 3], "fixed64"), packed(7, [0.1, 1], "double")]),
        metric(10, [[8, "message", [packed(2, [1, 2], "varint")]]]),
        metric(11, [[6, "message", [[1, "double", 0.5]]]]),
      ],
    },
  ]),
};

/** Truncated, mutated, spliced with itself, with wrong lengths, or random. */
function mutate(random: SeededRandom, body: Buffer): Buffer {
  const changed = Buffer.from(body);
  for (let change = random.below(6); change > 0; change--) changed[random.below(changed.length)] = random.below(256);
  switch (random.below(8)) {
    case 0:
      return changed.subarray(0, random.below(changed.length));
    case 1: {
      const at = random.below(changed.length);
      const from = random.below(changed.length);
      return Buffer.concat([changed.subarray(0, at), changed.subarray(from)]);
    }
    case 2: {
      const at = random.below(changed.length);
      return Buffer.concat([
        changed.subarray(0, at),
        varint(random.pick([0, 1, 127, 128, 2 ** 31, 2 ** 32, 2n ** 63n, 2n ** 64n - 1n])),
        changed.subarray(at),
      ]);
    }
    case 3:
      return Buffer.from(Array.from({ length: random.below(64) }, () => random.below(256)));
    default:
      return changed;
  }
}

/** Runs all inputs and checks time and memory. */
function run(count: number, seed: number, each: (random: SeededRandom) => void): void {
  const random = new SeededRandom(seed);
  const before = process.memoryUsage();
  let slowestMs = 0;
  for (let done = 0; done < count; done += inputsPerBatch) {
    const batchMs = cpuMsOf(() => {
      for (let index = done; index < Math.min(done + inputsPerBatch, count); index++) each(random);
    });
    slowestMs = Math.max(slowestMs, batchMs);
  }
  const after = process.memoryUsage();
  expect(slowestMs).toBeLessThan(maxBatchMs);
  expect(after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers).toBeLessThan(maxGrowthBytes);
}

/** Undefined when the input was refused with the expected error. */
function tried<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof MalformedError) return undefined;
    throw error;
  }
}

/** A plain comparison, because `expect` takes longer than most inputs. */
function expectFast(isTrue: boolean, problem: string): void {
  if (!isTrue) expect.fail(problem);
}

describe("a million broken inputs", () => {
  const decoderOf = { traces: () => new SpanDecoder(), logs: () => new LogDecoder() };

  it.each([
    ["traces", inputs.spans, 1],
    ["logs", inputs.logs, 2],
  ] as const)("of %s", (signal, count, seed) => {
    // Decoders are large, so one decoder handles as many requests as a segment holds.
    let decoder = decoderOf[signal]();
    let requests = 0;
    let accepted = 0;
    run(count, seed, (random) => {
      const body = mutate(random, bodies[signal]);
      const inspection = tried(() => inspectRequest(signal, body));
      const { rows, malformed } = decoder.counts;
      decoder.add(body, receivedAtUs);
      if (inspection) {
        accepted++;
        // Every admitted item becomes a row or is counted as dropped.
        expectFast(decoder.counts.rows + decoder.counts.malformed - rows - malformed === inspection.rows, "lost rows");
        // The receiver validates less than the decoder.
        expectFast(decoder.counts.malformed - malformed >= inspection.rejected, "rejected, but decoded");
      }
      if (++requests % 512 > 0) return;
      expect(decoder.finish().rows).toBe(decoder.counts.rows);
      decoder = decoderOf[signal]();
    });
    // The test would prove little if the receiver refused nearly everything.
    expect(accepted / count).toBeGreaterThan(0.1);
  });

  it("of metrics", () => {
    run(inputs.metrics, 3, (random) => {
      const body = mutate(random, bodies.metrics);
      const inspection = tried(() => inspectRequest("metrics", body));
      const { points } = decodeMetricRequest(body, receivedAtUs);
      if (inspection) expectFast(points.length <= inspection.rows, "more points than inspected");
      for (const point of points) JSON.parse(point.attributes);
    });
  });

  it("of JSON", () => {
    const samples: Record<OtlpSignal, Buffer> = {
      traces: Buffer.from(
        '{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"a\\u00e9"}}]},"scopeSpans":[{"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","name":"n","startTimeUnixNano":"5","attributes":[{"key":"a","value":{"arrayValue":{"values":[{"intValue":"7"},{"doubleValue":1e3}]}}}]}]}]}]}',
      ),
      logs: Buffer.from('{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"kvlistValue":{"values":[]}},"severityNumber":9}]}]}]}'),
      metrics: Buffer.from('{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"g","gauge":{"dataPoints":[{"asInt":"5"}]}}]}]}]}'),
    };
    run(inputs.json, 4, (random) => {
      const signal = random.pick(["traces", "logs", "metrics"] as const);
      const request = tried(() => jsonToProtobuf(signal, mutate(random, samples[signal])));
      if (request) tried(() => inspectRequest(signal, request));
    });
  });

  it("of Prometheus pages", () => {
    const page = Buffer.from(
      '# TYPE h histogram\nh_bucket{le="0.1",path="/a\\"b"} 3\nh_bucket{le="+Inf"} 7\nh_sum 1.5\nh_count 7\n# HELP c x\n# TYPE c counter\nc_total{a="b"} 5 1700000000000\ng NaN\n',
    );
    const source = { service: "s", instance: "i", atUs: receivedAtUs, isOpenMetrics: false, maxSamples: 1_000 };
    run(inputs.prometheus, 5, (random) => {
      parsePrometheusText(mutate(random, page).toString("utf8"), { ...source, isOpenMetrics: random.below(2) === 0 });
    });
  });

  it("of log lines", () => {
    const lines = [
      '{"level":"error","msg":"failed","time":"2026-01-01T00:00:00Z","trace_id":"0af7651916cd43dd8448eb211c80319c"}',
      "2026-01-01T00:00:00.123Z ERROR [main] failed token=abc",
      '127.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 503 12',
      "<11>Jan  1 00:00:00 host app[7]: failed",
    ].map((line) => Buffer.from(line));
    run(inputs.lines, 6, (random) => {
      parseLogLine(mutate(random, random.pick(lines)).toString("utf8"));
    });
  });
});
