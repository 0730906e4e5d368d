import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { seededRandom, TestClock } from "../../store.fixture.ts";
import { isError, type MadeRequest, percentileUs, type RedRow, redRowOf } from "../red-rows.fixture.ts";
import { openStoredHosts, type StoredHosts } from "../stored-hosts.fixture.ts";
import { BaselineCache } from "./baseline-cache.ts";
import { queryServiceDetails } from "./query-service-details.ts";
import { querySummary } from "./query-summary.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const clock = new TestClock();
let hosts: StoredHosts;

/** All requests stored by these tests, to compute expected values independently. */
const made: MadeRequest[] = [];

function rowOf(requests: readonly MadeRequest[], more: Partial<RedRow> = {}): RedRow {
  made.push(...requests);
  return redRowOf(requests, { peer: "someone", ...more });
}

beforeAll(async () => {
  hosts = await openStoredHosts(clock);
  const random = seededRandom(11);
  const minutes = 26 * 60 + 7;
  const waiting: RedRow[] = [];
  for (let minute = 0; minute < minutes; minute++) {
    clock.pass(minuteMs);
    const isIll = minute >= minutes - 12;
    const many = (service: string, role: string, route: string, count: number, status = "200"): MadeRequest[] =>
      Array.from({ length: count }, () => ({
        atMs: clock.wall,
        service,
        role,
        route,
        status,
        durationNs: (isIll ? 4e7 : 1e7) * (0.5 + random()),
      }));
    const rows = [
      rowOf(many("shop", "server", "/a", 8)),
      rowOf(many("shop", "server", "/b", 4)),
      rowOf(many("shop", "client", "SELECT 1", 6), { peer: "db", peer_address: "127.0.0.1", method: "SELECT" }),
      ...(isIll ? [rowOf(many("shop", "server", "/a", 3, "500"))] : []),
      rowOf(many("other", "server", "/x", 1)),
    ];
    waiting.push(...rows);
    // Mimics pulls and roll-ups: the last rows are not rolled up.
    if (minute % 30 !== 29 && minute < minutes - 10) continue;
    await hosts.add("web-1", {
      red: waiting.splice(0),
      host: [{ atMs: clock.wall, cpu_busy_ratio: 0.5, mem_total_bytes: 100, mem_available_bytes: 40 }],
    });
    if (minute % 10 === 9) await hosts.store.rollup();
  }
}, 300_000);

afterAll(async () => {
  await hosts[Symbol.asyncDispose]();
});

const between = (fromMs: number, untilMs: number, service = "shop", role = "server"): MadeRequest[] =>
  made.filter((one) => one.service === service && one.role === role && one.atMs >= fromMs && one.atMs < untilMs);

const ask = (more: { service?: string; sinceMs?: number } = {}) =>
  querySummary(hosts.store, { sinceMs: 5 * minuteMs, nowMs: clock.wall, ...more });

describe("querySummary()", () => {
  it("counts now, the hour before and the same hour of yesterday", async () => {
    const { requests, startMs } = await ask();
    expect(startMs).toBe(Math.floor((clock.wall - 5 * minuteMs) / minuteMs) * minuteMs);
    const endMs = Math.floor((startMs - 10 * minuteMs) / (10 * minuteMs)) * 10 * minuteMs;
    const middleMs = Math.floor((clock.wall - 24 * hourMs - 2.5 * minuteMs) / (10 * minuteMs)) * 10 * minuteMs;
    const truth = {
      now: between(startMs, Number.POSITIVE_INFINITY),
      before: between(endMs - hourMs, endMs),
      yesterday: between(middleMs - hourMs / 2, middleMs + hourMs / 2),
    };
    for (const [period, wanted] of Object.entries(truth)) {
      const row = requests.find((one) => one.period === period && one.service === "shop" && one.role === "server");
      expect(row, period).toMatchObject({
        source: "hooks",
        requests: wanted.length,
        errors: wanted.filter(isError).length,
      });
      expect(row?.p95Us, period).toBeCloseTo(percentileUs(wanted, 0.95), 6);
    }
    expect(truth.now.length).toBeGreaterThan(70);
    expect(truth.before.some(isError)).toBe(false);
    expect(requests.filter(({ service, period }) => service === "other" && period === "now")).toHaveLength(1);
  });

  it("returns the same for one service as for all, and again from the cache", async () => {
    const all = await ask();
    const one = await ask({ service: "shop" });
    const ofShop = (rows: typeof all.requests): string[] =>
      rows
        .filter(({ service }) => service === "shop")
        .map((row) => JSON.stringify(row))
        .sort();
    expect(ofShop(one.requests)).toEqual(ofShop(all.requests));
    expect(one.requests.every(({ service }) => service === "shop")).toBe(true);
    const cache = new BaselineCache();
    const query = { sinceMs: 5 * minuteMs, nowMs: clock.wall };
    const [first, second] = [await querySummary(hosts.store, query, cache), await querySummary(hosts.store, query, cache)];
    expect(ofShop(second.requests)).toEqual(ofShop(first.requests));
    expect(ofShop(second.requests)).toEqual(ofShop(all.requests));
  });

  it("returns each route with its baselines, and the last windows of those that differ", async () => {
    const { routes } = await ask();
    const find = (service: string, route: string) => routes.find((one) => one.service === service && one.route === route);
    const sick = find("shop", "/a");
    expect(sick?.before).toMatchObject({
      isSettled: true,
      requests: 480,
      errors: 0,
      windows: 6,
      windowsExpected: 6,
      minRequests: 80,
      errorRatio: 0,
    });
    expect(sick?.before?.p95Us).toBeLessThan(16_000);
    expect(sick?.yesterday?.windows).toBe(6);
    expect(sick?.cells.map(({ requests, errors }) => `${errors} of ${requests}`)).toEqual(new Array(6).fill("3 of 11"));
    expect(sick?.cells.map(({ endMs }) => endMs)).toEqual([...(sick?.cells ?? [])].map(({ endMs }) => endMs).sort((a, b) => b - a));
    // Both baselines are 10 ms at one request a minute: slower now, but nothing fails.
    expect(find("other", "/x")?.cells.length).toBeGreaterThan(0);
    expect(routes.every(({ cells }) => cells.every(({ durations }) => durations.counts.length > 0))).toBe(true);
  });

  it("returns the calls of services that differ, now and before", async () => {
    const { calls } = await ask();
    expect(calls).toMatchObject([
      { service: "shop", callee: "db", now: { requests: 12, errors: 0 }, before: { requests: 180, errors: 0 } },
    ]);
  });

  it("covers a longer window when requested", async () => {
    const { requests, startMs } = await ask({ sinceMs: 2 * hourMs });
    const now = requests.find(({ period, service, role }) => period === "now" && service === "shop" && role === "server");
    expect(now?.requests).toBe(between(startMs, Number.POSITIVE_INFINITY).length);
    expect(now?.coveredMs).toBeGreaterThan(1.9 * hourMs);
  });

  it("returns the load of hosts, and nothing without samples", async () => {
    const { hosts: load, cgroups, patterns, events } = await ask({ sinceMs: 15 * minuteMs });
    expect(load).toMatchObject([{ agentId: "web-1", cpuBusyRatio: 0.5, memUsedRatio: expect.closeTo(0.6, 6) }]);
    expect([cgroups, patterns, events]).toEqual([[], [], []]);
  });
});

describe("queryServiceDetails()", () => {
  it("returns routes, peers and the time series", async () => {
    const details = await queryServiceDetails(hosts.store, { service: "shop", source: "hooks", sinceMs: 5 * minuteMs, nowMs: clock.wall });
    const startMs = Math.floor((clock.wall - 5 * minuteMs) / minuteMs) * minuteMs;
    const now = between(startMs, Number.POSITIVE_INFINITY);
    expect(
      details.routes
        .filter(({ period, role }) => period === "now" && role === "server")
        .map(({ route, requests, errors }) => ({ route, requests, errors })),
    ).toEqual([
      { route: "/a", requests: now.filter(({ route }) => route === "/a").length, errors: now.filter(isError).length },
      { route: "/b", requests: now.filter(({ route }) => route === "/b").length, errors: 0 },
    ]);
    expect(details.peers.map(({ period, role, peer }) => `${period} ${role} ${peer}`).sort()).toEqual([
      "before client db",
      "before server someone",
      "now client db",
      "now server someone",
    ]);
    const { course } = details;
    expect(course.requests).toHaveLength(65);
    const inCourse = between(course.startMs, course.startMs + 65 * minuteMs);
    expect(course.requests.reduce((sum, count) => sum + count, 0)).toBe(inCourse.length);
    expect(course.errors.reduce((sum, count) => sum + count, 0)).toBe(inCourse.filter(isError).length);
    const ill = course.p95Us.findIndex((us) => (us ?? 0) > 25_000);
    expect(course.startMs + ill * minuteMs).toBe(Math.floor((clock.wall - 11 * minuteMs) / minuteMs) * minuteMs);
  });

  it("returns nothing for an unknown service", async () => {
    const details = await queryServiceDetails(hosts.store, {
      service: "nobody",
      source: "hooks",
      sinceMs: 5 * minuteMs,
      nowMs: clock.wall,
    });
    expect(details).toMatchObject({ routes: [], peers: [], load: [] });
    expect(details.course.requests.every((count) => count === 0)).toBe(true);
  });
});

describe("querySummary() of a young service", () => {
  it("compares a service younger than an hour with its first minutes", async () => {
    const startMs = clock.wall + 200 * minuteMs;
    const rowsOf = (service: string, illFrom: number): RedRow[] =>
      Array.from({ length: 60 }, (_, index): RedRow => {
        const [atMs, status] = [startMs + index * 10_000, index >= illFrom ? "500" : "200"];
        const one: MadeRequest = { atMs, service, role: "server", route: "/f", status, durationNs: 1e7 };
        return redRowOf(Array.from({ length: 20 }, () => one));
      });
    await hosts.add("web-2", { red: [...rowsOf("fresh", 54), ...rowsOf("broken", 4)] });
    const { routes } = await querySummary(hosts.store, { sinceMs: 5 * minuteMs, nowMs: startMs + 595_000 });
    const fresh = routes.find(({ service }) => service === "fresh");
    expect(fresh).toMatchObject({ yesterday: null, before: { isSettled: false, errorRatio: 0 } });
    expect(fresh?.before?.windows).toBeGreaterThan(5);
    // It was healthy for 40 seconds, and has failed for nine minutes since.
    const broken = routes.find(({ service }) => service === "broken");
    expect(broken).toMatchObject({ before: { isSettled: false, requests: 80, errorRatio: 0 } });
    expect(fresh?.cells.slice(0, 7).map(({ errors }) => errors)).toEqual([20, 20, 20, 20, 20, 20, 0]);
  });

  it("ignores a sparse window at the edge of observation when computing baselines", async () => {
    const startMs = Math.ceil((clock.wall + 400 * minuteMs) / (10 * minuteMs)) * 10 * minuteMs;
    const sent = (atMs: number, count: number, durationNs: number): RedRow =>
      redRowOf(
        Array.from(
          { length: count },
          (): MadeRequest => ({ atMs, service: "edge", role: "server", route: "/e", status: "200", durationNs }),
        ),
      );
    // One fast request just before a window's end, then a full window of slower ones. One full window is not enough for a baseline.
    await hosts.add("web-3", {
      red: [sent(startMs - 5_000, 1, 1e6), sent(startMs + minuteMs, 40, 3e7), sent(startMs + 28 * minuteMs, 20, 3e7)],
    });
    const ofEdge = async (nowMs: number) =>
      (await querySummary(hosts.store, { sinceMs: 5 * minuteMs, nowMs })).routes.find(({ service }) => service === "edge")?.before;
    expect(await ofEdge(startMs + 29 * minuteMs)).toBeNull();
    await hosts.add("web-3", { red: [sent(startMs + 11 * minuteMs, 40, 3e7), sent(startMs + 38 * minuteMs, 20, 3e7)] });
    const before = await ofEdge(startMs + 39 * minuteMs);
    expect(before).toMatchObject({ isSettled: true, windows: 3 });
    expect(before?.p95Us).toBeGreaterThan(25_000);
  });
});
