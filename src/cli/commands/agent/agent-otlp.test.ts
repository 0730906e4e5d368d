import { describe, expect, it } from "vitest";
import type { AgentOtlpStatus } from "../../../tools/index.ts";
import type { Style } from "../../output/style.ts";
import { otlpLines } from "./agent-otlp.ts";

const plain = ((_name: string, text: string) => text) as Style;
const counts = { requests: 1, rows: 0, rejected: 0, refused: 0, bytes: 10 };
const quiet: AgentOtlpStatus = {
  state: "on",
  reason: null,
  grpc: "127.0.0.1:4317",
  http: "127.0.0.1:4318",
  received: [{ signal: "traces", ...counts }],
  inFlightBytes: 0,
  workers: 0,
  workerRestarts: 0,
  sampling: { share: 1, droppedSpans: 0 },
  forward: null,
};

describe("otlpLines()", () => {
  it("shows the OTLP listeners on one line when nothing is wrong", () => {
    expect(otlpLines(quiet, plain)).toEqual(["  otlp       on, gRPC 127.0.0.1:4317, HTTP 127.0.0.1:4318"]);
  });

  it("shows why the receiver is off", () => {
    expect(otlpLines({ ...quiet, state: "unavailable", reason: "port taken", grpc: null, http: null }, plain)).toEqual([
      "  otlp       unavailable",
      "             port taken",
    ]);
  });

  it("counts what was received, dropped and stored", () => {
    const status: AgentOtlpStatus = {
      ...quiet,
      received: [
        { signal: "traces", ...counts, rows: 1_200, rejected: 3, refused: 2 },
        { signal: "logs", ...counts, rows: 1 },
      ],
      workerRestarts: 1,
      sampling: { share: 0.25, droppedSpans: 900 },
      forward: { endpoint: "http://other:4318", sent: 7, dropped: 1, refused: 0, queuedBytes: 2_048, problem: "connection refused" },
    };
    expect(otlpLines(status, plain).slice(1)).toEqual([
      "             received since start: 1,200 spans, 1 log record",
      "             traces: 3 rejected, 2 requests refused",
      "             sampling keeps 25% of ordinary traces; 900 spans dropped so far",
      "             1 restart of decode threads",
      "             forwarded to http://other:4318: 7 requests, 1 dropped, 0 refused, 2.00 KiB queued",
      "             connection refused",
    ]);
  });
});
