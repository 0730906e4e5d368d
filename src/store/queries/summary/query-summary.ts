/** The facts of a health summary, in few statements over pre-aggregated rows. */

import type { Resolved } from "../../../model/services.ts";
import type {
  RequestSource,
  SummaryCallFact,
  SummaryCgroupFact,
  SummaryEventFact,
  SummaryFacts,
  SummaryHostFact,
  SummaryPatternFact,
  SummaryPlaceFact,
  SummaryRequest,
  SummaryRequestsFact,
  SummaryRouteHealthFact,
} from "../../../model/summary.ts";
import { booleanIn, isoTimeIn, numberIn, numberOrNullIn, type Queryable, textIn, textOrNullIn, textsIn } from "../../tables/queryable.ts";
import { queryLogServices } from "../query-log-services.ts";
import { hasRequests } from "../request-parts.ts";
import type { BaselineCache } from "./baseline-cache.ts";
import { oneService, readRequests } from "./period-requests.ts";
import { queryCalls } from "./query-calls.ts";
import { judgedMs, queryRouteHealth } from "./query-route-health.ts";
import { summaryRanges } from "./summary-window.ts";

export interface SummaryQuery extends Resolved<SummaryRequest> {
  nowMs: number;
}

export interface SummaryAnswer extends Omit<SummaryFacts, "nowMs" | "aliases"> {
  startMs: number;
  /** True if any spans are stored. */
  hasSpans: boolean;
}

const hourMs = 3_600_000;
/** Load is sampled every 15 s. This covers two or three samples, so that a limit shows and clears quickly. */
const loadMs = 40_000;
/** An OOM kill is a single moment; it is reported for the rest of a minute. */
const killsMs = 55_000;
/** The baseline of load begins this long ago and ends `loadGapMs` ago. */
const loadBeforeMs = 1_200_000;
const loadGapMs = 300_000;
/** Limit on services whose calls are read. */
const callsOfMax = 300;
/** Events are read for at least this long. */
const eventsMinMs = 900_000;
/** Log records are counted once a minute; a shorter time may have no count yet. */
const logsMinMs = 180_000;
const eventsMax = 1_000;
const patternsMax = 2_000;
/** A pattern with fewer records is not significant. */
const significantRecords = 5;
/** Event kinds that explain a service's behaviour. Excludes captures and joins. */
const eventKinds =
  "deployment deployment-complete deployment-rolled-back deployment-variant deployment-regression deployment-recovered service-restarted binary-updated service-exited service-health-changed egress-new ingress-new log-pattern-new log-burst service-stale service-returned service-degraded service-critical service-recovered".split(
    " ",
  );

/** With a cache, baselines are read again only after a minute. */
export async function querySummary(store: Queryable, query: SummaryQuery, cache?: BaselineCache): Promise<SummaryAnswer> {
  const sources: RequestSource[] = ["hooks", ...((await hasRequests(store, "spans")) ? (["spans"] as const) : [])];
  const ranges = await Promise.all(sources.map((source) => summaryRanges(store, source, query)));
  // If the requested window equals the judged one, its rows are reused for display.
  const isJudgedTime = query.sinceMs === judgedMs && query.service === undefined;
  const requests = Promise.all(
    sources.map((source, index) => readRequests(store, { ...query, withoutNow: isJudgedTime }, source, ranges[index], cache)),
  );
  const places = await readPlaces(store);
  const gone = new Set(goneServices(places));
  // Reads all services even if one is requested: finding the origin of a fault needs its neighbours.
  const routes = Promise.all(sources.map((source) => queryRouteHealth(store, { source, gone, nowMs: query.nowMs }, cache?.routes)));
  const [rows, routeRows, hosts, cgroups, patterns, events, logServices] = await Promise.all([
    requests,
    routes,
    readHosts(store, query),
    readCgroups(store, query),
    readPatterns(store, query),
    readEvents(store, query),
    queryLogServices(store, { ...query, sinceMs: Math.max(query.sinceMs, logsMinMs) }),
  ]);
  const judged = routeRows.flatMap(({ routes: found }) => found);
  const totals = !isJudgedTime
    ? []
    : sources.flatMap((source, index): SummaryRequestsFact[] =>
        (routeRows[index]?.totals ?? []).map(({ service, role, ...amounts }) => ({
          source,
          period: "now",
          coveredMs: ranges[index]?.now.coveredMs ?? judgedMs,
          service,
          role,
          ...amounts,
        })),
      );
  const differing = judged.filter(({ cells }) => cells.length > 0).map(({ service }) => service);
  const missing = new Set([...gone, ...quietServices(judged)]);
  const calls = await readCalls(store, [...new Set([...differing, ...missing])].slice(0, callsOfMax), missing, query.nowMs);
  // Sources that never counted a request have no coverage and must not reduce it.
  const covered = ranges.filter(({ isWatched }) => isWatched).map(({ now }) => now.coveredMs);
  return {
    windowMs: covered.length === 0 ? query.sinceMs : Math.max(...covered),
    startMs: ranges[0]?.now.startMs ?? query.nowMs - query.sinceMs,
    requests: [...totals, ...rows.flat()],
    routes: judged,
    calls,
    places,
    hosts,
    cgroups,
    patterns,
    events,
    logServices,
    hasSpans: sources.includes("spans"),
  };
}

/** Callers of a missing service may have switched to another one, so all their calls are read. */
async function readCalls(
  store: Queryable,
  services: readonly string[],
  missing: ReadonlySet<string>,
  nowMs: number,
): Promise<SummaryCallFact[]> {
  const calls = await queryCalls(store, { services, nowMs });
  const callers = new Set(
    calls.filter(({ callee, service }) => missing.has(callee) && !services.includes(service)).map(({ service }) => service),
  );
  if (callers.size === 0) return calls;
  const others = await queryCalls(store, { services: [...callers].slice(0, callsOfMax), nowMs });
  return [...calls.filter(({ service }) => !callers.has(service)), ...others];
}

/** Services that had at least one request a minute before, and have none now. */
function quietServices(routes: readonly SummaryRouteHealthFact[]): string[] {
  const served = routes.filter(({ role }) => role === "server");
  const busy = new Set(served.filter(({ requests }) => requests > 0).map(({ service }) => service));
  return served.filter(({ service, before }) => !busy.has(service) && (before?.requests ?? 0) >= 60).map(({ service }) => service);
}

/** Services without a running process that are still in the registry. */
function goneServices(places: readonly SummaryPlaceFact[]): string[] {
  const present = new Set(places.filter(({ isPresent }) => isPresent).map(({ service }) => service));
  return places.filter(({ service, isStale }) => !isStale && !present.has(service)).map(({ service }) => service);
}

async function readPlaces(store: Queryable): Promise<SummaryPlaceFact[]> {
  const rows = await store.query(
    `SELECT service, agent_id, max(instances) AS instances, bool_or(present) AS present, bool_and(status = 'stale') AS stale,
       coalesce(max(health) FILTER (health = 'unhealthy'), max(health)) AS health, any_value(health_detail) FILTER (health = 'unhealthy') AS detail,
       bool_or(port > 0) AS listening, bool_or(taken) AS replaced, epoch_ms(max(last_seen)) - epoch_ms(min(first_seen)) AS seen_ms
     FROM (SELECT *, NOT present AND port > 0 AND bool_or(present) OVER (PARTITION BY agent_id, protocol, port) AS taken FROM net.service_registry) GROUP BY service, agent_id ORDER BY service, agent_id`,
  );
  return rows.map((row) => ({
    service: textIn(row, "service"),
    agentId: textIn(row, "agent_id"),
    instances: numberIn(row, "instances"),
    isPresent: booleanIn(row, "present"),
    isStale: booleanIn(row, "stale"),
    isListening: booleanIn(row, "listening"),
    isReplaced: booleanIn(row, "replaced"),
    seenMs: numberIn(row, "seen_ms"),
    health: textOrNullIn(row, "health"),
    healthDetail: textOrNullIn(row, "detail"),
  }));
}

/** SQL condition: the last `backMs`. */
function since(nowMs: number, backMs: number): string {
  return `"time" >= make_timestamp(${Math.floor((nowMs - backMs) * 1_000)})`;
}

async function readHosts(store: Queryable, query: SummaryQuery): Promise<SummaryHostFact[]> {
  const { where, parameters } = oneService(query);
  const chosen = query.service === undefined ? "" : `AND agent_id IN (SELECT agent_id FROM net.service_registry WHERE true ${where})`;
  const isNow = since(query.nowMs, loadMs);
  const isUsual = `NOT (${since(query.nowMs, loadGapMs)})`;
  const compared = ["cpu_busy", "psi_cpu_some", "psi_memory_some", "psi_io_some"];
  const rows = await store.query(
    `SELECT agent_id, ${compared.map((name) => `avg(${name}_ratio) FILTER (${isNow}) AS ${name}, avg(${name}_ratio) FILTER (${isUsual}) AS ${name}_usual`).join(", ")},
       avg(cpu_steal_ratio) FILTER (${isNow}) AS steal, avg(1 - mem_available_bytes / nullif(mem_total_bytes, 0)) FILTER (${isNow}) AS mem,
       coalesce(sum(oom_kills) FILTER (${since(query.nowMs, killsMs)}), 0)::DOUBLE AS oom
     FROM raw.host JOIN internal.sources USING (source) WHERE ${since(query.nowMs, loadBeforeMs)} ${chosen} GROUP BY agent_id`,
    parameters,
  );
  return rows.map((row) => ({
    agentId: textIn(row, "agent_id"),
    cpuBusyRatio: numberOrNullIn(row, "cpu_busy"),
    cpuStealRatio: numberOrNullIn(row, "steal"),
    memUsedRatio: numberOrNullIn(row, "mem"),
    psiCpuRatio: numberOrNullIn(row, "psi_cpu_some"),
    psiMemoryRatio: numberOrNullIn(row, "psi_memory_some"),
    psiIoRatio: numberOrNullIn(row, "psi_io_some"),
    oomKills: numberIn(row, "oom"),
    usual: {
      cpuBusyRatio: numberOrNullIn(row, "cpu_busy_usual"),
      psiCpuRatio: numberOrNullIn(row, "psi_cpu_some_usual"),
      psiMemoryRatio: numberOrNullIn(row, "psi_memory_some_usual"),
      psiIoRatio: numberOrNullIn(row, "psi_io_some_usual"),
    },
  }));
}

async function readCgroups(store: Queryable, query: SummaryQuery): Promise<SummaryCgroupFact[]> {
  const { where, parameters } = oneService(query);
  const [inTime, isNow] = [since(query.nowMs, killsMs), since(query.nowMs, loadMs)];
  // For all services, only control groups that reached a limit are read; they are few.
  const groups = `cgroup <> '/' ${
    query.service === undefined
      ? `AND cgroup IN (SELECT cgroup FROM raw.host_cgroup WHERE ${inTime} AND (throttled_ratio > 0.05 OR oom_kills > 0 OR mem_used_bytes > 0.9 * mem_limit_bytes))`
      : ""
  }`;
  // A process may have been moved to another group since discovery. The busiest processes are sampled with their current group.
  const rows = await store.query(
    `WITH located AS (
       SELECT agent_id, service, cgroup FROM net.service_instances WHERE ${groups}
       UNION SELECT i.agent_id, i.service, h.cgroup FROM (
         SELECT DISTINCT agent_id, pid, start_ticks, cgroup FROM raw.host_process JOIN internal.sources USING (source) WHERE ${isNow} AND ${groups}
       ) h JOIN net.service_instances i USING (agent_id, pid, start_ticks)
     ),
     place AS (
       SELECT agent_id, cgroup, list_sort(list(DISTINCT service)) AS services FROM located
       ${query.service === undefined ? "" : `WHERE (agent_id, cgroup) IN (SELECT (agent_id, cgroup) FROM located WHERE true ${where})`} GROUP BY agent_id, cgroup
     )
     SELECT p.agent_id, p.cgroup, any_value(p.services) AS services, avg(c.cpu_cores) FILTER (${isNow}) AS cpu, max(c.cpu_limit_cores) AS cpu_limit,
       avg(c.throttled_ratio) FILTER (${isNow}) AS throttled, max(c.mem_used_bytes) FILTER (${isNow}) AS mem, max(c.mem_limit_bytes) AS mem_limit, sum(c.oom_kills)::DOUBLE AS oom
     FROM (SELECT * FROM raw.host_cgroup WHERE ${inTime} AND cgroup IN (SELECT cgroup FROM place)) c
     JOIN internal.sources s USING (source) JOIN place p ON p.agent_id = s.agent_id AND p.cgroup = c.cgroup GROUP BY p.agent_id, p.cgroup`,
    parameters,
  );
  return rows.map((row) => ({
    agentId: textIn(row, "agent_id"),
    cgroup: textIn(row, "cgroup"),
    services: textsIn(row, "services"),
    cpuCores: numberOrNullIn(row, "cpu"),
    cpuLimitCores: numberOrNullIn(row, "cpu_limit"),
    throttledRatio: numberOrNullIn(row, "throttled"),
    memUsedBytes: numberOrNullIn(row, "mem"),
    memLimitBytes: numberOrNullIn(row, "mem_limit"),
    oomKills: numberIn(row, "oom"),
  }));
}

async function readPatterns(store: Queryable, query: SummaryQuery): Promise<SummaryPatternFact[]> {
  const { where, parameters } = oneService(query);
  const startMs = query.nowMs - query.sinceMs;
  const startUs = Math.floor(startMs * 1_000);
  const isNow = `"time" >= make_timestamp(${startUs})`;
  const chosen = `severity IN ('error', 'fatal') ${query.service === undefined ? "" : "OR is_new"}`;
  const rows = await store.query(
    `SELECT service, pattern, any_value(template) AS template, any_value(severity) AS severity, coalesce(bool_or(is_new) FILTER (${isNow}), false) AS is_new,
       coalesce(sum(records) FILTER (${isNow}), 0)::DOUBLE AS records, coalesce(sum(records) FILTER (NOT (${isNow})), 0)::DOUBLE AS before,
       min("time") FILTER (${isNow}) AS first_at, max("time") FILTER (${isNow}) AS last_at
     FROM raw.log_pattern WHERE ${since(query.nowMs, query.sinceMs + hourMs)} AND (${chosen}) ${where}
     GROUP BY service, pattern HAVING records > 0 ORDER BY records DESC, service, pattern LIMIT ${patternsMax}`,
    parameters,
  );
  const many = rows.filter((row) => numberIn(row, "records") >= significantRecords).map((row) => textIn(row, "service"));
  const covered = await readLogCover(store, query, startMs, new Set(many));
  return rows.map((row) => ({
    service: textIn(row, "service"),
    pattern: textIn(row, "pattern"),
    template: textIn(row, "template"),
    severity: textIn(row, "severity"),
    isNew: booleanIn(row, "is_new") && numberIn(row, "before") === 0,
    records: numberIn(row, "records"),
    recordsBefore: numberIn(row, "before"),
    coveredBeforeMs: covered.get(textIn(row, "service")) ?? 0,
    firstAt: row["first_at"] === null ? null : isoTimeIn(row, "first_at"),
    lastAt: row["last_at"] === null ? null : isoTimeIn(row, "last_at"),
  }));
}

/** How long before the period the log records of a service were counted: without that there is no baseline. */
async function readLogCover(
  store: Queryable,
  query: SummaryQuery,
  startMs: number,
  services: ReadonlySet<string>,
): Promise<Map<string, number>> {
  if (services.size === 0) return new Map();
  const { where, parameters } = oneService(query);
  const rows = await store.query(
    `SELECT service, min("time") AS first FROM raw.log_pattern WHERE ${since(query.nowMs, query.sinceMs + hourMs)} ${where} GROUP BY service`,
    parameters,
  );
  return new Map(rows.map((row) => [textIn(row, "service"), Math.max(0, startMs - numberIn(row, "first") / 1_000)]));
}

async function readEvents(store: Queryable, query: SummaryQuery): Promise<SummaryEventFact[]> {
  const { where, parameters } = oneService(query);
  const backMs = Math.max(query.sinceMs, query.service === undefined ? eventsMinMs : hourMs);
  const rows = await store.query(
    `SELECT "time", kind, severity, service, agent_id, message FROM (SELECT * REPLACE (service_id AS service) FROM events)
     WHERE ${since(query.nowMs, backMs)} AND service IS NOT NULL AND kind IN (${eventKinds.map((kind) => `'${kind}'`).join(", ")}) ${where}
     ORDER BY "time" DESC, kind, message LIMIT ${eventsMax}`,
    parameters,
  );
  return rows.map((row) => ({
    at: isoTimeIn(row, "time"),
    kind: textIn(row, "kind"),
    severity: textIn(row, "severity"),
    service: textIn(row, "service"),
    agentId: textOrNullIn(row, "agent_id"),
    message: textIn(row, "message"),
  }));
}
