import type { MessageInitShape } from "@bufbuild/protobuf";
import { createRouterTransport } from "@connectrpc/connect";
import { expect, test, vi } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { silentLogger } from "../../base/log.ts";
import { AgentService, type CaptureResponseSchema, type CaptureRequest as WireOrder } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { CaptureEvent, CaptureRequest } from "../../tools/index.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";
import { createCapture } from "./capture.ts";

type Answer = MessageInitShape<typeof CaptureResponseSchema>;
type Serve = (request: WireOrder, signal: AbortSignal) => AsyncGenerator<Answer>;

const started: Answer = { event: { case: "started", value: { processes: 2, limit: 10, durationMs: 1_000 } } };
const seen = (target: string): Answer => ({
  event: {
    case: "request",
    value: {
      atUs: 1_000_000n,
      role: "server",
      method: "GET",
      target,
      clientAddress: "::1",
      clientPort: 5,
      serverAddress: "10.0.0.1",
      serverPort: 80,
    },
  },
});
const over = (reason: string, more: { problem?: string; dropped?: number } = {}): Answer => ({
  event: { case: "ended", value: { reason, requests: 0, ...more } },
});

/** In-memory agents that serve a capture. `cut` closes the tunnel of one. */
function agentsOf(serves: Record<string, Serve>) {
  const cuts = new Map<string, (reason: string) => void>();
  const entries = new Map(
    Object.entries(serves).map(([agentId, serve]) => {
      const closed = new Promise<{ reason: string }>((resolve) => {
        cuts.set(agentId, (reason) => resolve({ reason }));
      });
      const transport = createRouterTransport(({ service }) => {
        service(AgentService, { capture: (request, context) => serve(request, context.signal) });
      });
      return [agentId, { record: { hostname: `${agentId}.host` }, session: { tunnel: { transport, closed } } }];
    }),
  );
  const registry = { find: (agentId: string) => entries.get(agentId) } as unknown as Pick<AgentRegistry, "find">;
  return { registry, cut: (agentId: string, reason: string) => cuts.get(agentId)?.(reason) };
}

const requestFor = (agentIds: string[], change: Partial<CaptureRequest> = {}): CaptureRequest => ({
  service: "api",
  agentIds,
  minDurationMs: 0,
  limit: 10,
  durationMs: 1_000,
  includeBody: false,
  ...change,
});

const context = { signal: new AbortController().signal, caller: "local:uid=0" };

async function all(events: AsyncIterable<CaptureEvent>): Promise<CaptureEvent[]> {
  const list: CaptureEvent[] = [];
  for await (const event of events) list.push(event);
  return list;
}

/** Resolves when the caller hangs up. */
const hangUp = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });

test("capture() streams requests from the agents, and passes them the caller", async () => {
  let order: WireOrder | undefined;
  const { registry } = agentsOf({
    async *a(request) {
      order = request;
      yield started;
      yield seen("/x");
      yield over("expired", { dropped: 3 });
    },
  });
  const capture = createCapture({ registry, log: silentLogger });
  const events = await all(capture(requestFor(["a", "gone"], { route: "/x", status: "5xx", includeBody: true }), context));
  expect(order).toMatchObject({ service: "api", route: "/x", status: "5xx", limit: 10, includeBody: true, caller: "local:uid=0" });
  expect(events).toMatchObject([
    { kind: "started", captureId: order?.captureId, service: "api", agents: [{ agentId: "a", hostname: "a.host" }] },
    { kind: "agent-started", agentId: "a", processes: 2, limit: 10 },
    {
      kind: "request",
      request: {
        at: "1970-01-01T00:00:01.000Z",
        hostname: "a.host",
        target: "/x",
        client: "[::1]:5",
        server: "10.0.0.1:80",
        queueUs: null,
      },
    },
    { kind: "agent-ended", end: { agentId: "a", reason: "expired", requests: 1, dropped: 3, problem: null } },
    { kind: "ended", requests: 1 },
  ]);
});

test("capture() ends all agents when together they reach the limit", async () => {
  const ended: string[] = [];
  const serve = (name: string, count: number): Serve =>
    async function* (_request, signal) {
      signal.addEventListener("abort", () => ended.push(name));
      for (let index = 0; index < count; index++) yield seen(`/${name}/${index}`);
      await hangUp(signal);
    };
  const { registry } = agentsOf({ a: serve("a", 3), b: serve("b", 3) });
  const events = await all(createCapture({ registry, log: silentLogger })(requestFor(["a", "b"], { limit: 4 }), context));
  expect(events.filter((event) => event.kind === "request")).toHaveLength(4);
  expect(events.flatMap((event) => (event.kind === "agent-ended" ? [event.end.reason] : []))).toEqual(["limit", "limit"]);
  expect(events.at(-1)).toEqual({ kind: "ended", requests: 4 });
  await vi.waitFor(() => expect(ended.sort()).toEqual(["a", "b"]));
});

test("capture() ends the agents when the reader stops or the caller hangs up", async () => {
  for (const how of ["leave", "hang up"]) {
    let isEnded = false;
    const { registry } = agentsOf({
      async *a(_request, signal) {
        yield started;
        yield seen("/x");
        await hangUp(signal);
        isEnded = true;
      },
    });
    const caller = new AbortController();
    for await (const event of createCapture({ registry, log: silentLogger })(requestFor(["a"]), { signal: caller.signal })) {
      if (event.kind !== "request") continue;
      if (how === "leave") break;
      caller.abort();
    }
    await vi.waitFor(() => expect([how, isEnded]).toEqual([how, true]));
  }
});

test("capture() continues without agents that are lost or refuse", async () => {
  const { registry, cut } = agentsOf({
    async *lost(_request, signal) {
      yield started;
      await hangUp(signal);
    },
    async *refuses() {
      yield over("failed", { problem: "hooks are off" });
    },
    async *breaks() {
      yield started;
      throw new CoralError({ code: "exhausted", message: "no memory" });
    },
    async *fine() {
      yield started;
      yield seen("/y");
      yield over("limit");
    },
  });
  const events: CaptureEvent[] = [];
  for await (const event of createCapture({ registry, log: silentLogger })(requestFor(["lost", "refuses", "breaks", "fine"]), context)) {
    events.push(event);
    if (event.kind === "request") cut("lost", "no response for 20 s");
  }
  const ends = Object.fromEntries(events.flatMap((event) => (event.kind === "agent-ended" ? [[event.end.agentId, event.end]] : [])));
  expect(ends).toMatchObject({
    lost: { reason: "lost", problem: "no response for 20 s" },
    refuses: { reason: "failed", problem: "hooks are off" },
    breaks: { reason: "failed" },
    fine: { reason: "limit", requests: 1 },
  });
});

test("capture() fails when no agent is connected", async () => {
  const capture = createCapture({ registry: { find: () => undefined }, log: silentLogger });
  await expect(all(capture(requestFor(["a"]), context))).rejects.toMatchObject({ code: "unavailable" });
});
