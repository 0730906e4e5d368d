/** Captures at the agent: clamps the request to the limits, selects the service's processes, drops headers not allowed, writes the audit. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { background } from "../../base/background.ts";
import { BoundedChannel } from "../../base/bounded-channel.ts";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { formatDurationMs } from "../../base/units.ts";
import { nameInServiceId } from "../../model/service-identity.ts";
import type { CaptureRequest, CaptureResponseSchema } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { event, RowOf } from "../../store/signals/index.ts";
import type { CapturedRequest, CaptureOrder } from "../../traffic/index.ts";
import type { AuditNote } from "../audit/audit-log.ts";
import type { CaptureHub, CaptureReport } from "./capture-hub.ts";

type Response = MessageInitShape<typeof CaptureResponseSchema>;
type EndReason = "limit" | "expired" | "cancelled" | "failed";

/** Limits of this agent; a colony's request cannot exceed them. */
export interface CaptureLimits {
  isEnabled: boolean;
  maxDurationMs: number;
  maxRequests: number;
  /** Concurrent captures. */
  maxCaptures: number;
  allowBody: boolean;
  /** Lower case; other headers are not sent. */
  headers: readonly string[];
}

export interface CaptureServiceOptions {
  hub: CaptureHub;
  /** Processes of a service, given by id or name, in the newest scan. */
  pidsOf: (service: string) => Promise<number[]>;
  /** The running service with this id or name. */
  serviceOf: (service: string) => { service: string; name: string } | undefined;
  limits: () => CaptureLimits;
  audit: (row: RowOf<typeof event.columns>) => Promise<void>;
  clock: Clock;
  log: Logger;
}

/** Requests buffered for a slow reader; more are dropped and counted. */
const maxWaiting = 1_000;
/** The traffic process ends captures at their deadline; this timeout covers a process that does not. */
const graceMs = 2_000;
/** Enough for an agent to load its hooks and to scan for services. */
const startMs = 10_000;

export interface CaptureService {
  /** Streams until the capture ends; aborting the signal or no longer reading ends it. Never throws: a failure is the last message. */
  capture(request: CaptureRequest, signal: AbortSignal): AsyncGenerator<Response>;
}

export function createCaptureService(options: CaptureServiceOptions): CaptureService {
  return { capture: (request, signal) => runCapture(options, request, signal) };
}

/** Yields `started`, requests, and `ended`. The capture is audited even if the consumer stops reading in between. */
async function* runCapture(options: CaptureServiceOptions, request: CaptureRequest, signal: AbortSignal): AsyncGenerator<Response> {
  let order: CaptureOrder;
  try {
    order = await orderOf(options, request, signal);
  } catch (error) {
    const { code, message } = CoralError.from(error);
    options.log.warn(message, { caller: request.caller });
    yield { event: { case: "ended", value: { reason: "failed", problem: message, code } } };
    return;
  }
  const run = new CaptureRun(options, request, order);
  try {
    await run.begin(signal);
    yield { event: { case: "started", value: { processes: order.pids.length, limit: order.limit, durationMs: order.durationMs } } };
    for await (const captured of run.requests) {
      run.sent++;
      yield { event: { case: "request", value: captured } };
    }
    yield { event: { case: "ended", value: run.summary() } };
  } finally {
    await run.close();
  }
}

type WireRequest = Extract<NonNullable<Response["event"]>, { case: "request" }>["value"];

/** One capture from its start to its audited end. */
class CaptureRun {
  readonly requests = new BoundedChannel<WireRequest>(maxWaiting);
  sent = 0;
  reason: EndReason | undefined;
  problem = "";
  readonly #options: CaptureServiceOptions;
  readonly #request: CaptureRequest;
  readonly #order: CaptureOrder;
  #found: { service: string; name: string } | undefined;
  readonly #allowedHeaders: ReadonlySet<string>;
  #remaining: number;
  #timer: NodeJS.Timeout | undefined;
  #signal: AbortSignal | undefined;
  #isAudited = false;
  /** The caller may stop reading after an abort, so the end is audited here. */
  readonly #onAbort = (): void => background(this.#options.log, "Closing a capture", this.close());

  constructor(options: CaptureServiceOptions, request: CaptureRequest, order: CaptureOrder) {
    this.#options = options;
    this.#request = request;
    this.#order = order;
    this.#remaining = order.limit;
    this.#allowedHeaders = new Set(options.limits().headers.map((name) => name.toLowerCase()));
  }

  /** Writes the audit entry first: no request is captured without one. */
  async begin(signal: AbortSignal): Promise<void> {
    const { hub } = this.#options;
    await this.#audit("capture-started", `${this.#callerName()} captures requests of ${this.#service().name}${this.#filterText()}`);
    this.#isAudited = true;
    this.#signal = signal;
    signal.addEventListener("abort", this.#onAbort, { once: true });
    if (signal.aborted) return this.#onAbort();
    this.#timer = setTimeout(() => this.#end("expired"), this.#order.durationMs + graceMs);
    hub.start(this.#order, (report) => this.#accept(report));
  }

  summary() {
    const { reason = "cancelled", problem, sent, requests } = this;
    return { reason, problem, requests: sent, dropped: requests.dropped, code: problem === "" ? "" : "unavailable" };
  }

  async close(): Promise<void> {
    this.#end("cancelled");
    if (!this.#isAudited) return;
    this.#isAudited = false;
    const count = `${this.sent} ${this.sent === 1 ? "request" : "requests"}`;
    const text = `${this.#callerName()} captured ${count} of ${this.#service().name}; ended: ${endTexts[this.reason ?? "cancelled"]}`;
    await this.#audit("capture-ended", text, {
      requests: this.sent,
      dropped: this.requests.dropped,
      reason: this.reason,
      problem: this.problem,
    });
  }

  #accept(report: CaptureReport): void {
    switch (report.kind) {
      case "captured":
        if (this.#remaining <= 0) return;
        this.#remaining--;
        this.requests.offer(this.#wireOf(report));
        if (this.#remaining === 0) this.#end("limit");
        return;
      case "capture-ended":
        return this.#end(report.reason);
      case "capture-lost":
        this.problem = "the agent's traffic process exited and is restarting; try again in a few seconds";
        return this.#end("failed");
    }
  }

  #end(reason: EndReason): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#options.hub.stop(this.#order.captureId);
    this.requests.end();
  }

  #wireOf(request: CapturedRequest): WireRequest {
    const { clock, limits } = this.#options;
    const agoMs = clock.monotonicMs() - Number(request.at.monoNs / 1_000n) / 1_000;
    const isBody = this.#order.includeBody && limits().allowBody;
    const headers = (list: CapturedRequest["requestHeaders"]) =>
      list.filter(([name]) => this.#allowedHeaders.has(name.toLowerCase())).map(([name, value]) => ({ name, value }));
    const { pid, role, protocol, isTls, clientAddress, clientPort, serverAddress, serverPort, method, target, route, status, isError } =
      request;
    return {
      pid,
      role,
      protocol,
      isTls,
      clientAddress,
      clientPort,
      serverAddress,
      serverPort,
      method,
      target,
      route,
      status,
      isError,
      peer: request.peer ?? "",
      atUs: BigInt(Math.round((clock.wallMs() - agoMs) * 1_000)),
      requestHeaders: headers(request.requestHeaders),
      responseHeaders: headers(request.responseHeaders),
      requestBytes: BigInt(Math.round(request.requestBytes)),
      responseBytes: BigInt(Math.round(request.responseBytes)),
      durationUs: microseconds(request.durationNs),
      ...(request.firstByteNs === null ? {} : { firstByteUs: microseconds(request.firstByteNs) }),
      ...(request.queueNs === null ? {} : { queueUs: microseconds(request.queueNs) }),
      ...(isBody && request.requestBody !== null ? { requestBody: request.requestBody } : {}),
      ...(isBody && request.responseBody !== null ? { responseBody: request.responseBody } : {}),
    };
  }

  #service(): { service: string; name: string } {
    const { service } = this.#request;
    this.#found ??= this.#options.serviceOf(service) ?? { service, name: nameInServiceId(service) };
    return this.#found;
  }

  #callerName(): string {
    return this.#request.caller === "" ? "unknown caller" : this.#request.caller;
  }

  #filterText(): string {
    const { route, status, minDurationMs, includeBody, limit, durationMs } = this.#order;
    const parts = [
      ...(route === null ? [] : [`route ${route}`]),
      ...(status === null ? [] : [`status ${status}`]),
      ...(minDurationMs === 0 ? [] : [`slower than ${formatDurationMs(minDurationMs)}`]),
      ...(includeBody ? ["with bodies"] : []),
      `at most ${limit} within ${formatDurationMs(durationMs)}`,
    ];
    return ` (${parts.join(", ")})`;
  }

  async #audit(kind: "capture-started" | "capture-ended", message: string, more: Record<string, unknown> = {}): Promise<void> {
    const { clock, log, audit } = this.#options;
    const { captureId, pids, route, status, minDurationMs, limit, durationMs, includeBody } = this.#order;
    log.info(message, { captureId });
    await audit({
      at: Math.round(clock.wallMs() * 1_000),
      mono_ms: Math.round(clock.monotonicMs()),
      kind,
      severity: "info",
      service: this.#service().service,
      pid: null,
      message,
      details: JSON.stringify({
        captureId,
        name: this.#service().name,
        caller: this.#request.caller,
        processes: pids.length,
        filters: { route, status, minDurationMs },
        limit,
        durationMs,
        body: includeBody,
        ...more,
      }),
    });
  }
}

/** The audit entry for a capture's event row. */
export function captureAuditNote(row: RowOf<typeof event.columns>): AuditNote {
  const details = JSON.parse(row.details) as { captureId?: string; name?: string; caller?: string; reason?: string };
  const isStart = row.kind === "capture-started";
  return {
    kind: "capture",
    phase: isStart ? "begun" : "ended",
    command_id: details.captureId ?? "",
    caller: details.caller ?? "",
    target: `service ${details.name ?? ""}`,
    place: "host",
    command: "capture",
    reason: isStart ? "" : (details.reason ?? ""),
    details: row.details,
  };
}

const endTexts: Record<EndReason, string> = {
  limit: "request limit reached",
  expired: "duration elapsed",
  cancelled: "cancelled by the caller",
  failed: "failed",
};

/** The order for the traffic process, with a slot reserved for it; throws an error for the caller. */
async function orderOf(
  { hub, pidsOf, serviceOf, limits }: CaptureServiceOptions,
  request: CaptureRequest,
  signal: AbortSignal,
): Promise<CaptureOrder> {
  const allowed = limits();
  const fail = (code: "not-permitted" | "unsupported" | "unavailable" | "exhausted" | "not-found", state: string): CoralError =>
    new CoralError({ code, message: `Cannot capture "${serviceOf(request.service)?.name ?? nameInServiceId(request.service)}": ${state}` });
  if (!allowed.isEnabled) throw fail("not-permitted", "traffic.capture.enabled is false in the agent's config");
  if (request.includeBody && !allowed.allowBody) throw fail("not-permitted", "traffic.capture.bodies is false in the agent's config");
  const pendingStep = await hub.started(startMs, signal);
  if (pendingStep !== null) throw fail("unavailable", `the agent is still starting: ${pendingStep}; try again in a few seconds`);
  const { problem } = hub;
  if (problem !== null) throw fail("unsupported", `the agent observes no requests: ${problem}`);
  const pids = await pidsOf(request.service);
  if (pids.length === 0) throw fail("not-found", "it has no running process on this host");
  if (!hub.claim(request.captureId, allowed.maxCaptures))
    throw fail("exhausted", `${hub.running} of ${allowed.maxCaptures} captures are running at this agent; stop one or wait until it ends`);
  return {
    captureId: request.captureId,
    pids,
    route: request.route === "" ? null : request.route,
    status: request.status === "" ? null : request.status,
    minDurationMs: request.minDurationMs,
    limit: Math.min(Math.max(1, request.limit), allowed.maxRequests),
    durationMs: Math.min(Math.max(1, request.durationMs), allowed.maxDurationMs),
    includeBody: request.includeBody,
  };
}

function microseconds(ns: number): bigint {
  return BigInt(Math.max(0, Math.round(ns / 1_000)));
}
