/** Rows from spans for services that hooks did not see, so that no request counts twice. */

import { given } from "../../base/given.ts";
import type { RedFacts, RedRequest, SpanRedFacts, SpanRedRequest } from "../../model/red.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";
import type { RedRow } from "../schemas/traffic.ts";
import { serviceAliases } from "../services/service-aliases.ts";
import { perSecond, ratio } from "./red-rows.ts";

export interface SpanRedRows {
  /** Most requests first. */
  rows: RedRow[];
  /** Number of rows before the limit. */
  total: number;
  windowMs: number;
}

/** Maximum number of services seen by hooks that are read. */
const maxServices = 10_000;
const none: SpanRedRows = { rows: [], total: 0, windowMs: 0 };

/** `hooks`: rows from hooks for the same request. Spans do not name the other end, so there are no rows by peer. */
export async function spanRedRows(
  backend: ColonyBackend,
  request: RedRequest,
  hooks: RedFacts,
  context: ToolCallContext,
): Promise<SpanRedRows> {
  const { by } = request;
  if (by === "peer" || request.peer !== undefined) return none;
  const [processes, services] = await Promise.all([backend.spanProcesses(context), backend.services({ processes: false }, context)]);
  const aliases = serviceAliases(processes, services);
  const nameOf = (name: string): string => aliases.get(name) ?? name;
  const seen = await seenByHooks(backend, request, hooks, context);
  const { service: wanted } = request;
  if (wanted !== undefined && seen.has(wanted)) return none;
  const names = wanted === undefined ? [undefined] : [wanted, ...[...aliases].flatMap(([name, own]) => (own === wanted ? [name] : []))];
  const parts = await Promise.all(names.map((name) => readPart(backend, { ...request, by }, name, context)));
  const rows = parts
    .flatMap(({ now, before }) => now.rows.map((row) => rowOf(row, { now, before }, nameOf(row.service))))
    .filter(({ service, protocol }) => !seen.has(service) && (request.protocol === undefined || request.protocol === protocol))
    .sort((a, b) => b.requests - a.requests);
  const isAll = parts.every(({ now }) => now.rows.length === now.total);
  return {
    rows: rows.slice(0, request.limit),
    total: isAll ? rows.length : Math.max(rows.length, ...parts.map(({ now }) => now.total)),
    windowMs: Math.min(request.sinceMs, Math.max(0, ...parts.map(({ now }) => now.coveredMs))),
  };
}

async function seenByHooks(
  backend: ColonyBackend,
  request: RedRequest,
  hooks: RedFacts,
  context: ToolCallContext,
): Promise<ReadonlySet<string>> {
  const { route, protocol, role, service, agentIds, sinceMs } = request;
  const isAll = route === undefined && protocol === undefined && role === undefined && hooks.rows.length === hooks.total;
  const known = isAll
    ? hooks
    : await backend.red(
        {
          ...given({ service, agentIds }),
          by: "service",
          sinceMs,
          maxPoints: 0,
          limit: maxServices,
          compare: false,
        },
        context,
      );
  // Undecrypted TLS connections do not count as requests that hooks saw.
  return new Set(known.rows.filter((row) => row.protocol !== "tls").map((row) => row.service));
}

interface Part {
  now: SpanRedFacts;
  /** The preceding window of equal length. */
  before: SpanRedFacts | null;
}

async function readPart(
  backend: ColonyBackend,
  { by, sinceMs, role, route, agentIds, maxPoints, limit, compare }: RedRequest & { by: SpanRedRequest["by"] },
  service: string | undefined,
  context: ToolCallContext,
): Promise<Part> {
  const asked: SpanRedRequest = {
    by,
    sinceMs,
    limit,
    ...given({ service, role, route, agentIds }),
  };
  const now = await backend.spanRed({ ...asked, points: maxPoints }, context);
  if (!compare || now.rows.length === 0) return { now, before: null };
  const before = await backend.spanRed({ ...asked, endAgoMs: sinceMs }, context);
  return { now, before: before.rows.length === 0 ? null : before };
}

type SpanRow = SpanRedFacts["rows"][number];

/** Fields that spans lack. */
const notInSpans = {
  isTls: false,
  tlsRequests: 0,
  peer: null,
  requestBytes: 0,
  responseBytes: 0,
  queueMeanUs: null,
  queueP95Us: null,
  firstByteP50Us: null,
  firstByteP95Us: null,
  serviceMeanUs: null,
};

/** Exporters batch for five seconds by default, and the colony pulls every five. */
const exportMs = 15_000;

function rowOf(row: SpanRow, { now, before }: Part, service: string): RedRow {
  const was = before?.rows.find((other) => keyOf(other) === keyOf(row));
  const pointMs = row.points.length === 0 ? 0 : (now.endMs - now.startMs) / row.points.length;
  const { protocol, method, route, status, requests, errors, meanUs, p50Us, p95Us, p99Us } = row;
  return {
    source: "spans",
    ...notInSpans,
    service,
    role: row.role === "client" ? "client" : "server",
    protocol,
    method,
    route,
    status,
    requests: Math.round(requests),
    errors: Math.round(errors),
    meanUs,
    p50Us,
    p95Us,
    p99Us,
    perSecond: perSecond(requests, now.coveredMs),
    errorRatio: ratio(errors, requests),
    before:
      was === undefined || before === null
        ? null
        : {
            requests: Math.round(was.requests),
            perSecond: perSecond(was.requests, before.coveredMs),
            errorRatio: ratio(was.errors, was.requests),
            p95Us: was.p95Us,
          },
    // Spans of the last seconds are still in their exporters.
    points: row.points.slice(0, Math.floor((now.endMs - now.startMs - exportMs) / pointMs)).map((count) => perSecond(count, pointMs)),
  };
}

function keyOf({ service, role, protocol, method, route, status }: SpanRow): string {
  return JSON.stringify([service, role, protocol, method, route, status]);
}
