import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { rowsOf } from "../columns/batch-rows.fixture.ts";
import { LogDecoder } from "./log-request.ts";
import { logRequest, type TestLog } from "./otlp-encoder.fixture.ts";

const receivedAtUs = 1_700_000_000_000_000;

function decode(...items: TestLog[]) {
  const decoder = new LogDecoder();
  decoder.add(logRequest([{ resource: { "service.name": "api" }, scope: { name: "logger" }, items }]), receivedAtUs);
  return { rows: rowsOf(decoder.finish()), counts: decoder.counts };
}

const one = (log: TestLog) => decode(log).rows[0] ?? {};

describe("LogDecoder", () => {
  it("keeps all fields of a record", () => {
    const row = one({
      timeNs: 1_700_000_000_123_456_789n,
      observedNs: 1_700_000_001_000_000_000n,
      severity: 17,
      severityText: "ERROR",
      body: "payment failed: é",
      attributes: { "exception.type": "Declined", order: 7n },
      traceId: "0af7651916cd43dd8448eb211c80319c",
      spanId: "b7ad6b7169203331",
      eventName: "payment.failed",
      flags: 1,
      dropped: 3,
    });
    expect(row).toEqual({
      time: 1_700_000_000_123_456n,
      observed_time_us: 1_700_000_001_000_000n,
      service: "api",
      scope_name: "logger",
      severity: "error",
      severity_number: 17,
      severity_text: "ERROR",
      body: "payment failed: é",
      exception_type: "Declined",
      attributes: '{"order":7}',
      trace_id: "0af7651916cd43dd8448eb211c80319c",
      span_id: "b7ad6b7169203331",
      event_name: "payment.failed",
      flags: 1,
      dropped: 3,
      resource: '{"service.name":"api"}',
    });
  });

  it("uses the observed time, else the arrival time, for a record without a time", () => {
    expect(one({ observedNs: 5_000_000n })).toMatchObject({ time: 5_000n, observed_time_us: 5_000n });
    expect(one({})).toMatchObject({ time: BigInt(receivedAtUs), observed_time_us: BigInt(receivedAtUs) });
  });

  it("keeps the order of records with the same time", () => {
    const at = { timeNs: 1_700_000_000_000_000_000n, observedNs: 1_700_000_001_000_000_000n };
    const { rows } = decode(at, { ...at, timeNs: at.timeNs + 1_000n }, at, { ...at, observedNs: at.observedNs + 9_000n }, {}, {});
    const observed = 1_700_000_001_000_000n;
    expect(rows.map((row) => row["observed_time_us"])).toEqual([
      ...[observed, observed + 1n, observed + 2n, observed + 9n],
      ...[BigInt(receivedAtUs), BigInt(receivedAtUs) + 1n],
    ]);
    expect(rows.map((row) => row["time"]).slice(-2)).toEqual([BigInt(receivedAtUs), BigInt(receivedAtUs)]);
  });

  it.each([
    [{ severity: 1 }, "trace", 1],
    [{ severity: 8 }, "debug", 8],
    [{ severity: 9 }, "info", 9],
    [{ severity: 16 }, "warn", 16],
    [{ severity: 24 }, "fatal", 24],
    [{ severity: 99 }, "", 0],
    [{ severityText: "Warning" }, "warn", 13],
    [{ severityText: "CRITICAL" }, "fatal", 21],
    [{ severityText: "whatever" }, "", 0],
    [{}, "", 0],
  ])("reads severity %j", (log, severity, number) => {
    expect(one(log)).toMatchObject({ severity, severity_number: number });
  });

  it.each([
    [{ a: [1n, "b"] }, '{"a":[1,"b"]}'],
    [5n, "5"],
    [true, "true"],
    [null, "null"],
    ["", ""],
  ])("stores body %o as text", (body, text) => {
    expect(one({ body })["body"]).toBe(text);
  });

  it("has no body and no ids if none were sent", () => {
    const row = one({ severity: 9 });
    for (const name of ["body", "trace_id", "span_id", "attributes", "event_name"]) expect(row).not.toHaveProperty(name);
    expect(one({ traceId: "0".repeat(32), spanId: "00" })).not.toHaveProperty("trace_id");
  });

  it("truncates a long body between characters", () => {
    const { rows, counts } = decode({ body: "漢".repeat(30_000) });
    expect(rows[0]?.["body"]).toBe("漢".repeat(21_845));
    expect(counts.cut).toBe(1);
    expect(rows[0]?.["dropped"]).toBe(1);
  });

  it("survives truncated and changed requests", () => {
    const random = new SeededRandom(3);
    const decoder = new LogDecoder();
    const body = logRequest([
      { resource: { "service.name": "a" }, items: [{ body: { a: ["b", { c: 1n }] }, attributes: { k: "v" }, traceId: "ab".repeat(16) }] },
    ]);
    for (let round = 0; round < 5_000; round++) {
      const changed = Buffer.from(body);
      for (let change = random.below(4); change >= 0; change--) changed[random.below(changed.length)] = random.below(256);
      decoder.add(random.below(3) === 0 ? changed.subarray(0, random.below(changed.length)) : changed, receivedAtUs);
    }
    const batch = decoder.finish();
    expect(batch.rows).toBe(decoder.counts.rows);
    expect(decoder.counts.malformed).toBeGreaterThan(100);
    for (const row of rowsOf(batch)) if (row["attributes"] !== undefined) JSON.parse(row["attributes"] as string);
  });
});
