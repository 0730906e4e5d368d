import { describe, expect, it, vi } from "vitest";
import type { ColonyBackend } from "./backend.ts";
import { startCapture } from "./capture-requests.ts";
import { colonyTools } from "./colony-tools.ts";
import type { Answer } from "./completeness.ts";
import { agentOf, colonyOf, context, edgeOf, networkOf, serviceOf } from "./sample-colony.fixture.ts";
import type { CapturedRequest, CaptureEvent, CaptureRequest, CaptureResult } from "./schemas/capture.ts";
import type { Topology } from "./schemas/network.ts";
import type { ConnectionList, RedFact, RedResult, SpanRedFacts, TopResult } from "./schemas/traffic.ts";
import { findTool } from "./tool-list.ts";

async function call<T>(name: string, input: unknown, colony: Partial<ColonyBackend> = {}): Promise<Answer<T>> {
  return (await findTool(colonyTools, name, "debug").call(colonyOf(colony), input, context)) as Answer<T>;
}

const messages = (answer: Answer<unknown>): string[] => answer.completeness.notes.map((note) => note.message);

function redFact(service: string, more: Partial<RedFact> = {}): RedFact {
  return {
    service,
    role: "server",
    protocol: "http",
    isTls: false,
    peer: null,
    method: null,
    route: null,
    status: null,
    requests: 600,
    tlsRequests: 0,
    errors: 0,
    requestBytes: 6_000,
    responseBytes: 60_000,
    meanUs: 1_000,
    p50Us: 900,
    p95Us: 2_000,
    p99Us: 4_000,
    queueMeanUs: 100,
    queueP95Us: 300,
    firstByteP50Us: 800,
    firstByteP95Us: 1_800,
    before: null,
    points: [],
    ...more,
  };
}

const redOf =
  (rows: RedFact[], more: { total?: number; windowMs?: number; bucketMs?: number } = {}): ColonyBackend["red"] =>
  async () => ({ rows, total: rows.length, windowMs: 60_000, bucketMs: 5_000, ...more });

describe("coral_query_red", () => {
  it("makes rates, shares and the server's own time of the sums", async () => {
    const red = redOf([redFact("api", { errors: 6, points: [50, 0, 25], before: { requests: 300, errors: 3, p95Us: 1_500 } })]);
    const answer = await call<RedResult>("coral_query_red", {}, { red });
    expect(answer).toMatchObject({ by: "service", total: 1, windowMs: 60_000, sinceMs: 300_000, findings: [] });
    expect(answer.rows[0]).toMatchObject({
      perSecond: 10,
      errorRatio: 0.01,
      serviceMeanUs: 900,
      points: [10, 0, 5],
      before: { perSecond: 5, errorRatio: 0.01, p95Us: 1_500 },
    });
    expect(answer.completeness.complete).toBe(true);
  });

  it("asks by route when a service is named, and passes every filter on", async () => {
    const red = vi.fn<ColonyBackend["red"]>(redOf([redFact("api")]));
    await call("coral_query_red", { service: "api", route: "/u", peer: "web", protocol: "http", role: "server", agent: "web-1" }, { red });
    expect(red.mock.calls[0]?.[0]).toMatchObject({
      service: "api",
      route: "/u",
      peer: "web",
      protocol: "http",
      role: "server",
      agentIds: ["web-1"],
      by: "route",
      sinceMs: 300_000,
    });
  });

  it("finds the service that is meant, and says which there are when none is", async () => {
    const services = async () => [serviceOf("web-1", "checkout-api", 80), serviceOf("web-1", "db", 5432)];
    const red = vi.fn<ColonyBackend["red"]>(async ({ service }) =>
      redOf(service === "checkout-api" ? [redFact("checkout-api")] : [])({} as never, context),
    );
    expect((await call<RedResult>("coral_query_red", { service: "Checkout" }, { red, services })).rows).toHaveLength(1);
    await expect(call("coral_query_red", { service: "nope" }, { red, services })).rejects.toMatchObject({
      code: "not-found",
      message: 'Cannot find service "nope": none has that name: checkout-api, db',
    });
    const quiet = await call<RedResult>("coral_query_red", { service: "db" }, { red, services });
    expect(quiet.rows).toEqual([]);
    expect(messages(quiet)).toEqual(["no request that fits was seen within this time; look further back with since"]);
  });

  it("tells what spans say of services that no hook saw, once, under the name of their process", async () => {
    const spanRow = (service: string, requests: number): SpanRedFacts["rows"][number] => ({
      ...{ service, role: "server", protocol: "http", method: null, route: null, status: null, requests, errors: requests / 10 },
      ...{ meanUs: 900, p50Us: 800, p95Us: 2_000, p99Us: 3_000, points: [requests / 2, requests / 2] },
    });
    const spanRed = vi.fn<ColonyBackend["spanRed"]>(async ({ service, endAgoMs }) => {
      const rows = [spanRow("api", 1_000), spanRow("shop-node", 600), spanRow("lambda", endAgoMs ? 300 : 60)];
      const fitting = rows.filter((row) => service === undefined || row.service === service);
      return { rows: fitting, total: fitting.length, startMs: 0, endMs: 60_000, coveredMs: 60_000 };
    });
    const services = async () => [serviceOf("web-1", "api", 81), { ...serviceOf("web-1", "shop", 80), pids: [7], exe: "/opt/shop" }];
    const resource = JSON.stringify({ "process.pid": 7, "process.executable.path": "/opt/shop" });
    const spanProcesses = async () => [{ agentId: "web-1", service: "shop-node", resource }];
    const over = { red: redOf([redFact("api")]), spanRed, services, spanProcesses };
    const { rows, total } = await call<RedResult>("coral_query_red", {}, over);
    expect(rows.map(({ service, source, perSecond, errorRatio }) => [service, source, perSecond, errorRatio])).toEqual([
      ["api", "hooks", expect.any(Number), expect.any(Number)],
      ["shop", "spans", 10, 0.1],
      ["lambda", "spans", 1, 0.1],
    ]);
    expect(total).toBe(3);
    expect(rows.at(-1)).toMatchObject({ before: { perSecond: 5 }, points: [1, 1], queueMeanUs: null });
    const shop = await call<RedResult>("coral_query_red", { service: "shop" }, { ...over, red: redOf([]) });
    expect(shop.rows).toMatchObject([{ service: "shop", source: "spans", requests: 600 }]);
    // Hooks saw it, if not on this route: then its spans do not count.
    const red = vi.fn<ColonyBackend["red"]>((request) => redOf(request.route === undefined ? [redFact("api")] : [])(request, context));
    expect((await call<RedResult>("coral_query_red", { service: "api", route: "/none" }, { ...over, red })).rows).toEqual([]);
    expect((await call<RedResult>("coral_query_red", { by: "peer" }, { ...over, red: redOf([]) })).rows).toEqual([]);
  });

  it("knows services that are in spans only, however quiet", async () => {
    const spanServices = async () => ["Lambda"];
    expect((await call<RedResult>("coral_query_red", { service: "lambda" }, { red: redOf([]), spanServices })).rows).toEqual([]);
  });

  it("finds what fails, what got slower and what queues; worst first, and never from a handful of requests", async () => {
    const red = redOf([
      redFact("fine"),
      redFact("few", { requests: 19, errors: 19 }),
      redFact("flaky", { method: "GET", route: "/a/{id}", errors: 60 }),
      redFact("broken", { role: "client", peer: "db", errors: 300 }),
      redFact("slow", { p95Us: 9_000, before: { requests: 600, errors: 0, p95Us: 3_000 } }),
      redFact("fast", { p95Us: 900, before: { requests: 600, errors: 0, p95Us: 100 } }),
      redFact("new", { p95Us: 9_000, before: { requests: 19, errors: 0, p95Us: 300 } }),
      redFact("queued", { meanUs: 20_000, queueMeanUs: 15_000 }),
      redFact("told", { status: "500", errors: 600 }),
    ]);
    const { findings } = await call<RedResult>("coral_query_red", {}, { red });
    expect(findings.map((finding) => [finding.severity, finding.message])).toEqual([
      ["critical", "broken to db: 50% of 600 requests it made failed"],
      ["warning", "flaky GET /a/{id}: 10% of 600 requests to it failed"],
      ["warning", "slow (http): p95 is 9.0 ms, 3.0 times the 3.0 ms of the time before"],
      ["warning", "queued (http): requests wait 15 ms of 20 ms before the server reads them: it has too few workers, or no CPU"],
    ]);
  });

  it("says what the hooks did not see, and which agents have none", async () => {
    const agents = async () => [
      agentOf("web-1"),
      agentOf("web-2", { capabilities: [{ name: "traffic", available: false, reason: "needs CAP_BPF; run it as root" }] }),
      agentOf("web-3", { capabilities: [{ name: "ebpf", available: true, reason: "" }] }),
    ];
    const trafficLosses = async () => [
      { agentId: "web-1", loss: "tls-opaque", count: 2 },
      { agentId: "web-3", loss: "tls-opaque", count: 1 },
      { agentId: "web-1", loss: "ring-full", count: 0 },
      { agentId: "web-3", loss: "sampled-out", count: 16 },
      { agentId: "web-1", loss: "away-seconds", count: 1 },
    ];
    const answer = await call<RedResult>("coral_query_red", {}, { agents, trafficLosses, red: redOf([redFact("api")]) });
    expect(messages(answer)).toEqual([
      "web-2.example.org sees no requests: needs CAP_BPF; run it as root",
      "3 TLS connections on web-1.example.org, web-3.example.org unread: the library is unknown, stripped or excluded; coral agent status tells",
      "16 connections on web-3.example.org left out with all their requests, to stay within the agent's CPU budget",
      "1 second on web-1.example.org not watched: the traffic process was away",
    ]);
    expect(answer.completeness.notes.map((note) => note.kind)).toEqual(["unavailable", "unavailable", "sampled", "rows-lost"]);
  });

  it("says when rows were cut, when no agent can see and when there is none", async () => {
    const cut = await call<RedResult>("coral_query_red", { limit: 1 }, { red: redOf([redFact("api")], { total: 7 }) });
    expect(messages(cut)).toEqual(["1 of 7 rows are shown; narrow with service, route or peer, or raise limit"]);
    const off = async () => [agentOf("a", { capabilities: [{ name: "traffic", available: false, reason: "" }] })];
    expect(messages(await call("coral_query_red", {}, { agents: off }))).toEqual([
      "a.example.org sees no requests: its kernel hooks are off",
    ]);
    expect(messages(await call("coral_query_red", {}, { agents: async () => [] }))).toEqual([
      "no agent has joined this colony; start one with coral agent start",
    ]);
  });
});

describe("coral_query_top", () => {
  const red = redOf([
    redFact("api", { requests: 1_200, errors: 12, points: [100, 200] }),
    redFact("api", { protocol: "grpc", requests: 600, p95Us: 9_999, points: [50, 50] }),
    redFact("api", { role: "client", protocol: "postgres", requests: 90_000 }),
    redFact("worker", { role: "client", protocol: "redis", requests: 60, p95Us: 50_000 }),
  ]);
  const serviceCpu = async () => [
    { service: "api", cpuCores: 0.5, rssBytes: 1_024 },
    { service: "batch", cpuCores: 1.9, rssBytes: 2_048 },
  ];

  it("shows each service once: by what it answers, with the CPU of its processes", async () => {
    const answer = await call<TopResult>("coral_query_top", {}, { red, serviceCpu });
    expect(answer).toMatchObject({ total: 3, perSecond: 30, errorRatio: 0.006667 });
    expect(answer.rows).toMatchObject([
      { service: "api", role: "server", protocols: ["http", "grpc"], perSecond: 30, p95Us: 2_000, cpuCores: 0.5, points: [30, 50] },
      { service: "worker", role: "client", protocols: ["redis"], perSecond: 1, cpuCores: null },
      { service: "batch", role: null, protocols: [], perSecond: 0, p95Us: null, cpuCores: 1.9 },
    ]);
  });

  it.each([
    ["errors", ["api", "worker", "batch"]],
    ["p95", ["worker", "api", "batch"]],
    ["cpu", ["batch", "api", "worker"]],
  ])("sorts by %s", async (sort, expected) => {
    const answer = await call<TopResult>("coral_query_top", { sort }, { red, serviceCpu });
    expect(answer.rows.map((row) => row.service)).toEqual(expected);
  });

  it("cuts and says so", async () => {
    const answer = await call<TopResult>("coral_query_top", { limit: 1 }, { red, serviceCpu });
    expect(answer.rows).toHaveLength(1);
    expect(messages(answer)).toEqual(["1 of 3 services are shown; raise limit"]);
  });
});

describe("coral_query_connections", () => {
  it("passes the filters on and says what was cut", async () => {
    const connections = vi.fn<ColonyBackend["connections"]>(async () => ({
      total: 2,
      rows: [
        {
          service: "api",
          role: "client",
          protocol: "tcp",
          peer: "db",
          peerAddress: "10.0.0.9",
          serverPort: 5432,
          open: 1,
          opened: 3,
          closed: 2,
          failed: 1,
          refused: 1,
          reset: 0,
          timedOut: 0,
          bytesSent: 10,
          bytesReceived: 20,
          rttUs: 120,
          retransmits: 0,
          lastSeenAt: "2026-01-02T00:00:00.000Z",
        },
      ],
    }));
    const answer = await call<ConnectionList>("coral_query_connections", { service: "api", role: "client", since: "1h" }, { connections });
    expect(connections.mock.calls[0]?.[0]).toEqual({ service: "api", role: "client", sinceMs: 3_600_000, limit: 50 });
    expect(messages(answer)).toEqual(["1 of 2 rows are shown; narrow with service or peer, or raise limit"]);
  });
});

describe("coral_get_topology with requests", () => {
  const end = (kind: "service" | "external", name: string) => ({ kind, name });
  const times = { p50Us: 500, p95Us: 900, p99Us: 1_200 };

  it("puts what was asked on the edge, once, and none where no hook looked", async () => {
    const answer = await call<Topology>(
      "coral_get_topology",
      {},
      {
        edges: async () =>
          networkOf([
            edgeOf("api", "db", 5432),
            edgeOf("api", "cache", 6379),
            edgeOf("api", "external:1.1.1.1", 53, { protocol: "udp" }),
            edgeOf("api", "external:1.1.1.1", 53),
          ]),
        edgeRed: async () => ({
          windowMs: 60_000,
          edges: [
            {
              client: end("service", "api"),
              server: end("service", "db"),
              serverPort: 5432,
              protocol: "postgres",
              requests: 600,
              errors: 6,
              ...times,
            },
            {
              client: end("service", "api"),
              server: end("external", "1.1.1.1"),
              serverPort: 53,
              protocol: "dns",
              requests: 60,
              errors: 0,
              ...times,
            },
            {
              client: end("service", "api"),
              server: end("service", "db"),
              serverPort: 1,
              protocol: "http",
              requests: 9,
              errors: 0,
              ...times,
            },
          ],
        }),
      },
    );
    const drawn = answer.edges.map(({ to, protocol, requests, evidence }) => [to, protocol, requests?.count ?? null, evidence]);
    expect(drawn).toHaveLength(4);
    expect(drawn).toEqual(
      expect.arrayContaining([
        ["service:db", "tcp", 600, ["both-ends", "requests"]],
        ["service:cache", "tcp", null, ["both-ends"]],
        ["external:1.1.1.1", "udp", 60, ["both-ends", "requests"]],
        ["external:1.1.1.1", "tcp", null, ["both-ends"]],
      ]),
    );
    expect(answer.edges.find((edge) => edge.to === "service:db")?.requests).toEqual({
      protocol: "postgres",
      count: 600,
      perSecond: 10,
      errorRatio: 0.01,
      ...times,
    });
  });

  it("counts what one agent saw when only that is asked for", async () => {
    const edgeRed = vi.fn<ColonyBackend["edgeRed"]>(async () => ({ windowMs: 1, edges: [] }));
    await call<Topology>("coral_get_topology", { agent: "web-2" }, { edgeRed });
    await call<Topology>("coral_get_topology", {}, { edgeRed });
    expect(edgeRed.mock.calls.map(([request]) => request)).toEqual([
      { sinceMs: 3_600_000, agentIds: ["web-2"], among: [] },
      { sinceMs: 3_600_000, among: [] },
    ]);
  });

  it("adds up several addresses of one name outside; the busiest tells the percentiles", async () => {
    const resolved = { name: "pay.example.com", method: "reverse_dns", provider: null, product: null };
    const edges = ["1.2.3.4", "1.2.3.5"].map((address) => {
      const edge = edgeOf("api", `external:${address}`, 443);
      return { ...edge, server: { ...edge.server, resolved } };
    });
    const answer = await call<Topology>(
      "coral_get_topology",
      {},
      {
        edges: async () => networkOf(edges),
        edgeRed: async () => ({
          windowMs: 1_000,
          edges: [
            {
              client: end("service", "api"),
              server: end("external", "1.2.3.4"),
              serverPort: 443,
              protocol: "http",
              requests: 1,
              errors: 1,
              ...times,
              p95Us: 5,
            },
            {
              client: end("service", "api"),
              server: end("external", "1.2.3.5"),
              serverPort: 443,
              protocol: "http",
              requests: 3,
              errors: 0,
              ...times,
            },
          ],
        }),
      },
    );
    expect(answer.edges.map((edge) => edge.requests)).toMatchObject([{ count: 4, errorRatio: 0.25, p95Us: 900 }]);
  });
});

describe("coral_capture_requests", () => {
  const request: CapturedRequest = {
    at: "2026-01-02T00:00:00.000Z",
    agentId: "web-1",
    hostname: "web-1.example.org",
    service: "api",
    pid: 1,
    role: "server",
    protocol: "http",
    isTls: false,
    client: "127.0.0.1:5",
    server: "127.0.0.1:80",
    method: "GET",
    target: "/users/7?token=***",
    route: "/users/{id}",
    status: "200",
    isError: false,
    requestHeaders: [["host", "x"]],
    responseHeaders: [],
    requestBytes: 10,
    responseBytes: 20,
    durationUs: 900,
    firstByteUs: 800,
    queueUs: null,
    requestBody: null,
    responseBody: null,
  };
  const end = {
    agentId: "web-1",
    hostname: "web-1.example.org",
    reason: "limit" as const,
    problem: null,
    code: null,
    requests: 1,
    dropped: 0,
  };
  const places = [serviceOf("web-1", "api", 80), serviceOf("web-2", "api", 80), serviceOf("web-2", "old", 80, { status: "stale" })];
  const services: ColonyBackend["services"] = async ({ service }) =>
    places.filter((place) => service === undefined || place.service === service);
  const capture = (events: CaptureEvent[]) =>
    vi.fn<(request: CaptureRequest) => AsyncGenerator<CaptureEvent>>(async function* (
      _request: CaptureRequest,
    ): AsyncGenerator<CaptureEvent> {
      yield { kind: "started", captureId: "c1", service: "api", agents: [] };
      yield* events;
      yield { kind: "ended", requests: events.length };
    });

  it("needs the permission debug and changes nothing", () => {
    expect(() => findTool(colonyTools, "coral_capture_requests", "read")).toThrow('it needs the permission "debug"');
    expect(findTool(colonyTools, "coral_capture_requests", "debug").changes).toBe(false);
  });

  it("gathers what the agents of the service send", async () => {
    const run = capture([
      { kind: "request", request },
      { kind: "agent-ended", end: { ...end, dropped: 2 } },
      { kind: "agent-ended", end: { ...end, agentId: "web-2", hostname: "w2", reason: "lost", problem: "the tunnel is closed" } },
    ]);
    const answer = await call<CaptureResult>(
      "coral_capture_requests",
      { service: "api", status: "5xx", minDuration: "1s" },
      { services, capture: run },
    );
    expect(run.mock.calls[0]?.[0]).toEqual({
      service: "api",
      agentIds: ["web-1", "web-2"],
      status: "5xx",
      minDurationMs: 1_000,
      limit: 20,
      durationMs: 10_000,
      includeBody: false,
    });
    expect(answer).toMatchObject({ captureId: "c1", requests: [request], ends: [{ agentId: "web-1" }, { agentId: "web-2" }] });
    expect(messages(answer)).toEqual([
      "2 requests of web-1.example.org came faster than they could be sent",
      "w2 stopped early: the tunnel is closed",
    ]);
  });

  it("fails as the first agent did when none could look", async () => {
    const failed = { ...end, reason: "failed" as const, problem: "hooks are off", code: "unsupported" };
    const run = capture([{ kind: "agent-ended", end: failed }]);
    await expect(call("coral_capture_requests", { service: "api" }, { services, capture: run })).rejects.toMatchObject({
      code: "unsupported",
      message: "hooks are off",
    });
  });

  it("leaves out agents that are away or cannot look", async () => {
    const agents = async () => [
      agentOf("web-1", { capabilities: [{ name: "traffic", available: false, reason: "no BTF" }] }),
      agentOf("web-2"),
    ];
    const run = capture([]);
    const answer = await call<CaptureResult>("coral_capture_requests", { service: "api" }, { services, agents, capture: run });
    expect(run.mock.calls[0]?.[0].agentIds).toEqual(["web-2"]);
    expect(messages(answer)).toEqual([
      "no request came within 10s, nor was any seen in the last 15m: see coral query red api for what its agents can see",
    ]);
  });

  const off = { capabilities: [{ name: "traffic", available: false, reason: "no BTF" }] };
  it.each<[string, unknown, Partial<ColonyBackend>, string, RegExp]>([
    ["an unknown service", { service: "nope" }, {}, "not-found", /none has that name: api/],
    ["a service that is gone", { service: "old" }, {}, "not-found", /it runs nowhere now/],
    ["a host without it", { service: "old", agent: "web-1" }, {}, "not-found", /does not run at agent "web-1"/],
    [
      "hooks that are off",
      { service: "api" },
      { agents: async () => [agentOf("web-1", off)] },
      "unsupported",
      /\(web-1.example.org: no BTF\); coral doctor/,
    ],
    [
      "agents that are away",
      { service: "api" },
      { agents: async () => [agentOf("web-1", { connected: false })] },
      "unavailable",
      /not connected/,
    ],
    [
      "another protocol",
      { service: "api" },
      { red: redOf([redFact("api", { protocol: "tls" })]) },
      "unsupported",
      /it speaks only tls, of which/,
    ],
    ["a bad status", { service: "api", status: "bad" }, {}, "invalid", /"status" is not valid: write a code/],
    ["a longer time than a call is waited for", { service: "api", duration: "1m" }, {}, "invalid", /between 100ms and 25s/],
  ])("refuses %s", async (_what, input, colony, code, message) => {
    await expect(call("coral_capture_requests", input, { services, ...colony })).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message),
    });
  });

  it("startCapture() streams, for longer, and checks its input too", async () => {
    const run = capture([{ kind: "request", request }]);
    const events = await startCapture(
      colonyOf({ services, capture: run }),
      { service: "api", duration: "1h", body: true, limit: 5_000 },
      context,
    );
    const kinds: string[] = [];
    for await (const event of events) kinds.push(event.kind);
    expect(kinds).toEqual(["started", "request", "ended"]);
    expect(run.mock.calls[0]?.[0]).toMatchObject({ durationMs: 3_600_000, includeBody: true, limit: 5_000 });
    await expect(startCapture(colonyOf(), { service: "api", nope: 1 }, context)).rejects.toMatchObject({ code: "invalid" });
  });
});
