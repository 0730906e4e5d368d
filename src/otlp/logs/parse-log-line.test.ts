import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { parseLogLine } from "./parse-log-line.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const spanId = "00f067aa0ba902b7";
const us = (iso: string): number => Date.parse(iso) * 1_000;

describe("parseLogLine()", () => {
  it.each([
    ["2026-11-15T09:44:41.123Z ERROR it broke", { timeUs: us("2026-11-15T09:44:41.123Z"), severityNumber: 17, severityText: "ERROR" }],
    ["2026-11-15 09:44:41,5 [main] WARN  Foo - slow", { severityNumber: 13 }],
    ["[2026-11-15T09:44:41+02:00] [info] hello", { timeUs: us("2026-11-15T07:44:41Z"), severityNumber: 9, severityText: "info" }],
    [
      "2026-11-15T09:44:41Z INFO handled\njava.lang.Error: ERROR\n\tat a.B",
      {
        timeUs: us("2026-11-15T09:44:41Z"),
        severityNumber: 9,
        body: "2026-11-15T09:44:41Z INFO handled\njava.lang.Error: ERROR\n\tat a.B",
      },
    ],
    ["Traceback (most recent call last):\n  ERROR", { severityNumber: 0 }],
    ["no error at all", { timeUs: null, severityNumber: 0, severityText: "" }],
    ['ts=2026-01-02T03:04:05.678Z level=warn msg="x"', { timeUs: 1_767_323_045_678_000, severityNumber: 13 }],
    ['msg="x" time="2026-01-02 03:04:05Z"', { timeUs: 1_767_323_045_000_000 }],
    ["level=info ts=1767323045.5 msg=x", { timeUs: 1_767_323_045_500_000 }],
    ["it took time=5 of them", { timeUs: null }],
    ["2026/01/02 03:04:05Z [error] 7#7: *1 connect() failed", { timeUs: 1_767_323_045_000_000, severityNumber: 17 }],
    [`level=error msg="x" trace_id=${traceId} span_id=${spanId}`, { severityNumber: 17, traceId, spanId }],
    [`{"level":"warn","msg":"slow","time":"2026-11-15T09:44:41Z","ms":7}`, { severityNumber: 13, body: "slow", attributes: { ms: "7" } }],
    ['{"level":50,"time":1767225600000,"msg":"pino"}', { severityNumber: 17, body: "pino", timeUs: 1_767_225_600_000_000 }],
    [
      `{"severity":"CRITICAL","message":"m","ts":1767225600.5,"traceId":"${traceId.toUpperCase()}"}`,
      { severityNumber: 21, traceId, timeUs: 1_767_225_600_500_000 },
    ],
    ['{"a":1}', { body: '{"a":1}', attributes: {} }],
    ["{not json", { body: "{not json" }],
    ['{"msg":"x","trace_id":"00000000000000000000000000000000"}', { traceId: null }],
  ])("reads %j", (line, expected) => {
    expect(parseLogLine(line)).toMatchObject(expected);
  });

  it("accepts any text", () => {
    const random = new SeededRandom(11);
    const pieces = [
      "{",
      "}",
      '"',
      ":",
      "level",
      "time",
      "1e999",
      "null",
      "[",
      "ERROR",
      "2026-99-99T99:99:99Z",
      "trace_id=",
      "\u0000",
      "é",
      " ",
      ",",
    ];
    for (let round = 0; round < 20_000; round++) {
      const line = Array.from({ length: random.below(12) }, () => pieces[random.below(pieces.length)]).join("");
      const { timeUs, severityNumber } = parseLogLine(line);
      expect(timeUs === null || Number.isFinite(timeUs)).toBe(true);
      expect(severityNumber).toBeLessThanOrEqual(24);
    }
  });
});
