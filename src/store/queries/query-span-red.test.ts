import { statSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { bucketMiddleNs, bucketOf, fineLayout, percentileNs, sparse } from "../../base/latency-histogram.ts";
import { seededRandom } from "../store.fixture.ts";
import { querySpanRed, type SpanRedQuery } from "./query-span-red.ts";
import { openStoredSpans, type SpanValues, type StoredSpans } from "./stored-spans.fixture.ts";

const minuteMs = 60_000;
const startMs = Date.UTC(2026, 0, 1);

const ask = (stored: StoredSpans, query: Partial<SpanRedQuery> = {}) =>
  querySpanRed(stored.store, { startMs, endMs: startMs + minuteMs, by: [], limit: 100, ...query });

/** `count` spans, one per second from `atUs` on. */
function spans(count: number, values: Partial<SpanValues> = {}, first = 0): SpanValues[] {
  return Array.from({ length: count }, (_, index) => ({
    trace: (first + index + 1).toString(16),
    id: (first + index + 1).toString(16),
    atUs: index * 1_000_000,
    kind: "server",
    ...values,
  }));
}

describe("querySpanRed", () => {
  it("counts spans by service and role, with errors, mean and percentiles", async () => {
    await using stored = await openStoredSpans();
    await stored.add([
      ...spans(9, { duration_ns: 1_000_000 }),
      ...spans(1, { duration_ns: 100_000_000, status: "error" }, 50),
      ...spans(4, { kind: "client", duration_ns: 2_000_000 }, 100),
    ]);
    await stored.store.derive();
    const { rows, total, coveredMs } = await ask(stored);
    expect(total).toBe(2);
    expect(coveredMs).toBe(minuteMs);
    // The time before the first span was unobserved.
    expect((await ask(stored, { startMs: startMs - minuteMs })).coveredMs).toBe(minuteMs);
    expect((await ask(stored, { startMs: startMs - 60 * minuteMs })).coveredMs).toBe(minuteMs);
    expect(rows.map(({ role, requests, errors, spans: count }) => [role, requests, errors, count])).toEqual([
      ["server", 10, 1, 10],
      ["client", 4, 0, 4],
    ]);
    expect(rows[0]?.meanUs).toBeCloseTo((9 * 1_000 + 100_000) / 10, 6);
    const middleUs = (ns: number): number => bucketMiddleNs(fineLayout, bucketOf(fineLayout, ns)) / 1_000;
    expect(rows[0]?.p50Us).toBe(middleUs(1_000_000));
    expect(rows[0]?.p99Us).toBe(middleUs(100_000_000));
  });

  it("groups by route, status and version", async () => {
    await using stored = await openStoredSpans();
    const web = { http_method: "GET", http_route: "/a", name: "GET /a" };
    await stored.add([
      ...spans(3, { ...web, http_status_code: 200, service_version: "1" }),
      ...spans(2, { ...web, http_status_code: 503, service_version: "2" }, 10),
      ...spans(1, { rpc_system: "grpc", rpc_service: "shop.Cart", rpc_method: "Add", rpc_status_code: 0 }, 20),
      ...spans(1, { name: "GET /raw", http_method: "GET" }, 30),
    ]);
    await stored.store.derive();
    const { rows } = await ask(stored, { by: ["route", "status", "version"] });
    expect(
      rows.map(({ protocol, method, route, status, version, requests, errors }) => [
        protocol,
        method,
        route,
        status,
        version,
        requests,
        errors,
      ]),
    ).toEqual([
      ["http", "GET", "/a", "200", "1", 3, 0],
      ["http", "GET", "/a", "503", "2", 2, 2],
      ["grpc", "", "shop.Cart/Add", "0", null, 1, 0],
      ["http", "GET", "/raw", "unset", null, 1, 0],
    ]);
    const narrowed = await ask(stored, { by: ["route"], route: "get /A", version: "2" });
    expect(narrowed.rows.map(({ requests, errors }) => [requests, errors])).toEqual([[2, 2]]);
  });

  it("gives the same sums and histograms at every resolution, in any order of arrival", async () => {
    await using stored = await openStoredSpans();
    const random = seededRandom(5);
    const truth = new Float64Array(fineLayout.bucketCount);
    let errors = 0;
    for (let step = 0; step < 6; step++) {
      const batch = Array.from({ length: 400 }, (_, index): SpanValues => {
        const duration = Math.floor(1_000 * 2 ** (random() * 24));
        truth[bucketOf(fineLayout, duration)] = (truth[bucketOf(fineLayout, duration)] ?? 0) + 1;
        const isError = random() < 0.1;
        if (isError) errors++;
        // Includes late spans: any of the last 30 minutes.
        const atUs = Math.floor(random() * 30 * minuteMs * 1_000);
        return {
          trace: `${step}a${index}`,
          id: `${step}b${index}`,
          atUs,
          kind: "server",
          duration_ns: duration,
          status: isError ? "error" : "ok",
        };
      });
      await stored.add(batch, `a${step % 2}`);
      await stored.store.derive();
      if (step % 2 === 0) await stored.store.rollup();
      stored.clock.pass(11 * minuteMs);
    }
    const histogram = sparse(truth);
    for (const [resolution, minutes, by] of [
      ["raw", 30, []],
      ["1m", 60, []],
      ["10m", 240, []],
      ["1m", 40, ["route"]],
      ["10m", 180, ["route"]],
    ] as const) {
      const answer = await ask(stored, { service: "api", endMs: startMs + minutes * minuteMs, by, histograms: true });
      expect(answer.resolution).toBe(resolution);
      const [row] = answer.rows;
      expect([row?.requests, row?.errors, row?.histogram]).toEqual([2_400, errors, histogram]);
      expect(row?.p95Us).toBe((percentileNs(fineLayout, histogram, 0.95) ?? 0) / 1_000);
    }
    const halves = await Promise.all(
      [0, 15].map((minute) =>
        ask(stored, { service: "api", by: ["route"], startMs: startMs + minute * minuteMs, endMs: startMs + (minute + 15) * minuteMs }),
      ),
    );
    expect(halves.map(({ resolution }) => resolution)).toEqual(["raw", "raw"]);
    expect(halves.reduce((sum, { rows }) => sum + (rows[0]?.requests ?? 0), 0)).toBe(2_400);
  });

  it("weights sampled spans, and gives weight 0 to spans that only complete a trace", async () => {
    await using stored = await openStoredSpans();
    await stored.add([
      ...spans(1_000, { weight: 2.5, duration_ns: 1_000_000, atUs: 0 }),
      ...spans(10, { weight: 0, atUs: 0, duration_ns: 9_000_000 }, 5_000),
    ]);
    await stored.store.derive();
    const [row] = (await ask(stored, { histograms: true })).rows;
    expect(row?.requests).toBe(2_500);
    expect(row?.spans).toBe(1_010);
    const counted = row?.histogram?.counts.reduce((sum, count) => sum + count, 0) ?? 0;
    // 1,000 trials; the tolerance is five standard deviations.
    expect(Math.abs(counted - 2_500)).toBeLessThan(80);
    expect(row?.histogram?.counts.length).toBe(1);
  });

  it("merges routes beyond the 200 busiest of a service into one row", async () => {
    await using stored = await openStoredSpans();
    await stored.add([
      ...Array.from({ length: 300 }, (_, index) => spans(1, { name: `job ${index}`, kind: "internal" }, index)).flat(),
      ...spans(5, { name: "job 7", kind: "internal" }, 900),
    ]);
    await stored.store.derive();
    const { rows, total } = await ask(stored, { by: ["route"], limit: 1_000 });
    expect(total).toBe(201);
    expect(rows.find(({ route }) => route === "other")?.requests).toBe(100);
    expect(rows.find(({ route }) => route === "job 7")?.requests).toBe(6);
    expect(rows.reduce((sum, { requests }) => sum + requests, 0)).toBe(305);
  });

  it("counts each segment once, also when run again", async () => {
    await using stored = await openStoredSpans();
    await stored.add(spans(5));
    await Promise.all([stored.store.derive(), stored.store.derive()]);
    await stored.store.derive();
    await stored.add(spans(2, {}, 50), "a2");
    await stored.store.derive();
    expect((await ask(stored)).rows[0]?.requests).toBe(7);
    expect((await ask(stored, { agentIds: ["a2"] })).rows[0]?.requests).toBe(2);
    expect((await ask(stored, { agentIds: [] })).rows).toEqual([]);
  });

  it("skips an unreadable segment, and counts the others", async () => {
    await using stored = await openStoredSpans();
    for (const first of [0, 10, 20]) await stored.add(spans(5, {}, first));
    const { segments } = stored.store;
    const [, damaged] = segments?.entriesOf("span") ?? [];
    const file = damaged ? (segments?.fileOf(damaged) ?? "") : "";
    writeFileSync(file, Buffer.alloc(statSync(file).size, "PAR1"));
    await stored.store.derive();
    expect((await ask(stored)).rows[0]?.requests).toBe(10);
    await stored.add(spans(5, {}, 30));
    await stored.store.derive();
    expect((await ask(stored)).rows[0]?.requests).toBe(15);
  });

  it("returns a series", async () => {
    await using stored = await openStoredSpans();
    await stored.add([...spans(3, { atUs: 5_000_000 }), ...spans(2, { atUs: 35_000_000, status: "error" }, 50)]);
    await stored.store.derive();
    const [row] = (await ask(stored, { points: 6 })).rows;
    expect(row?.points).toEqual([3, 0, 0, 2, 0, 0]);
    expect(row?.errorPoints).toEqual([0, 0, 0, 2, 0, 0]);
  });
});
