import { describe, expect, it, vi } from "vitest";
import { colonyTools } from "../colony-tools.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { findTool } from "../contract/tool-list.ts";
import { agentOf, colonyOf, context, serviceOf } from "../sample-colony.fixture.ts";
import type { CapturedRequest, CaptureEvent, CaptureRequest, CaptureResult } from "../schemas/capture.ts";
import { startCapture } from "./capture-requests.ts";
import { call, messages, redFact, redOf } from "./traffic-tools.fixture.ts";

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
    peer: null,
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

  it("collects the requests from all agents of the service", async () => {
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
      "2 requests of web-1.example.org were dropped: they arrived faster than they could be sent",
      "w2 stopped early: the tunnel is closed",
    ]);
  });

  it("fails with the first agent's error when no agent could capture", async () => {
    const failed = { ...end, reason: "failed" as const, problem: "hooks are off", code: "unsupported" };
    const run = capture([{ kind: "agent-ended", end: failed }]);
    await expect(call("coral_capture_requests", { service: "api" }, { services, capture: run })).rejects.toMatchObject({
      code: "unsupported",
      message: "hooks are off",
    });
  });

  it("skips agents that are disconnected or cannot capture", async () => {
    const agents = async () => [
      agentOf("web-1", { capabilities: [{ name: "traffic", available: false, reason: "no BTF" }] }),
      agentOf("web-2"),
    ];
    const run = capture([]);
    const answer = await call<CaptureResult>("coral_capture_requests", { service: "api" }, { services, agents, capture: run });
    expect(run.mock.calls[0]?.[0].agentIds).toEqual(["web-2"]);
    expect(messages(answer)).toEqual([
      "no request within 10s, and none in the last 15m; coral query red api shows what its agents can see",
    ]);
  });

  const off = { capabilities: [{ name: "traffic", available: false, reason: "no BTF" }] };
  it.each<[string, unknown, Partial<ColonyBackend>, string, RegExp]>([
    ["an unknown service", { service: "nope" }, {}, "not-found", /no service has that name; known services: api/],
    ["a service that is gone", { service: "old" }, {}, "not-found", /it is not running/],
    ["a host without it", { service: "old", agent: "web-1" }, {}, "not-found", /it is not running on agent "web-1"/],
    [
      "hooks that are off",
      { service: "api" },
      { agents: async () => [agentOf("web-1", off)] },
      "unsupported",
      /\(web-1.example.org: no BTF\); run coral doctor/,
    ],
    [
      "agents that are disconnected",
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
      /it only speaks tls, whose requests/,
    ],
    ["a bad status", { service: "api", status: "bad" }, {}, "invalid", /"status" is not valid: use a code/],
    ["a duration above the limit of a call", { service: "api", duration: "1m" }, {}, "invalid", /between 100ms and 25s/],
  ])("rejects %s", async (_what, input, colony, code, message) => {
    await expect(call("coral_capture_requests", input, { services, ...colony })).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message),
    });
  });

  it("startCapture() streams for longer, and validates its input", async () => {
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
