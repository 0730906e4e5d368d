import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bucketMiddleNs, bucketOf, coarseLayout, fineLayout, sparse } from "../../base/latency-histogram.ts";
import { runReadOnlySql } from "../sql/read-only-sql.ts";
import { seededRandom, TestClock } from "../store.fixture.ts";
import { queryEdgeRed } from "./query-edge-red.ts";
import { queryTrafficLosses } from "./query-losses.ts";
import { queryRed, type RedQuery } from "./query-red.ts";
import { redPartsSql, redSumsSql, type SqlWithParameters } from "./red-parts.ts";
import { type MadeRequest, percentileUs, type RedRow, redRowOf } from "./red-rows.fixture.ts";
import { openStoredHosts, type StoredHosts } from "./stored-hosts.fixture.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const clock = new TestClock();
let hosts: StoredHosts;

/** All requests stored by these tests, to compute expected values independently. */
const made: MadeRequest[] = [];

/** Half of each request's duration is queue time, and half is time to the first byte. */
function rowOf(requests: readonly MadeRequest[], more: Partial<RedRow> = {}): RedRow {
  const counts = new Array<number>(coarseLayout.bucketCount).fill(0);
  for (const { durationNs } of requests) counts[bucketOf(coarseLayout, durationNs / 2)]! += 1;
  const half = sparse(counts);
  made.push(...requests);
  return redRowOf(requests, {
    queue_us: Math.round(requests.reduce((sum, { durationNs }) => sum + durationNs / 2_000, 0)),
    queue_samples: requests.length,
    queue_lo: half.lo,
    queue_counts: half.counts,
    first_byte_lo: half.lo,
    first_byte_counts: half.counts,
    ...more,
  });
}

const ask = (more: Partial<RedQuery> = {}) =>
  queryRed(hosts.store, { by: "service", sinceMs: hourMs, nowMs: clock.wall, maxPoints: 0, limit: 100, compare: false, ...more });

beforeAll(async () => {
  hosts = await openStoredHosts(clock);
  const random = seededRandom(3);
  for (let minute = 0; minute < 90; minute++) {
    clock.pass(minuteMs);
    const rows = ["/a", "/b"].flatMap((route) =>
      ["200", "500"].map((status) =>
        rowOf(
          Array.from({ length: 1 + Math.floor(random() * 5) }, () => ({
            atMs: clock.wall,
            service: "shop",
            role: "server",
            route,
            status,
            durationNs: 10 ** (4 + random() * 4),
          })),
        ),
      ),
    );
    await hosts.add(minute % 2 === 0 ? "web-1" : "web-2", { red: rows });
    if (minute % 7 === 0) await hosts.store.rollup();
  }
  // The same requests as observed by their clients.
  await hosts.add("web-3", {
    red: [
      rowOf([{ atMs: clock.wall, service: "cart", role: "client", route: "/a", status: "200", durationNs: 5e6 }], {
        peer: "shop",
        peer_address: "10.0.0.1",
      }),
      rowOf([{ atMs: clock.wall, service: "cart", role: "client", route: "/pay", status: "200", durationNs: 5e6 }], {
        peer: "api.pay.example",
        peer_address: "203.0.113.5",
        server_port: 443,
        is_tls: true,
      }),
    ],
    trafficLoss: [
      { atMs: clock.wall, loss: "ring-full", count: 3 },
      { atMs: clock.wall - 10_000, loss: "ring-full", count: 4 },
    ],
  });
});

afterAll(() => hosts[Symbol.asyncDispose]());

/** Requests of rows whose ten seconds overlap the window by at least half. */
const server = (sinceMs: number, filter: (one: MadeRequest) => boolean = () => true): MadeRequest[] =>
  made.filter((one) => one.role === "server" && one.atMs - 5_000 >= clock.wall - sinceMs && filter(one));

describe("queryRed()", () => {
  it("counts raw rows and computes their percentiles, service by service and role by role", async () => {
    const { rows, total, windowMs, resolution } = await ask({ service: "shop" });
    const wanted = server(hourMs);
    expect([total, resolution]).toEqual([1, "raw"]);
    expect(windowMs).toBe(hourMs);
    expect(rows[0]).toMatchObject({
      service: "shop",
      role: "server",
      protocol: "http",
      isTls: false,
      requests: wanted.length,
      errors: wanted.filter(({ status }) => status === "500").length,
      requestBytes: 10 * wanted.length,
      responseBytes: 100 * wanted.length,
      peer: null,
      route: null,
      before: null,
      points: [],
    });
    expect(rows[0]?.p50Us).toBeCloseTo(percentileUs(wanted, 0.5), 6);
    expect(rows[0]?.p95Us).toBeCloseTo(percentileUs(wanted, 0.95), 6);
    expect(rows[0]?.p99Us).toBeCloseTo(percentileUs(wanted, 0.99), 6);
    expect((rows[0]?.queueMeanUs ?? 0) / (rows[0]?.meanUs ?? 1)).toBeCloseTo(0.5, 3);
    expect((rows[0]?.firstByteP50Us ?? 0) / percentileUs(wanted, 0.5)).toBeCloseTo(0.5, 0);
  });

  it("returns the same at each resolution, including rows not rolled up yet", async () => {
    const [one] = (await ask({ service: "shop", sinceMs: 90 * minuteMs })).rows;
    const all = await ask({ sinceMs: 3 * hourMs });
    expect([(await ask({ service: "shop", sinceMs: 90 * minuteMs })).resolution, all.resolution]).toEqual(["1m", "10m"]);
    expect(one?.requests).toBe(server(90 * minuteMs).length);
    expect(one?.p95Us).toBeCloseTo(percentileUs(server(90 * minuteMs), 0.95), 6);
    const shop = all.rows.find(({ service }) => service === "shop");
    expect(shop?.requests).toBe(server(3 * hourMs).length);
    expect(shop?.p95Us).toBeCloseTo(percentileUs(server(3 * hourMs), 0.95), 6);
    // Fewer minutes were observed than requested.
    expect(all.windowMs).toBeGreaterThan(89 * minuteMs);
    expect(all.windowMs).toBeLessThan(91 * minuteMs);
  });

  it("groups by route and by status, keeps the largest groups and counts all", async () => {
    const routes = await ask({ service: "shop", by: "route" });
    expect(routes.rows.map(({ method, route }) => `${method} ${route}`).sort()).toEqual(["GET /a", "GET /b"]);
    const b = server(hourMs, ({ route }) => route === "/b");
    expect(routes.rows.find(({ route }) => route === "/b")).toMatchObject({ requests: b.length });
    const statuses = await ask({ service: "shop", by: "status", limit: 1 });
    expect([statuses.rows.length, statuses.total]).toEqual([1, 2]);
    const filtered = await ask({ service: "shop", route: "get /B", status: "500" });
    expect(filtered.rows[0]?.requests).toBe(server(hourMs, ({ route, status }) => route === "/b" && status === "500").length);
    expect(filtered.rows[0]?.errors).toBe(filtered.rows[0]?.requests);
  });

  it("names the peer, and filters by peer name and address", async () => {
    const peers = await ask({ service: "cart", by: "peer", role: "client" });
    expect(peers.rows.map(({ peer, isTls }) => [peer, isTls])).toEqual([
      ["api.pay.example", true],
      ["shop", false],
    ]);
    const [both] = (await ask({ service: "cart", by: "service", role: "client" })).rows;
    expect([both?.isTls, both?.requests, both?.tlsRequests]).toEqual([
      true,
      peers.rows.reduce((sum, { requests }) => sum + requests, 0),
      peers.rows[0]?.requests,
    ]);
    expect((await ask({ peer: "api.pay.example" })).rows).toHaveLength(1);
    expect((await ask({ peer: "203.0.113.5" })).rows).toHaveLength(1);
    expect((await ask({ peer: "nobody" })).rows).toEqual([]);
  });

  it("returns a series whose sum is the total", async () => {
    const { rows, bucketMs } = await ask({ service: "shop", maxPoints: 12 });
    const [row] = rows;
    expect(row?.points).toHaveLength(hourMs / bucketMs);
    expect(row?.points.reduce((sum, value) => sum + value, 0)).toBe(row?.requests);
    expect(row?.points.at(-1)).toBe(server(bucketMs).length);
    // The last bucket ends now: rows of its last seconds are not pulled yet.
    expect((await ask({ service: "shop", maxPoints: 12 })).settledPoints).toBe(hourMs / bucketMs - 1);
  });

  it("compares with the period before", async () => {
    const { rows } = await ask({ service: "shop", sinceMs: 30 * minuteMs, compare: true });
    const last = new Set(server(30 * minuteMs));
    const before = server(hourMs).filter((one) => !last.has(one));
    expect(rows[0]?.before).toMatchObject({ requests: before.length, errors: before.filter(({ status }) => status === "500").length });
    expect(rows[0]?.before?.p95Us).toBeCloseTo(percentileUs(before, 0.95), 6);
  });

  it("filters by agent", async () => {
    const { rows } = await ask({ service: "shop", agentIds: ["web-1"] });
    expect(rows[0]?.requests).toBeLessThan(server(hourMs).length);
    expect((await ask({ service: "shop", agentIds: [] })).rows).toEqual([]);
  });
});

describe("redSumsSql()", () => {
  const sumsOf = async ({ sql, parameters }: SqlWithParameters) =>
    await hosts.store.query(
      `SELECT service, route, status, sum(requests) AS requests, sum(duration_us) AS us, sum(list_sum(duration_counts)) AS counted FROM (${sql}) GROUP BY ALL ORDER BY ALL`,
      parameters,
    );

  it.each([10, 45, 60, 75, 89])("sums to the same as one-minute rows, over %i minutes", async (minutes) => {
    const range = {
      startMs: Math.ceil((clock.wall - minutes * minuteMs) / minuteMs) * minuteMs,
      endMs: Number.POSITIVE_INFINITY,
      resolution: "1m" as const,
    };
    const byMinute = await sumsOf(redPartsSql(range, {}, false));
    expect(byMinute.length).toBeGreaterThan(0);
    expect(await sumsOf(redSumsSql(range, clock.wall, {}))).toEqual(byMinute);
  });

  it("reads fewer rows than the one-minute table has", async () => {
    const range = { startMs: clock.wall - hourMs, endMs: Number.POSITIVE_INFINITY, resolution: "1m" as const };
    const rowsOf = async ({ sql, parameters }: SqlWithParameters) =>
      Number((await hosts.store.query(`SELECT count(*) AS n FROM (${sql})`, parameters))[0]?.["n"]);
    expect(await rowsOf(redSumsSql(range, clock.wall, {}))).toBeLessThan(0.7 * (await rowsOf(redPartsSql(range, {}, false))));
  });
});

describe("queryEdgeRed()", () => {
  it("counts each edge once and separates services from external names", async () => {
    const { edges } = await queryEdgeRed(hosts.store, { sinceMs: hourMs, nowMs: clock.wall, service: "cart" });
    expect(edges.map(({ client, server: to, serverPort, requests }) => [client.name, to.kind, to.name, serverPort, requests])).toEqual([
      ["cart", "external", "10.0.0.1", 80, 1],
      ["cart", "external", "203.0.113.5", 443, 1],
    ]);
    expect(edges[0]?.p95Us).toBeCloseTo(bucketMiddleNs(fineLayout, bucketOf(fineLayout, 5e6)) / 1_000, 6);
  });

  it("returns requested edges with the same values as in the full list", async () => {
    const all = await queryEdgeRed(hosts.store, { sinceMs: hourMs, nowMs: clock.wall });
    expect(all.edges.length).toBeGreaterThan(2);
    const ask = async (among: typeof all.edges) => (await queryEdgeRed(hosts.store, { sinceMs: hourMs, nowMs: clock.wall, among })).edges;
    expect(await ask(all.edges)).toEqual(all.edges);
    for (const edge of all.edges) expect(await ask([edge])).toEqual([edge]);
    expect(await ask(all.edges.slice(0, 1).map((edge) => ({ ...edge, serverPort: edge.serverPort + 1 })))).toEqual([]);
    expect(await ask([])).toEqual([]);
  });
});

describe("queryTrafficLosses()", () => {
  it("sums by agent and kind", async () => {
    expect(await queryTrafficLosses(hosts.store, { sinceMs: hourMs, nowMs: clock.wall })).toEqual([
      { agentId: "web-3", loss: "ring-full", count: 7, service: null, detail: null },
    ]);
    expect(await queryTrafficLosses(hosts.store, { sinceMs: hourMs, nowMs: clock.wall, agentIds: ["web-1"] })).toEqual([]);
  });
});

describe("red_latencies", () => {
  const run = async (sql: string) => (await runReadOnlySql(hosts.store, { sql, maxRows: 10, maxBytes: 100_000, timeoutMs: 10_000 })).rows;

  it("supports percentiles in SQL as documented in docs/traffic.md", async () => {
    const rows = await run(
      `WITH summed AS (SELECT service, us, sum(requests) AS requests FROM red_latencies WHERE part = 'duration' AND role = 'server' GROUP BY ALL),
         ranked AS (
           SELECT *, sum(requests) OVER (PARTITION BY service ORDER BY us) AS up_to, sum(requests) OVER (PARTITION BY service) AS total FROM summed
         )
       SELECT service, min(us) FILTER (up_to >= 0.95 * total) AS p95_us FROM ranked GROUP BY service`,
    );
    expect(rows[0]?.[0]).toBe("shop");
    expect(rows[0]?.[1]).toBeCloseTo(percentileUs(server(10 * hourMs), 0.95), 6);
  });

  it("contains every request once, rolled up or not", async () => {
    expect(await run("SELECT part, sum(requests) FROM red_latencies WHERE role = 'server' GROUP BY part ORDER BY part")).toEqual(
      ["duration", "first_byte", "queue"].map((part) => [part, server(10 * hourMs).length]),
    );
  });
});
