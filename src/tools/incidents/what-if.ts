import * as z from "zod";
import type { ColonyEvent } from "../../model/events.ts";
import { routeText } from "../../model/route-text.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { sinceInput } from "../contract/common-inputs.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { activeAgents } from "../contract/match-agents.ts";
import { share as percent } from "../health/figures.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { type WhatIf, whatIfSchema } from "../schemas/incident.ts";
import { findSender } from "../services/find-service.ts";
import { trafficProblemOf } from "../traffic/traffic-notes.ts";
import { type AffectedCaller, affectedCallers, type ObservedCall } from "./affected-callers.ts";
import { shortened } from "./incident-view.ts";

const historyMs = 30 * 86_400_000;
const eventsMax = 2_000;
const rowsMax = 5_000;
const tracesMax = 200;
/** Keeps one answer under 1,500 tokens of a model's context. */
const shown = { affected: 8, entryRoutes: 8, routes: 3, text: 60 };
/** A caller that turned bad within this time of the failure counts as affected by it. */
const sufferMs = 120_000;

export const whatIf = defineTool({
  name: "coral_whatif",
  title: "What if a service fails",
  description: "Who is affected if a service is down or slow: callers with shares of their requests, entry routes at risk, fallbacks seen.",
  input: z.object({
    service: z.string().min(1).describe("name of the service"),
    event: z.enum(["down", "slow"]),
    since: sinceInput("1h", { minMs: 60_000, maxMs: 7 * 86_400_000 }),
  }),
  output: whatIfSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, { event, since, ...input }, context) => {
    const service = await findSender(backend, input.service, context);
    const seen = await observe(backend, service, since, context);
    const affected = affectedCallers(service, seen.calls, seen.served);
    const entries = new Set(affected.filter((one) => isEntry(one.service, seen)).map((one) => one.service));
    const perSecond = (requests: number): number => rounded(requests / (seen.windowMs / 1_000));
    const routesAtRisk = seen.routes
      .filter((route) => entries.has(route.service) || (entries.size === 0 && route.service === service))
      .map((route) => ({
        service: route.service,
        route: route.route,
        perSecond: perSecond(route.requests),
        isKnownToCall: route.service === service || (seen.callingRoutes.get(route.service)?.includes(route.route) ?? false),
      }))
      .sort((a, b) => Number(b.isKnownToCall) - Number(a.isKnownToCall) || b.perSecond - a.perSecond);
    const direct = affected.filter(({ distance }) => distance === 1);
    const outside = Math.max(0, (seen.served.get(service) ?? 0) - direct.reduce((sum, { requests }) => sum + requests, 0));
    const unknown = unknownOf(service, affected, seen);
    const output: WhatIf = {
      service,
      event,
      summary: summaryOf(service, event, affected, entries),
      windowMs: seen.windowMs,
      affected: affected.slice(0, shown.affected).map((one) => ({
        service: one.service,
        distance: one.distance,
        path: one.path,
        share: one.share === null ? null : rounded(one.share),
        perSecond: perSecond(one.requests),
        isEntry: entries.has(one.service),
        routes: (seen.callingRoutes.get(one.service) ?? []).slice(0, shown.routes).map((route) => shortened(route, shown.text)),
        fallback: one.share === null ? "" : fallbackOf(one.service, seen.failures),
      })),
      entryRoutes: routesAtRisk.slice(0, shown.entryRoutes).map((one) => ({ ...one, route: shortened(one.route, shown.text) })),
      outsidePerSecond: perSecond(outside),
      confidence: unknown.length === 0 ? "high" : unknown.length <= 2 ? "medium" : "low",
      unknown,
    };
    const notes =
      affected.length > shown.affected
        ? [{ kind: "limit" as const, message: `${shown.affected} of ${affected.length} affected services are shown, the nearest first` }]
        : [];
    return { output, completeness: completenessOf(notes) };
  },
});

/** Rounds to four digits. */
const rounded = (value: number): number => Number(value.toPrecision(4));

interface Observed {
  windowMs: number;
  calls: ObservedCall[];
  /** Requests by service. */
  served: Map<string, number>;
  routes: { service: string; route: string; requests: number }[];
  /** By service: routes whose traces reach the service. Known from spans only. */
  callingRoutes: Map<string, string[]>;
  hasSpans: boolean;
  /** Earlier failures of the service, with the services affected then. */
  failures: { atMs: number; suffering: Set<string> }[];
  /** Hosts whose requests are not observed. */
  blindHosts: string[];
}

async function observe(backend: ColonyBackend, service: string, sinceMs: number, context: ToolCallContext): Promise<Observed> {
  const rows = { sinceMs, maxPoints: 0, limit: rowsMax, compare: false, role: "server" } as const;
  const [hooks, spans, red, traces, events, agents] = await Promise.all([
    backend.edgeRed({ sinceMs }, context),
    backend.spanEdges({ sinceMs, percentiles: 0 }, context),
    backend.red({ ...rows, by: "route" }, context),
    backend.traces({ service, error: false, sinceMs, order: "newest", limit: tracesMax }, context),
    backend.events({ sinceMs: historyMs, limit: eventsMax }, context),
    backend.agents(context),
  ]);
  const calls = hooks.edges.flatMap(({ client, server, requests }): ObservedCall[] =>
    client.kind === "service" && server.kind !== "host" ? [{ caller: client.name, callee: server.name, requests }] : [],
  );
  const key = ({ caller, callee }: Omit<ObservedCall, "requests">): string => JSON.stringify([caller, callee]);
  const byHooks = new Set(calls.map(key));
  for (const { client, server, requests } of spans.edges) {
    const call = { caller: client, callee: server, requests };
    if (!byHooks.has(key(call))) calls.push(call);
  }
  const served = new Map<string, number>();
  const routes = red.rows.map((row) => ({
    service: row.service,
    route: routeText(row.method ?? "", row.route ?? ""),
    requests: row.requests,
  }));
  const bySpans = await spanRoutes(backend, { sinceMs, seen: new Set(routes.map((route) => route.service)) }, context);
  for (const route of [...routes, ...bySpans]) served.set(route.service, (served.get(route.service) ?? 0) + route.requests);
  const callingRoutes = new Map<string, string[]>();
  for (const { service: root, name, hasRoot } of traces.rows)
    if (hasRoot && root !== service) callingRoutes.set(root, [...new Set([...(callingRoutes.get(root) ?? []), name])]);
  return {
    windowMs: Math.max(1, Math.min(sinceMs, Math.max(hooks.windowMs, spans.edges.length > 0 ? spans.windowMs : 0))),
    calls: summed(calls, key),
    served,
    routes: [...routes, ...bySpans],
    callingRoutes,
    hasSpans: spans.edges.length > 0,
    failures: failuresOf(service, events),
    blindHosts: activeAgents(agents).flatMap((agent) => (trafficProblemOf(agent) === null ? [] : [agent.hostname])),
  };
}

/** Requests of services that hooks did not see. */
async function spanRoutes(
  backend: ColonyBackend,
  { sinceMs, seen }: { sinceMs: number; seen: ReadonlySet<string> },
  context: ToolCallContext,
): Promise<Observed["routes"]> {
  const { rows } = await backend.spanRed({ by: "route", sinceMs, role: "server", limit: rowsMax }, context);
  return rows
    .filter((row) => !seen.has(row.service))
    .map((row) => ({ service: row.service, route: routeText(row.method ?? "", row.route ?? ""), requests: row.requests }));
}

function summed(calls: readonly ObservedCall[], key: (call: ObservedCall) => string): ObservedCall[] {
  const sums = new Map<string, ObservedCall>();
  for (const call of calls) {
    const known = sums.get(key(call));
    if (known) known.requests += call.requests;
    else sums.set(key(call), { ...call });
  }
  return [...sums.values()];
}

/** True when no service that serves requests calls it. */
function isEntry(service: string, { calls, served }: Observed): boolean {
  if ((served.get(service) ?? 0) === 0) return false;
  const called = calls.filter(({ callee, caller }) => callee === service && caller !== service && (served.get(caller) ?? 0) > 0);
  return called.reduce((sum, { requests }) => sum + requests, 0) < (served.get(service) ?? 0) / 2;
}

function failuresOf(service: string, events: readonly ColonyEvent[]): Observed["failures"] {
  const bad = events.filter(({ kind }) => kind === "service-critical" || kind === "service-degraded");
  return bad
    .filter((event) => event.service === service && event.kind === "service-critical")
    .map((event) => {
      const atMs = Date.parse(event.at);
      const near = bad.filter((one) => Math.abs(Date.parse(one.at) - atMs) <= sufferMs);
      return { atMs, suffering: new Set(near.flatMap((one) => (one.service === null ? [] : [one.service]))) };
    });
}

function fallbackOf(caller: string, failures: Observed["failures"]): string {
  const suffered = failures.filter(({ suffering }) => suffering.has(caller)).length;
  if (failures.length === 0) return "";
  const times = failures.length === 1 ? "the earlier failure" : `${failures.length} earlier failures`;
  if (suffered === 0) return `stayed healthy in ${times}; may have a fallback`;
  return suffered === failures.length ? `was affected in ${times}` : `was affected in ${suffered} of ${times}`;
}

function unknownOf(service: string, affected: readonly AffectedCaller[], seen: Observed): string[] {
  const unknown: string[] = [];
  if (!seen.served.has(service) && affected.length === 0) unknown.push(`no requests to ${service} were seen`);
  if (seen.blindHosts.length > 0)
    unknown.push(`requests on ${seen.blindHosts.slice(0, 3).join(", ")} are not seen: callers there may be missing`);
  if (affected.length > 0 && seen.callingRoutes.size === 0) unknown.push("which routes call it: no spans lead to it");
  if (seen.failures.length === 0) unknown.push("whether callers have a fallback: it has not failed in the last 30 days");
  return unknown;
}

function summaryOf(service: string, event: "down" | "slow", affected: readonly AffectedCaller[], entries: ReadonlySet<string>): string {
  const what = event === "down" ? `If ${service} is down` : `If ${service} is slow`;
  if (affected.length === 0) return `${what}, no other observed service is affected.`;
  const [first] = [...affected]
    .filter((one) => entries.has(one.service) && one.share !== null)
    .sort((a, b) => (b.share ?? 0) - (a.share ?? 0));
  const verb = event === "down" ? "fail" : "are slower";
  const most = first ? `; up to ${percent(first.share ?? 0)} of the requests of ${first.service} ${verb}` : "";
  const services = affected.length === 1 ? "1 service is" : `${affected.length} services are`;
  return `${what}, ${services} affected${most}.`;
}
