import { describe, expect, it, vi } from "vitest";
import type { LogFact } from "../../model/logs.ts";
import { colonyTools } from "../colony-tools.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { findTool } from "../contract/tool-list.ts";
import { colonyOf, context } from "../sample-colony.fixture.ts";
import type { Answer } from "../schemas/completeness.ts";
import type { LogResult } from "../schemas/logs.ts";

async function call(input: unknown, colony: Partial<ColonyBackend> = {}): Promise<Answer<LogResult>> {
  return (await findTool(colonyTools, "coral_query_logs", "read").call(colonyOf(colony), input, context)) as Answer<LogResult>;
}

const fact = (more: Partial<LogFact> = {}): LogFact => ({
  at: "2026-01-01T00:00:00.000Z",
  service: "api",
  agentId: "web-1",
  severity: "error",
  severityText: null,
  body: "broken",
  bodyLength: 6,
  traceId: null,
  spanId: null,
  eventName: null,
  exceptionType: null,
  pattern: null,
  attributes: null,
  ...more,
});

describe("coral_query_logs", () => {
  it("passes the filters on and notes how to get the rest", async () => {
    const logs = vi.fn<ColonyBackend["logs"]>(async () => ({ rows: [fact({ attributes: '{"a":1}' })], next: "17-1", services: [] }));
    const answer = await call(
      { service: "api", level: "warn", traceId: "4BF92F3577B34DA6A3CE929D0E0E4736", limit: 1, agent: "web-1" },
      { logs },
    );
    expect(logs.mock.calls[0]?.[0]).toEqual({
      service: "api",
      minSeverity: 13,
      traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
      limit: 1,
      sinceMs: 900_000,
      agentIds: ["web-1"],
    });
    expect(answer.records[0]).toMatchObject({ body: "broken", isCut: false, attributes: { a: 1 } });
    expect(answer.next).toBe("17-1");
    expect(answer.completeness.notes).toMatchObject([{ kind: "limit", message: expect.stringContaining("page 17-1") }]);
  });

  it("bounds the answer and notes truncation", async () => {
    const rows = Array.from({ length: 100 }, () => fact({ body: "x".repeat(4_000), bodyLength: 5_000 }));
    const answer = await call({ limit: 100 }, { logs: async () => ({ rows, next: null, services: [] }) });
    expect(JSON.stringify(answer).length).toBeLessThan(300_000);
    expect(answer.records).toHaveLength(100);
    expect(answer.completeness.notes).toMatchObject([{ kind: "limit" }]);
  });

  it("does not report a service as unknown that was only idle in the window", async () => {
    const logs = vi.fn<ColonyBackend["logs"]>(async ({ sinceMs }) => ({
      rows: sinceMs > 60_000 ? [fact()] : [],
      next: null,
      services: [],
    }));
    expect((await call({ service: "nightly", since: "1m" }, { logs })).records).toEqual([]);
  });

  it("resolves the only similar name, and fails for an unknown one", async () => {
    const logs = vi.fn<ColonyBackend["logs"]>(async ({ service }) =>
      service === "checkout" ? { rows: [fact()], next: null, services: [] } : { rows: [], next: null, services: ["checkout", "web"] },
    );
    expect((await call({ service: "Check" }, { logs })).records).toHaveLength(1);
    await expect(call({ service: "nothing" }, { logs })).rejects.toMatchObject({ code: "not-found" });
  });

  it("groups by pattern with rates", async () => {
    const row = {
      service: "api",
      pattern: "aaaaaaaaaaaa",
      template: "user <num>",
      severity: "info",
      records: 30,
      isNew: true,
      example: "user 7",
    };
    const times = { firstAt: "2026-01-01T00:00:00.000Z", lastAt: "2026-01-01T00:01:00.000Z" };
    const logPatterns = async () => ({ rows: [{ ...row, ...times }], total: 3, records: 40, services: [] });
    const answer = await call({ by: "pattern" }, { logPatterns });
    expect(answer.patterns[0]).toMatchObject({ pattern: "aaaaaaaaaaaa", perMinute: 2, isNew: true });
    expect(answer.completeness.notes[0]?.message).toContain("1 of 3 patterns of 40 records");
  });

  it("notes lost records", async () => {
    const at = "2026-01-01T00:00:00.000Z";
    const losses = vi.fn<ColonyBackend["losses"]>(async () => [{ agentId: "web-1", signal: "log", rows: 7, reason: "pruned", at }]);
    const answer = await call({}, { losses });
    expect(answer.completeness).toMatchObject({ complete: false, notes: [{ kind: "rows-lost", rows: 7 }] });
    expect(losses).toHaveBeenCalledWith(expect.objectContaining({ signals: ["log"] }), expect.anything());
  });
});
