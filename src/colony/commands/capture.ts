/** Captures: calls each agent of a service, merges their streams into one, and always ends it, whatever happens to the agents. */

import { randomUUID } from "node:crypto";
import { createClient } from "@connectrpc/connect";
import { BoundedChannel } from "../../base/bounded-channel.ts";
import { sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { AgentService, type CapturedRequest as WireRequest } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { CapturedRequest, CaptureEnd, CaptureEvent, CaptureRequest, ColonyBackend, ToolCallContext } from "../../tools/index.ts";
import { fromConnectError, type Tunnel } from "../../transport/index.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";

/** Events buffered for the reader. When the buffer is full, the agents wait and drop requests beyond their own limits. */
const maxWaiting = 256;
/** How long after the capture's duration an agent may report its end: one that just started begins up to ten seconds late. */
const graceMs = 15_000;
const lossGraceMs = 200;

export interface CaptureOptions {
  registry: Pick<AgentRegistry, "find">;
  log: Logger;
}

export function createCapture(options: CaptureOptions): ColonyBackend["capture"] {
  return (request, context) => runCapture(options, request, context);
}

interface Target {
  agentId: string;
  hostname: string;
  tunnel: Tunnel;
}

async function* runCapture(options: CaptureOptions, request: CaptureRequest, context: ToolCallContext): AsyncGenerator<CaptureEvent> {
  const captureId = randomUUID();
  const targets = targetsOf(options.registry, request.agentIds);
  if (targets.length === 0) {
    throw new CoralError({
      code: "unavailable",
      message: `Cannot capture "${request.service}": none of its agents is connected; see coral agent list`,
    });
  }
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal, AbortSignal.timeout(request.durationMs + graceMs)]);
  const channel = new BoundedChannel<CaptureEvent>(maxWaiting);
  const run = Promise.all(
    targets.map(async (target) => {
      const agentRequest = { ...request, captureId, caller: context.caller ?? "" };
      const end = await follow(target, agentRequest, signal, (event) => channel.put(event));
      await channel.put({ kind: "agent-ended", end });
    }),
  ).then(() => channel.end());
  options.log.info(`Capture of ${request.service} started`, { captureId, caller: context.caller, agents: targets.length });
  let requests = 0;
  try {
    const agents = targets.map(({ agentId, hostname }) => ({ agentId, hostname }));
    yield { kind: "started", captureId, service: request.service, agents };
    for await (const event of channel) {
      if (event.kind === "request" && ++requests > request.limit) continue;
      yield requests >= request.limit ? reached(event) : event;
      // Each agent stops at the limit by itself; together they may exceed it.
      if (requests >= request.limit && targets.length > 1) stop.abort();
    }
    yield { kind: "ended", requests: Math.min(requests, request.limit) };
  } finally {
    stop.abort();
    channel.end();
    await run;
    options.log.info(`Capture of ${request.service} ended`, { captureId, requests });
  }
}

/** An agent that was cancelled because all together reached the limit ends with `limit`. */
function reached(event: CaptureEvent): CaptureEvent {
  if (event.kind !== "agent-ended" || event.end.reason !== "cancelled") return event;
  return { ...event, end: { ...event.end, reason: "limit" } };
}

function targetsOf(registry: Pick<AgentRegistry, "find">, agentIds: readonly string[]): Target[] {
  return agentIds.flatMap((agentId) => {
    const entry = registry.find(agentId);
    const tunnel = entry?.session?.tunnel;
    return entry && tunnel ? [{ agentId, hostname: entry.record.hostname, tunnel }] : [];
  });
}

/** Streams one agent's events until its end. Never throws: a failure is an end with a reason. */
async function follow(
  target: Target,
  request: CaptureRequest & { captureId: string; caller: string },
  signal: AbortSignal,
  /** Resolves to false when the reader is gone. */
  put: (event: CaptureEvent) => Promise<boolean>,
): Promise<CaptureEnd> {
  const { agentId, hostname } = target;
  const end: CaptureEnd = { agentId, hostname, reason: "cancelled", problem: null, code: null, requests: 0, dropped: 0 };
  // A stream does not always end when its connection dies.
  const gone = new AbortController();
  void target.tunnel.closed.then(({ reason }) => gone.abort(new CoralError({ code: "unavailable", message: reason })));
  try {
    const { captureId, service, route = "", status = "", minDurationMs, limit, durationMs, includeBody, caller } = request;
    const stream = createClient(AgentService, target.tunnel.transport).capture(
      { captureId, service, route, status, minDurationMs, limit, durationMs, includeBody, caller },
      { signal: AbortSignal.any([signal, gone.signal]) },
    );
    for await (const { event } of stream) {
      if (event.case === "started") {
        const { processes, limit: allowed, durationMs: allowedMs } = event.value;
        await put({ kind: "agent-started", agentId, hostname, processes, limit: allowed, durationMs: allowedMs });
      } else if (event.case === "request") {
        end.requests++;
        if (!(await put({ kind: "request", request: requestOf(event.value, target, service) }))) break;
      } else if (event.case === "ended") {
        const { reason, problem, dropped, code } = event.value;
        return { ...end, reason: reasonOf(reason), problem: problem === "" ? null : problem, code: code === "" ? null : code, dropped };
      }
    }
    return end;
  } catch (error) {
    // The stream's error arrives a moment before the tunnel reports why it closed.
    await Promise.race([target.tunnel.closed, sleep(lossGraceMs, signal).catch(() => undefined)]);
    if (gone.signal.aborted) return { ...end, reason: "lost", code: "unavailable", problem: (await target.tunnel.closed).reason };
    if (signal.aborted) return end;
    const problem = fromConnectError(error);
    const isOld = problem.code === "unsupported";
    return {
      ...end,
      reason: "failed",
      code: problem.code,
      problem: isOld ? "the agent's version cannot capture; update the agent" : problem.message,
    };
  }
}

function reasonOf(text: string): CaptureEnd["reason"] {
  return text === "limit" || text === "expired" || text === "cancelled" ? text : "failed";
}

function requestOf(wire: WireRequest, { agentId, hostname }: Target, service: string): CapturedRequest {
  const headers = (list: WireRequest["requestHeaders"]): [string, string][] => list.map(({ name, value }) => [name, value]);
  const { pid, protocol, isTls, method, target, route, status, isError } = wire;
  return {
    at: new Date(Number(wire.atUs / 1_000n)).toISOString(),
    agentId,
    hostname,
    service,
    role: wire.role === "client" ? "client" : "server",
    pid,
    protocol,
    isTls,
    method,
    target,
    route,
    status,
    isError,
    client: joinAddress(wire.clientAddress, wire.clientPort),
    server: joinAddress(wire.serverAddress, wire.serverPort),
    peer: wire.peer === "" ? null : wire.peer,
    requestHeaders: headers(wire.requestHeaders),
    responseHeaders: headers(wire.responseHeaders),
    requestBytes: Number(wire.requestBytes),
    responseBytes: Number(wire.responseBytes),
    durationUs: Number(wire.durationUs),
    firstByteUs: wire.firstByteUs === undefined ? null : Number(wire.firstByteUs),
    queueUs: wire.queueUs === undefined ? null : Number(wire.queueUs),
    requestBody: wire.requestBody ?? null,
    responseBody: wire.responseBody ?? null,
  };
}

function joinAddress(address: string, port: number): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}
