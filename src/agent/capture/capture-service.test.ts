import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, test, vi } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { type CaptureRequest, CaptureRequestSchema } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { event, RowOf } from "../../store/signals/index.ts";
import type { CapturedRequest, TrafficOrder } from "../../traffic/index.ts";
import { CaptureHub } from "./capture-hub.ts";
import { type CaptureLimits, createCaptureService } from "./capture-service.ts";

const limits: CaptureLimits = {
  isEnabled: true,
  maxDurationMs: 60_000,
  maxRequests: 100,
  maxCaptures: 2,
  allowBody: true,
  headers: ["Host", "x-request-id"],
};

interface Change {
  limits?: Partial<CaptureLimits>;
  problem?: string | null;
  pendingStep?: string | null;
  pids?: number[];
  isAway?: boolean;
}

/** `change` may be modified later: its fields are read on each use. */
function setUp(change: Change = {}) {
  const orders: TrafficOrder[] = [];
  const rows: RowOf<typeof event.columns>[] = [];
  const hub = new CaptureHub({
    capture: (order) => {
      orders.push({ kind: "capture", order });
      return change.isAway !== true;
    },
    stopCapture: (captureId) => orders.push({ kind: "stop-capture", captureId }),
    problem: () => change.problem ?? null,
    pendingStep: () => change.pendingStep ?? null,
  });
  const service = createCaptureService({
    hub,
    pidsOf: async () => change.pids ?? [7, 8],
    serviceOf: (text) => (text === "api" || text === "program:api#01" ? { service: "program:api#01", name: "api" } : undefined),
    limits: () => ({ ...limits, ...change.limits }),
    audit: async (row) => {
      rows.push(row);
    },
    clock: systemClock,
    log: silentLogger,
  });
  return { orders, rows, hub, service };
}

type RequestFields = Omit<Exclude<MessageInitShape<typeof CaptureRequestSchema>, CaptureRequest>, "$typeName">;

function request(change: RequestFields = {}): CaptureRequest {
  return create(CaptureRequestSchema, {
    captureId: "c1",
    service: "api",
    limit: 2,
    durationMs: 5_000,
    caller: "token:abc",
    ...change,
  });
}

function captured(change: Partial<CapturedRequest> = {}): CapturedRequest {
  return {
    kind: "captured",
    captureId: "c1",
    at: { monoNs: process.hrtime.bigint() - 3_000_000_000n },
    pid: 7,
    role: "server",
    protocol: "http",
    isTls: false,
    clientAddress: "127.0.0.1",
    clientPort: 40_000,
    serverAddress: "127.0.0.1",
    serverPort: 80,
    method: "GET",
    target: "/users/7",
    route: "/users/{id}",
    status: "200",
    isError: false,
    requestHeaders: [
      ["HOST", "x"],
      ["authorization", "***"],
    ],
    responseHeaders: [["x-request-id", "1"]],
    requestBytes: 10,
    responseBytes: 20,
    durationNs: 1_500_000,
    firstByteNs: 1_000_000,
    queueNs: null,
    requestBody: "hello",
    responseBody: null,
    ...change,
  };
}

const idle = new AbortController().signal;

test("capture() sends requests up to the limit, with allowed headers only, and audits start and end", async () => {
  const { orders, rows, hub, service } = setUp();
  const stream = service.capture(request({ route: "/users", status: "2xx", minDurationMs: 1 }), idle);
  expect((await stream.next()).value).toMatchObject({ event: { case: "started", value: { processes: 2, limit: 2, durationMs: 5_000 } } });
  expect(orders).toEqual([
    {
      kind: "capture",
      order: {
        captureId: "c1",
        pids: [7, 8],
        route: "/users",
        status: "2xx",
        minDurationMs: 1,
        limit: 2,
        durationMs: 5_000,
        includeBody: false,
      },
    },
  ]);
  expect(rows).toMatchObject([
    {
      kind: "capture-started",
      service: "program:api#01",
      message: "token:abc captures requests of api (route /users, status 2xx, slower than 1ms, at most 2 within 5s)",
    },
  ]);
  for (let count = 0; count < 3; count++) hub.accept(captured());
  const before = Date.now() * 1_000;
  const first = (await stream.next()).value?.event;
  expect(first).toMatchObject({
    case: "request",
    value: {
      pid: 7,
      route: "/users/{id}",
      durationUs: 1_500n,
      firstByteUs: 1_000n,
      requestHeaders: [{ name: "HOST", value: "x" }],
      responseHeaders: [{ name: "x-request-id", value: "1" }],
    },
  });
  if (first?.case !== "request") throw new Error("no request");
  expect(first.value).not.toHaveProperty("requestBody");
  expect(first.value).not.toHaveProperty("queueUs");
  expect(Math.abs(Number(first.value.atUs) - (before - 3_000_000))).toBeLessThan(1_000_000);
  expect((await stream.next()).value).toMatchObject({ event: { case: "request" } });
  expect((await stream.next()).value).toMatchObject({ event: { case: "ended", value: { reason: "limit", requests: 2, dropped: 0 } } });
  expect(await stream.next()).toEqual({ done: true, value: undefined });
  expect(orders.at(-1)).toEqual({ kind: "stop-capture", captureId: "c1" });
  expect(rows[1]).toMatchObject({
    kind: "capture-ended",
    message: "token:abc captured 2 requests of api; ended: request limit reached",
  });
  expect(JSON.parse(rows[1]?.details ?? "")).toMatchObject({ captureId: "c1", caller: "token:abc", requests: 2, reason: "limit" });
  expect(hub.running).toBe(0);
});

test("capture() sends bodies only when requested", async () => {
  const { hub, service } = setUp();
  const stream = service.capture(request({ includeBody: true }), idle);
  await stream.next();
  hub.accept(captured());
  expect((await stream.next()).value).toMatchObject({ event: { value: { requestBody: "hello" } } });
  await stream.return(undefined);
});

test("capture() clamps a request to the config's limits", async () => {
  const { orders, service } = setUp({ limits: { maxRequests: 3, maxDurationMs: 1_000 } });
  const stream = service.capture(request({ limit: 1_000_000, durationMs: 3_600_000 }), idle);
  expect((await stream.next()).value).toMatchObject({ event: { value: { limit: 3, durationMs: 1_000 } } });
  expect(orders[0]).toMatchObject({ order: { limit: 3, durationMs: 1_000 } });
  await stream.return(undefined);
});

test("capture() ends when the traffic process ends it, when that process exits, and otherwise by timeout", async () => {
  vi.useFakeTimers();
  try {
    const { hub, service } = setUp();
    const expired = service.capture(request(), idle);
    await expired.next();
    hub.accept({ kind: "capture-ended", captureId: "c1", reason: "expired" });
    expect((await expired.next()).value).toMatchObject({ event: { value: { reason: "expired" } } });
    await expired.next();
    const lost = service.capture(request(), idle);
    await lost.next();
    hub.lost();
    expect((await lost.next()).value).toMatchObject({
      event: { value: { reason: "failed", problem: expect.stringContaining("exited and is restarting") } },
    });
    await lost.next();
    const silent = service.capture(request(), idle);
    await silent.next();
    const end = silent.next();
    await vi.advanceTimersByTimeAsync(7_100);
    expect((await end).value).toMatchObject({ event: { value: { reason: "expired" } } });
    await silent.next();
  } finally {
    vi.useRealTimers();
  }
});

test("capture() ends and is audited when the caller hangs up or stops reading", async () => {
  const { orders, rows, hub, service } = setUp();
  const hangUp = new AbortController();
  const stream = service.capture(request(), hangUp.signal);
  await stream.next();
  const pending = stream.next();
  hangUp.abort();
  expect((await pending).value).toMatchObject({ event: { value: { reason: "cancelled" } } });
  await stream.next();
  expect(orders.at(-1)).toEqual({ kind: "stop-capture", captureId: "c1" });
  const unread = service.capture(request(), hangUp.signal);
  await unread.next();
  await vi.waitFor(() => expect(rows).toHaveLength(4));
  const left = service.capture(request({ captureId: "c2" }), idle);
  await left.next();
  await left.return(undefined);
  expect(orders.at(-1)).toEqual({ kind: "stop-capture", captureId: "c2" });
  const pair = ["capture-started", "capture-ended"];
  expect(rows.map((row) => row.kind)).toEqual([...pair, ...pair, ...pair]);
  expect(hub.running).toBe(0);
});

test("capture() fails when there is no traffic process", async () => {
  const { service } = setUp({ isAway: true });
  const stream = service.capture(request(), idle);
  await stream.next();
  expect((await stream.next()).value).toMatchObject({ event: { value: { reason: "failed", code: "unavailable" } } });
  await stream.next();
});

test("capture() counts requests dropped for a slow reader", async () => {
  const { hub, service } = setUp({ limits: { maxRequests: 5_000 } });
  const stream = service.capture(request({ limit: 5_000 }), idle);
  await stream.next();
  for (let count = 0; count < 1_200; count++) hub.accept(captured());
  hub.accept({ kind: "capture-ended", captureId: "c1", reason: "expired" });
  let last: unknown;
  for await (const message of stream) last = message.event?.value;
  expect(last).toMatchObject({ requests: 1_000, dropped: 200 });
});

test.each<[string, Parameters<typeof setUp>[0], RequestFields, string]>([
  ["captures disabled", { limits: { isEnabled: false } }, {}, "traffic.capture.enabled is false"],
  ["bodies disabled", { limits: { allowBody: false } }, { includeBody: true }, "traffic.capture.bodies is false"],
  ["hooks off", { problem: "needs CAP_BPF" }, {}, "the agent observes no requests: needs CAP_BPF"],
  ["no process of the service", { pids: [] }, {}, "it has no running process on this host"],
])("capture() is refused: %s", async (_what, change, fields, problem) => {
  const { orders, rows, service } = setUp(change);
  const stream = service.capture(request(fields), idle);
  expect((await stream.next()).value).toMatchObject({
    event: { case: "ended", value: { reason: "failed", problem: expect.stringContaining(problem) } },
  });
  expect((await stream.next()).done).toBe(true);
  expect(orders).toEqual([]);
  expect(rows).toEqual([]);
});

test("capture() waits for an agent that is starting", async () => {
  const change: Change = { pendingStep: "the first scan for services is not finished", pids: [] };
  const { orders, hub, service } = setUp(change);
  const stream = service.capture(request(), idle);
  const first = stream.next();
  hub.changed();
  await new Promise((resolve) => setImmediate(resolve));
  expect(orders).toEqual([]);
  Object.assign(change, { pendingStep: null, pids: [7] });
  hub.changed();
  expect((await first).value).toMatchObject({ event: { case: "started", value: { processes: 1 } } });
  await stream.return(undefined);
});

test("capture() fails with a hint to retry if the agent is not ready in ten seconds, and stops waiting when the caller hangs up", async () => {
  vi.useFakeTimers();
  try {
    const { orders, rows, service } = setUp({ pendingStep: "the traffic process is loading" });
    const first = service.capture(request(), idle).next();
    await vi.advanceTimersByTimeAsync(10_000);
    expect((await first).value).toMatchObject({
      event: {
        case: "ended",
        value: {
          reason: "failed",
          code: "unavailable",
          problem: 'Cannot capture "api": the agent is still starting: the traffic process is loading; try again in a few seconds',
        },
      },
    });
    const caller = new AbortController();
    const second = service.capture(request(), caller.signal).next();
    caller.abort();
    expect((await second).value).toMatchObject({ event: { case: "ended" } });
    expect(vi.getTimerCount()).toBe(0);
    expect([orders, rows]).toEqual([[], []]);
  } finally {
    vi.useRealTimers();
  }
});

test("capture() refuses more concurrent captures than the config allows", async () => {
  const { service } = setUp({ limits: { maxCaptures: 1 } });
  const first = service.capture(request(), idle);
  await first.next();
  const second = service.capture(request({ captureId: "c2" }), idle);
  expect((await second.next()).value).toMatchObject({ event: { value: { problem: expect.stringContaining("1 of 1 captures") } } });
  await first.return(undefined);
});

test("capture() enforces the limit on captures requested at the same moment", async () => {
  const { service, hub } = setUp({ limits: { maxCaptures: 2 } });
  const captures = ["c1", "c2", "c3", "c4"].map((captureId) => service.capture(request({ captureId }), idle));
  const answers = await Promise.all(captures.map((capture) => capture.next()));
  expect(answers.map(({ value }) => value?.event?.case)).toEqual(["started", "started", "ended", "ended"]);
  expect(hub.running).toBe(2);
  for (const capture of captures) await capture.return(undefined);
  expect(hub.running).toBe(0);
});
