import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { MalformedError } from "../columns/protobuf-reader.ts";
import { inspectRequest } from "./inspect-request.ts";
import { type Field, logRequest, message, metricRequest, type TestSpan, traceRequest } from "./otlp-encoder.fixture.ts";
import { SpanDecoder } from "./trace-request.ts";

const span: TestSpan = { traceId: "ab".repeat(16), spanId: "cd".repeat(8), name: "n", startNs: 1n, endNs: 2n };
const gauge = (name: string, points: number): Field[] => [
  [1, "text", name],
  [5, "message", Array.from({ length: points }, (): Field => [1, "message", [[4, "double", 1]]])],
];

describe("inspectRequest()", () => {
  it("counts rows of every kind", () => {
    expect(inspectRequest("traces", traceRequest([{ items: [span, span] }, { items: [span] }]))).toMatchObject({
      rows: 3,
      rejected: 0,
      reason: "",
    });
    expect(inspectRequest("logs", logRequest([{ items: [{ body: "a" }, {}] }]))).toMatchObject({ rows: 2, rejected: 0, reason: "" });
    expect(inspectRequest("metrics", metricRequest([{ items: [gauge("a", 3), gauge("b", 0)] }]))).toMatchObject({
      rows: 3,
      rejected: 0,
      reason: "",
    });
    expect(inspectRequest("traces", new Uint8Array(0))).toMatchObject({ rows: 0, rejected: 0, reason: "" });
  });

  it("reports what will be rejected, and why", () => {
    const items = [span, { ...span, traceId: "00".repeat(16) }, { ...span, spanId: "" }];
    expect(inspectRequest("traces", traceRequest([{ items }]))).toMatchObject({
      rows: 3,
      rejected: 2,
      reason: "a span has no valid trace id",
    });
    expect(inspectRequest("metrics", metricRequest([{ items: [gauge("", 2)] }]))).toMatchObject({
      rows: 2,
      rejected: 2,
      reason: "a metric has no name",
    });
  });

  it.each<[string, Uint8Array]>([
    ["text", Buffer.from("GET / HTTP/1.1")],
    ["a cut request", traceRequest([{ items: [span] }]).subarray(0, 30)],
    ["a malformed resource attribute", message([[1, "message", [[1, "message", [[1, "bytes", Buffer.from([10, 5, 97])]]]]]])],
    ["a span with half a field", message([[1, "message", [[2, "message", [[2, "bytes", Buffer.from([42, 9, 97])]]]]]])],
    ["a length beyond the end", message([[1, "bytes", Buffer.from([18, 100, 1])]])],
  ])("refuses %s", (_name, body) => {
    expect(() => inspectRequest("traces", body)).toThrow(MalformedError);
  });

  it("agrees with the decoder about complete spans", () => {
    const random = new SeededRandom(4);
    for (let round = 0; round < 200; round++) {
      const items = Array.from({ length: random.below(5) }, () => (random.below(4) === 0 ? { ...span, spanId: "00" } : span));
      const body = traceRequest([{ items }]);
      const decoder = new SpanDecoder();
      decoder.add(body, 1);
      const { rows, rejected } = inspectRequest("traces", body);
      expect(decoder.counts).toMatchObject({ rows: rows - rejected, malformed: rejected });
    }
  });
});
