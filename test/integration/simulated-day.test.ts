/**
 * Sends a day of known traffic through the real stores of an agent and a colony, with a clock that runs a thousand times faster: with restarts of both
 * ends, hours without a connection, duplicate requests, responses applied twice, spans that are an hour late, roll-ups and retention. Query results
 * must then match the known traffic: counts exactly, percentiles within half a histogram bucket.
 */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bucketOf, fineLayout, sparse } from "../../src/base/latency-histogram.ts";
import { SeededRandom } from "../../src/base/seeded-random.fixture.ts";
import type { RedFact } from "../../src/model/red.ts";
import { type Field, logRequest, metricRequest, packed, type TestSpan, traceRequest } from "../../src/otlp/decode/otlp-encoder.fixture.ts";
import { queryLogPatterns, queryMetric, queryRed, querySpanEdges, querySpanRed, queryTraces } from "../../src/store/queries/index.ts";
import { type RowOf, red } from "../../src/store/signals/index.ts";
import { temporaryFolder } from "../../src/store/store.fixture.ts";
import { SimulatedWorld } from "../support/simulated-world.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const minutes = 24 * 60;
/** One batch to send. */
const stepMinutes = 3;
const stepMs = stepMinutes * minuteMs;
/** Half a bucket at 16 buckets per octave, and the distance between two known values. */
const percentileError = 0.035;
const bounds = [1, 2, 5, 10, 20, 50, 100, 200, 500];

interface KnownRequest {
  atMs: number;
  service: string;
  route: string;
  durationMs: number;
  isError: boolean;
}

/** The known traffic. */
const truth = {
  requests: [] as KnownRequest[],
  logs: [] as { atMs: number; isError: boolean }[],
  orders: [] as { atMs: number; amount: number }[],
};
let world: SimulatedWorld;
let folder: ReturnType<typeof temporaryFolder>;
let startMs: number;
let endMs: number;

const random = new SeededRandom(2026);
const unit = (): number => (random.word() + 1) / (2 ** 32 + 1);
/** Log-normal around `medianMs`, with a long tail. */
const latencyMs = (medianMs: number): number =>
  medianMs * Math.exp(0.6 * Math.sqrt(-2 * Math.log(unit())) * Math.cos(2 * Math.PI * unit()));
const hexId = (bytes: number): string => Array.from({ length: bytes / 4 }, () => random.word().toString(16).padStart(8, "0")).join("");
const routes = [
  { route: "/orders/{id}", medianMs: 12, errorShare: 0.02 },
  { route: "/cart", medianMs: 4, errorShare: 0.005 },
];

/** One request to `web`, which calls `api`: two services, one trace. */
function makeTrace(atMs: number): { web: KnownRequest; api: KnownRequest; spans: { web: TestSpan[]; api: TestSpan[] } } {
  const { route, medianMs, errorShare } = random.pick(routes);
  const isError = unit() < errorShare;
  const inner = Math.max(0.01, latencyMs(medianMs));
  const durationMs = inner + Math.max(0.01, latencyMs(2));
  const ids = { traceId: hexId(16), server: hexId(8), client: hexId(8), called: hexId(8) };
  const ns = (ms: number): bigint => BigInt(Math.round(ms * 1e6));
  const span = (id: string, parentSpanId: string | undefined, kind: number, offsetMs: number, lengthMs: number): TestSpan => ({
    traceId: ids.traceId,
    spanId: id,
    ...(parentSpanId === undefined ? {} : { parentSpanId }),
    name: `GET ${route}`,
    kind,
    startNs: BigInt(atMs) * 1_000_000n + ns(offsetMs),
    endNs: BigInt(atMs) * 1_000_000n + ns(offsetMs) + ns(lengthMs),
    attributes: { "http.request.method": "GET", "http.route": route, "http.response.status_code": isError ? 500n : 200n },
    ...(isError ? { status: { code: 2 } } : {}),
  });
  return {
    web: { atMs, service: "web", route, durationMs, isError },
    api: { atMs, service: "api", route, durationMs: inner, isError },
    spans: {
      web: [span(ids.server, undefined, 2, 0, durationMs), span(ids.client, ids.server, 3, 0.001, inner + 0.002)],
      api: [span(ids.called, ids.client, 2, 0.002, inner)],
    },
  };
}

/** The rows that BPF programs would report for these requests, in windows of ten seconds. */
function redRows(requests: readonly KnownRequest[]): RowOf<typeof red.columns>[] {
  const groups = new Map<string, KnownRequest[]>();
  for (const request of requests) {
    const key = `${Math.floor(request.atMs / 10_000)} ${request.service} ${request.route} ${request.isError}`;
    groups.set(key, [...(groups.get(key) ?? []), request]);
  }
  return [...groups.values()].map((group) => {
    const [first] = group as [KnownRequest];
    const counts = new Array<number>(fineLayout.bucketCount).fill(0);
    for (const { durationMs } of group) {
      const bucket = bucketOf(fineLayout, durationMs * 1e6);
      counts[bucket] = (counts[bucket] ?? 0) + 1;
    }
    const duration = sparse(counts);
    const windowEndMs = (Math.floor(first.atMs / 10_000) + 1) * 10_000;
    return {
      at: windowEndMs * 1_000,
      mono_ms: windowEndMs - startMs,
      service: first.service,
      role: "server",
      protocol: "http",
      is_tls: false,
      server_port: 80,
      peer_address: "10.0.0.9",
      peer: null,
      method: "GET",
      route: first.route,
      status: first.isError ? "500" : "200",
      is_error: first.isError,
      window_ms: 10_000,
      requests: group.length,
      request_bytes: group.length * 100,
      response_bytes: group.length * 200,
      duration_us: Math.round(group.reduce((sum, { durationMs }) => sum + durationMs * 1_000, 0)),
      queue_us: 0,
      queue_samples: 0,
      duration_lo: duration.lo,
      duration_counts: duration.counts,
      queue_lo: 0,
      queue_counts: [],
      first_byte_lo: 0,
      first_byte_counts: [],
    };
  });
}

/** A program with cumulative counters, which is restarted now and then, and a delta histogram. */
class Shop {
  #startedMs: number;
  #total = 0;
  #toldMs: number;

  constructor(atMs: number) {
    this.#startedMs = atMs;
    this.#toldMs = atMs;
  }

  request(atMs: number, amount: number, waits: readonly number[]): Buffer {
    this.#total += amount;
    const times = (fromMs: number): Field[] => [
      [2, "fixed64", BigInt(fromMs) * 1_000_000n],
      [3, "fixed64", BigInt(atMs) * 1_000_000n],
    ];
    const counts = [...bounds, Number.POSITIVE_INFINITY].map(
      (bound, index) => waits.filter((wait) => wait <= bound && wait > (bounds[index - 1] ?? -1)).length,
    );
    const point: Field[] = [
      ...times(this.#toldMs),
      [4, "fixed64", BigInt(waits.length)],
      [5, "double", waits.reduce((sum, wait) => sum + wait, 0)],
      packed(6, counts, "fixed64"),
      packed(7, bounds, "double"),
    ];
    this.#toldMs = atMs;
    return metricRequest([
      {
        resource: { "service.name": "shop" },
        items: [
          [
            [1, "text", "shop.orders"],
            [
              7,
              "message",
              [
                [1, "message", [...times(this.#startedMs), [4, "double", this.#total]]],
                [2, "varint", 2],
                [3, "varint", 1],
              ],
            ],
          ],
          [
            [1, "text", "shop.wait"],
            [3, "text", "ms"],
            [
              9,
              "message",
              [
                [1, "message", point],
                [2, "varint", 1],
              ],
            ],
          ],
        ],
      },
    ]);
  }
}

const waits: { atMs: number; ms: number }[] = [];

/** Sends a batch, and repeats one in fifty, like a sender whose request timed out. */
async function send(signal: "traces" | "logs" | "metrics", body: Buffer): Promise<void> {
  await world.send(signal, body);
  if (random.below(50) === 0) await world.send(signal, Buffer.from(body));
}

async function sendSpans(traces: readonly ReturnType<typeof makeTrace>[]): Promise<void> {
  if (traces.length === 0) return;
  for (const service of ["web", "api"] as const) {
    const items = traces.flatMap(({ spans }) => spans[service]);
    await send("traces", traceRequest([{ resource: { "service.name": service }, items }]));
  }
}

beforeAll(async () => {
  folder = temporaryFolder();
  world = await SimulatedWorld.open(folder.path);
  startMs = world.clock.wallMs();
  let shop = new Shop(startMs);
  let late: { dueMinute: number; trace: ReturnType<typeof makeTrace> }[] = [];
  for (let minute = 0; minute < minutes; minute += stepMinutes) {
    const stepStartMs = startMs + minute * minuteMs;
    // The rate varies over the day, from 4 to 24 requests a minute.
    const count = Math.round(stepMinutes * (14 - 10 * Math.cos((2 * Math.PI * minute) / minutes)));
    const traces = Array.from({ length: count }, () => makeTrace(stepStartMs + random.below(stepMs)));
    for (const { web, api } of traces) truth.requests.push(web, api);
    world.clock.pass(stepMs);
    await world.agent.append(red, redRows(traces.flatMap(({ web, api }) => [web, api])));
    const isLate = traces.map(() => random.below(30) === 0);
    late.push(...traces.filter((_, index) => isLate[index]).map((trace) => ({ dueMinute: minute + 20 + random.below(60), trace })));
    await sendSpans([
      ...traces.filter((_, index) => !isLate[index]),
      ...late.filter(({ dueMinute }) => dueMinute <= minute || minute === minutes - stepMinutes).map(({ trace }) => trace),
    ]);
    late = late.filter(({ dueMinute }) => dueMinute > minute);
    const records = traces.map(({ web }) => ({ atMs: web.atMs, isError: web.isError }));
    truth.logs.push(...records);
    const items = records.map(({ atMs, isError }, index) => ({
      timeNs: BigInt(atMs) * 1_000_000n,
      severity: isError ? 17 : 9,
      body: isError ? `order ${minute}${index} failed` : `order ${minute}${index} taken`,
    }));
    await send("logs", logRequest([{ resource: { "service.name": "web" }, items }]));
    if (minute % 318 === 315) shop = new Shop(stepStartMs);
    const orderWaits = Array.from({ length: random.below(27) }, () => Math.round(latencyMs(20) * 1_000) / 1_000);
    truth.orders.push({ atMs: stepStartMs + stepMs, amount: orderWaits.length });
    waits.push(...orderWaits.map((ms) => ({ atMs: stepStartMs + stepMs, ms })));
    await send("metrics", shop.request(stepStartMs + stepMs, orderWaits.length, orderWaits));
    // Three hours without a connection to the colony.
    const isAway = minute >= 540 && minute < 720;
    if (minute % 30 === 27 && !isAway) await world.pull(random.below(4) === 0);
    if (minute % 120 === 117) await world.maintain();
    if (minute % 300 === 297) await world.restartAgent();
    if (minute % 396 === 393) await world.restartColony();
  }
  await world.pull();
  await world.maintain();
  endMs = world.clock.wallMs();
}, 900_000);

afterAll(async () => {
  await world[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

/** Requests in [fromMs, toMs). */
function known(service: string, fromMs: number, toMs: number, route?: string): KnownRequest[] {
  return truth.requests.filter(
    (request) =>
      request.service === service && request.atMs >= fromMs && request.atMs < toMs && (route === undefined || request.route === route),
  );
}

/** Nearest-rank percentile. */
function exactPercentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

function expectNear(actual: number | null, expected: number, error: number): void {
  expect(actual).not.toBeNull();
  expect(Math.abs((actual ?? 0) / expected - 1)).toBeLessThan(error);
}

/** Counts exactly, percentiles within half a bucket. */
function expectTruth(
  row: Pick<RedFact, "requests" | "errors" | "p50Us" | "p95Us" | "p99Us"> | undefined,
  expected: readonly KnownRequest[],
): void {
  expect([row?.requests, row?.errors]).toEqual([expected.length, expected.filter(({ isError }) => isError).length]);
  const durationsUs = expected.map(({ durationMs }) => durationMs * 1_000);
  for (const [share, value] of [
    [0.5, row?.p50Us],
    [0.95, row?.p95Us],
    [0.99, row?.p99Us],
  ] as const)
    expectNear(value ?? null, exactPercentile(durationsUs, share), percentileError);
}

const windows = [
  ["twelve minutes", 12 * minuteMs],
  ["an hour", hourMs],
  ["six hours", 6 * hourMs],
  ["the day", 24 * hourMs],
] as const;

describe("after a day of known traffic", () => {
  it("nothing is missing", async () => {
    expect(await world.colony.gaps()).toEqual([]);
    expect(truth.requests.length).toBeGreaterThan(35_000);
  });

  describe.each(windows)("of %s", (_, sinceMs) => {
    it("request counts by BPF equal the known traffic, for each service and route", async () => {
      const answer = await queryRed(world.colony, { by: "route", sinceMs, nowMs: endMs, maxPoints: 0, limit: 100, compare: false });
      // Rows carry the end of their ten-second window: a roll-up that begins at a minute starts with the window before it.
      const fromMs = endMs - sinceMs - (answer.resolution === "raw" ? 0 : 10_000);
      expect(Math.abs(answer.windowMs - sinceMs)).toBeLessThan(minuteMs);
      for (const service of ["web", "api"]) {
        for (const { route } of routes) {
          const row = answer.rows.find((candidate) => candidate.service === service && candidate.route === route);
          const expected = known(service, fromMs, endMs, route);
          expectTruth(row, expected);
        }
      }
    });

    it("request counts by spans equal the known traffic, including late and duplicate spans", async () => {
      const answer = await querySpanRed(world.colony, { startMs: endMs - sinceMs, endMs, by: ["route"], role: "server", limit: 100 });
      for (const service of ["web", "api"]) {
        for (const { route } of routes) {
          const row = answer.rows.find((candidate) => candidate.service === service && candidate.route === route);
          const expected = known(service, answer.startMs, answer.endMs, route);
          expectTruth(row, expected);
        }
      }
    });

    it("every trace and every span is stored once", async () => {
      const query = { service: "api", error: false, sinceMs, nowMs: endMs, order: "newest", limit: 100_000 } as const;
      const expected = known("api", endMs - sinceMs, endMs).length;
      const answer = await queryTraces(world.colony, query);
      // Spans of `api` begin two microseconds after their requests, so at the edge a span may be inside the range and its request outside.
      expect(Math.abs(answer.storedSpans - expected)).toBeLessThanOrEqual(1);
      expect(answer.estimatedSpans).toBe(answer.storedSpans);
    });

    it("every log record is counted once, by its pattern", async () => {
      const { rows, records } = await queryLogPatterns(world.colony, { service: "web", sinceMs, nowMs: endMs, limit: 50 });
      const expected = truth.logs.filter(({ atMs }) => atMs >= endMs - sinceMs);
      expect(records).toBe(expected.length);
      const failed = rows.filter(({ template }) => template.includes("failed")).reduce((sum, row) => sum + row.records, 0);
      expect(failed).toBe(expected.filter(({ isError }) => isError).length);
    });

    it("counters across restarts and histograms equal the known values", async () => {
      const ask = async (name: string) =>
        (await queryMetric(world.colony, { name, sinceMs, nowMs: endMs, maxPoints: 0, limit: 10 })).rows[0];
      const expected = truth.orders.filter(({ atMs }) => atMs > endMs - sinceMs).reduce((sum, { amount }) => sum + amount, 0);
      const orders = await ask("shop.orders");
      expect(orders?.total).toBeCloseTo(expected, 6);
      expectNear(orders?.rate ?? null, expected / (sinceMs / 1_000), 0.01);
      const within = waits.filter(({ atMs }) => atMs > endMs - sinceMs).map(({ ms }) => ms);
      const wait = await ask("shop.wait");
      expect(wait?.total).toBeCloseTo(within.length, 6);
      expectNear(wait?.mean ?? null, within.reduce((sum, ms) => sum + ms, 0) / within.length, 1e-9);
      // A bucket only has the bounds of a percentile.
      const exact = exactPercentile(within, 0.95);
      const upper = bounds.find((bound) => bound >= exact) ?? Number.POSITIVE_INFINITY;
      const lower = bounds.findLast((bound) => bound < exact) ?? 0;
      expect(wait?.p95).toBeGreaterThanOrEqual(lower);
      expect(wait?.p95).toBeLessThanOrEqual(upper);
    });
  });

  it("the topology counts every call from web to api", async () => {
    const { edges } = await querySpanEdges(world.colony, { sinceMs: 24 * hourMs, nowMs: endMs });
    const expected = known("api", startMs, endMs);
    expect(edges.map(({ client, server, requests, errors }) => ({ client, server, requests, errors }))).toEqual([
      { client: "web", server: "api", requests: expected.length, errors: expected.filter(({ isError }) => isError).length },
    ]);
  });
});
