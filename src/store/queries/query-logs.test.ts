import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type LogsQuery, queryLogPatterns, queryLogs } from "./query-logs.ts";
import { openStoredLogs, type StoredLogs } from "./stored-logs.fixture.ts";

let stored: StoredLogs;
beforeEach(async () => {
  stored = await openStoredLogs();
});
afterEach(() => stored[Symbol.asyncDispose]());

const hourMs = 3_600_000;
const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const query = (more: Partial<LogsQuery> = {}): LogsQuery => ({ sinceMs: hourMs, nowMs: stored.clock.wallMs(), limit: 100, ...more });
const bodies = async (more: Partial<LogsQuery> = {}): Promise<string[]> =>
  (await queryLogs(stored.store, query(more))).rows.map(({ body }) => body);

describe("queryLogs()", () => {
  it("finds records by service, severity, trace, text, regular expression and agent, newest first", async () => {
    await stored.add([
      { agoMs: 50 * 60_000, body: "old error", severity_number: 17 },
      { agoMs: 30_000, body: "Connection REFUSED by 10.0.0.7", severity_number: 17, trace_id: traceId, span_id: "00f067aa0ba902b7" },
      { agoMs: 20_000, body: "hello", severity_number: 9, attributes: JSON.stringify({ "user.name": "Ada" }) },
      { agoMs: 2 * hourMs, body: "too old", severity_number: 21 },
    ]);
    await stored.add([{ agoMs: 10_000, body: "it's from web", service: "web", severity_number: 13 }], "a2");
    expect(await bodies()).toEqual(["it's from web", "hello", "Connection REFUSED by 10.0.0.7", "old error"]);
    expect(await bodies({ service: "web" })).toEqual(["it's from web"]);
    expect(await bodies({ minSeverity: 17 })).toEqual(["Connection REFUSED by 10.0.0.7", "old error"]);
    expect(await bodies({ traceId })).toEqual(["Connection REFUSED by 10.0.0.7"]);
    expect(await bodies({ grep: "connection refused" })).toEqual(["Connection REFUSED by 10.0.0.7"]);
    expect(await bodies({ grep: "ada" })).toEqual(["hello"]);
    expect(await bodies({ grep: "/by \\d+\\.\\d+/" })).toEqual(["Connection REFUSED by 10.0.0.7"]);
    expect(await bodies({ agentIds: ["a2"] })).toEqual(["it's from web"]);
    expect(await bodies({ agentIds: [] })).toEqual([]);
    const { rows } = await queryLogs(stored.store, query({ traceId }));
    expect(rows[0]).toMatchObject({
      agentId: "a1",
      service: "api",
      severity: "error",
      traceId,
      spanId: "00f067aa0ba902b7",
      attributes: null,
    });
  });

  it("returns every record on exactly one page, including records of the same time", async () => {
    const records = Array.from({ length: 95 }, (_, index) => ({ agoMs: Math.floor(index / 10) * 90_000 + 1_000, body: `record ${index}` }));
    await stored.add(records.slice(0, 50));
    await stored.add(records.slice(50), "a2");
    const seen: string[] = [];
    let page: string | undefined;
    let pages = 0;
    do {
      const answer = await queryLogs(stored.store, query({ limit: 7, ...(page === undefined ? {} : { page }) }));
      seen.push(...answer.rows.map(({ body }) => body));
      page = answer.next ?? undefined;
      pages++;
    } while (page !== undefined);
    expect(pages).toBe(14);
    expect(new Set(seen).size).toBe(95);
    expect(seen).toHaveLength(95);
  });

  it("truncates long texts and returns their length", async () => {
    await stored.add([{ agoMs: 1_000, body: "x".repeat(9_000), attributes: JSON.stringify({ long: "y".repeat(3_000) }) }]);
    const { rows } = await queryLogs(stored.store, query());
    expect(rows[0]).toMatchObject({ bodyLength: 9_000, attributes: null });
    expect(rows[0]?.body).toHaveLength(4_000);
  });

  it("lists the services with records when the requested one has none", async () => {
    await stored.add([{ agoMs: 1_000 }, { agoMs: 1_000, service: "web" }]);
    expect(await queryLogs(stored.store, query({ service: "wbe" }))).toEqual({ rows: [], next: null, services: ["api", "web"] });
  });

  it("reports a malformed expression or page token as invalid input", async () => {
    await stored.add([{ agoMs: 1_000 }]);
    await expect(queryLogs(stored.store, query({ grep: "/(/" }))).rejects.toMatchObject({ code: "usage" });
    await expect(queryLogs(stored.store, query({ page: "x" }))).rejects.toMatchObject({ code: "usage" });
  });
});

describe("queryLogPatterns()", () => {
  it("groups records by pattern, with the template, the worst severity and whether it is new", async () => {
    await stored.add([
      { agoMs: 3_000, body: "user 1 in", pattern: "aaaaaaaaaaaa" },
      { agoMs: 2_000, body: "user 2 in", pattern: "aaaaaaaaaaaa", severity_number: 13 },
      { agoMs: 1_000, body: "disk full", pattern: "bbbbbbbbbbbb", severity_number: 17 },
      { agoMs: 1_000, body: "no pattern" },
    ]);
    await stored.addPatterns([
      { agoMs: 5 * hourMs, pattern: "aaaaaaaaaaaa", template: "user <num> in", records: 2, is_new: true },
      { agoMs: 1_000, pattern: "bbbbbbbbbbbb", template: "disk full", is_new: true },
    ]);
    const { rows, total, records } = await queryLogPatterns(stored.store, query({ limit: 2 }));
    expect({ total, records }).toEqual({ total: 3, records: 4 });
    expect(rows).toMatchObject([
      { pattern: "aaaaaaaaaaaa", template: "user <num> in", records: 2, severity: "warn", example: "user 2 in", isNew: false },
      { pattern: "bbbbbbbbbbbb", template: "disk full", records: 1, severity: "error", isNew: true },
    ]);
    expect(await bodies({ pattern: "aaaa" })).toEqual(["user 2 in", "user 1 in"]);
    expect(await bodies({ pattern: "DISK" })).toEqual(["disk full"]);
  });
});
