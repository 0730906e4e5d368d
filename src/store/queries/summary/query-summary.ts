/** The facts of a summary: few statements, over what was added up when rows came. */

import type {
  RequestSource,
  SummaryCgroupFact,
  SummaryEventFact,
  SummaryFacts,
  SummaryHostFact,
  SummaryPatternFact,
  SummaryPeriod,
  SummaryPlaceFact,
  SummaryRequest,
  SummaryRequestsFact,
} from "../../../model/summary.ts";
import {
  booleanIn,
  isoTimeIn,
  numberIn,
  numberOrNullIn,
  type Queryable,
  type QueryParameter,
  type QueryRow,
  textIn,
  textOrNullIn,
  textsIn,
} from "../../tables/queryable.ts";
import { queryLogServices } from "../query-log-services.ts";
import { percentileIn } from "../red-parts.ts";
import { hasRequests, requestPartsSql } from "../request-parts.ts";
import type { BaselineMemory } from "./baseline-memory.ts";
import { type PeriodRange, type PeriodRanges, summaryRanges } from "./summary-window.ts";

export interface SummaryQuery extends SummaryRequest {
  nowMs: number;
}

export interface SummaryAnswer extends Omit<SummaryFacts, "nowMs" | "aliases"> {
  startMs: number;
  /** Whether any spans are stored. */
  hasSpans: boolean;
}

const hourMs = 3_600_000;
/** Load of hosts is read from at most this long: it is about now. */
const loadMaxMs = 900_000;
/** Events are read from at least this long. */
const eventsMinMs = 900_000;
/** Log records are counted once a minute: of less time there may be no count yet. */
const logsMinMs = 180_000;
const eventsMax = 1_000;
const patternsMax = 2_000;
/** Kinds that explain what a service does; captures and joins do not. */
const eventKinds =
  "deployment deployment-regression deployment-recovered service-restarted binary-updated service-exited service-health-changed egress-new ingress-new log-pattern-new log-burst service-stale service-returned".split(
    " ",
  );

/** With a memory, what was normal is not read again for a minute. */
export async function querySummary(store: Queryable, query: SummaryQuery, memory?: BaselineMemory): Promise<SummaryAnswer> {
  const sources: RequestSource[] = ["hooks", ...((await hasRequests(store, "spans")) ? (["spans"] as const) : [])];
  const ranges = await Promise.all(sources.map((source) => summaryRanges(store, source, query)));
  const requests = Promise.all(sources.map((source, index) => readRequests(store, query, source, ranges[index], memory)));
  const [rows, places, hosts, cgroups, patterns, events, logServices] = await Promise.all([
    requests,
    readPlaces(store, query),
    readHosts(store, query),
    readCgroups(store, query),
    readPatterns(store, query),
    readEvents(store, query),
    queryLogServices(store, { ...query, sinceMs: Math.max(query.sinceMs, logsMinMs) }),
  ]);
  // Where nothing was ever counted, nothing is covered either, and that must not decide.
  const covered = ranges.filter(({ isWatched }) => isWatched).map(({ now }) => now.coveredMs);
  return {
    windowMs: covered.length === 0 ? query.sinceMs : Math.max(...covered),
    startMs: ranges[0]?.now.startMs ?? query.nowMs - query.sinceMs,
    requests: rows.flat(),
    places,
    hosts,
    cgroups,
    patterns,
    events,
    logServices,
    hasSpans: sources.includes("spans"),
  };
}

const oneService = ({ service }: SummaryQuery): { where: string; parameters: Record<string, QueryParameter> } =>
  service === undefined ? { where: "", parameters: {} } : { where: " AND service = $service", parameters: { service } };

/** TLS connections known only by their server name are not requests. */
const notRequests = "AND role IN ('server', 'client') AND protocol <> 'tls'";

async function readRequests(
  store: Queryable,
  query: SummaryQuery,
  source: RequestSource,
  ranges: PeriodRanges | undefined,
  memory: BaselineMemory | undefined,
): Promise<SummaryRequestsFact[]> {
  if (ranges === undefined) return [];
  const periods = (["now", "before", "yesterday"] as const).flatMap((period): PeriodOfRange[] => {
    const range = ranges[period];
    return range === undefined ? [] : [{ period, range }];
  });
  // Of one service all is read at once: there, planning costs more than reading.
  if (query.service !== undefined) return await readPeriods(store, query, source, periods);
  const settled = periods.filter(({ period, range }) => period !== "now" && range.resolution === "10m");
  const others = periods.filter((period) => !settled.includes(period));
  const key = JSON.stringify([source, settled]);
  const readSettled = (): Promise<SummaryRequestsFact[]> => readPeriods(store, query, source, settled);
  const parts = await Promise.all([
    readPeriods(store, query, source, others),
    settled.length === 0 ? [] : memory ? memory.rows(key, query.nowMs, readSettled) : readSettled(),
  ]);
  return parts.flat();
}

interface PeriodOfRange {
  period: SummaryPeriod;
  range: PeriodRange;
}

async function readPeriods(
  store: Queryable,
  query: SummaryQuery,
  source: RequestSource,
  periods: readonly PeriodOfRange[],
): Promise<SummaryRequestsFact[]> {
  const { where, parameters } = oneService(query);
  const columns = "service, role, is_error, requests, duration_us, queue_us, queue_samples, duration_lo, duration_counts";
  const parts = periods.map(
    ({ range }, index) => `SELECT ${index}::UTINYINT AS period, ${columns} FROM (${requestPartsSql(source, range, notRequests + where)})`,
  );
  const key = "hash(period, service, role)";
  // Groups are joined by number: joining by name would cost more than all the rest.
  const rows = await store.query(
    `WITH part AS NOT MATERIALIZED (${parts.join(" UNION ALL ")}),
     bucketed AS (
       SELECT gid, bucket, sum(n)::DOUBLE AS n FROM (
         SELECT ${key} AS gid, unnest(range(duration_lo, duration_lo + len(duration_counts))) AS bucket, unnest(duration_counts) AS n
         FROM part WHERE len(duration_counts) BETWEEN 1 AND 4096 AND duration_lo BETWEEN 0 AND 4096
       ) WHERE n > 0 GROUP BY gid, bucket
     ),
     running AS (
       SELECT gid, bucket, sum(n) OVER (PARTITION BY gid ORDER BY bucket) AS upto, sum(n) OVER (PARTITION BY gid) AS total FROM bucketed
     )
     SELECT g.*, d.p50, d.p95, d.p99 FROM (
       SELECT ${key} AS gid, period, service, role, sum(requests) AS requests, coalesce(sum(requests) FILTER (is_error), 0) AS errors,
         sum(duration_us) AS duration_us, sum(queue_us) AS queue_us, sum(queue_samples) AS queue_samples
       FROM part GROUP BY period, service, role
     ) g LEFT JOIN (
       SELECT gid, ${[50, 95, 99].map((share) => `min(bucket) FILTER (upto >= ${share / 100} * total) AS p${share}`).join(", ")} FROM running GROUP BY gid
     ) d ON d.gid = g.gid`,
    parameters,
  );
  return rows.flatMap((row): SummaryRequestsFact[] => {
    const found = periods[numberIn(row, "period")];
    if (!found) return [];
    return [
      {
        source,
        period: found.period,
        coveredMs: found.range.coveredMs,
        service: textIn(row, "service"),
        role: roleIn(row),
        ...amountsIn(row),
      },
    ];
  });
}

export function roleIn(row: QueryRow): "server" | "client" {
  return textIn(row, "role") === "client" ? "client" : "server";
}

/** Sums and percentiles of a row that has `requests`, `errors`, `duration_us`, `queue_us`, `queue_samples` and the buckets of percentiles. */
export function amountsIn(
  row: QueryRow,
): Pick<SummaryRequestsFact, "requests" | "errors" | "meanUs" | "queueMeanUs" | "p50Us" | "p95Us" | "p99Us"> {
  const [requests, samples] = [numberIn(row, "requests"), numberIn(row, "queue_samples")];
  return {
    requests,
    errors: numberIn(row, "errors"),
    meanUs: requests > 0 ? numberIn(row, "duration_us") / requests : null,
    queueMeanUs: samples > 0 ? numberIn(row, "queue_us") / samples : null,
    p50Us: percentileIn(row, "p50", 0),
    p95Us: percentileIn(row, "p95", 0),
    p99Us: percentileIn(row, "p99", 0),
  };
}

async function readPlaces(store: Queryable, query: SummaryQuery): Promise<SummaryPlaceFact[]> {
  const { where, parameters } = oneService(query);
  const rows = await store.query(
    `SELECT service, agent_id, max(instances) AS instances, bool_or(present) AS present, bool_and(status = 'stale') AS stale,
       coalesce(max(health) FILTER (health = 'unhealthy'), max(health)) AS health, any_value(health_detail) FILTER (health = 'unhealthy') AS detail
     FROM net.service_registry WHERE true ${where} GROUP BY service, agent_id ORDER BY service, agent_id`,
    parameters,
  );
  return rows.map((row) => ({
    service: textIn(row, "service"),
    agentId: textIn(row, "agent_id"),
    instances: numberIn(row, "instances"),
    isPresent: booleanIn(row, "present"),
    isStale: booleanIn(row, "stale"),
    health: textOrNullIn(row, "health"),
    healthDetail: textOrNullIn(row, "detail"),
  }));
}

/** A SQL condition for rows of a time that begins so long ago. */
function since(nowMs: number, backMs: number): string {
  return `"time" >= make_timestamp(${Math.floor((nowMs - backMs) * 1_000)})`;
}

async function readHosts(store: Queryable, query: SummaryQuery): Promise<SummaryHostFact[]> {
  const { parameters } = oneService(query);
  const chosen = query.service === undefined ? "" : "AND agent_id IN (SELECT agent_id FROM net.service_registry WHERE service = $service)";
  const rows = await store.query(
    `SELECT agent_id, avg(cpu_busy_ratio) AS cpu, avg(cpu_steal_ratio) AS steal, avg(1 - mem_available_bytes / nullif(mem_total_bytes, 0)) AS mem,
       avg(psi_cpu_some_ratio) AS psi_cpu, avg(psi_memory_some_ratio) AS psi_memory, avg(psi_io_some_ratio) AS psi_io, sum(oom_kills)::DOUBLE AS oom
     FROM raw.host JOIN internal.sources USING (source) WHERE ${since(query.nowMs, Math.min(query.sinceMs, loadMaxMs))} ${chosen} GROUP BY agent_id`,
    parameters,
  );
  return rows.map((row) => ({
    agentId: textIn(row, "agent_id"),
    cpuBusyRatio: numberOrNullIn(row, "cpu"),
    cpuStealRatio: numberOrNullIn(row, "steal"),
    memUsedRatio: numberOrNullIn(row, "mem"),
    psiCpuRatio: numberOrNullIn(row, "psi_cpu"),
    psiMemoryRatio: numberOrNullIn(row, "psi_memory"),
    psiIoRatio: numberOrNullIn(row, "psi_io"),
    oomKills: numberIn(row, "oom"),
  }));
}

async function readCgroups(store: Queryable, query: SummaryQuery): Promise<SummaryCgroupFact[]> {
  const { parameters } = oneService(query);
  const inTime = since(query.nowMs, Math.min(query.sinceMs, loadMaxMs));
  // Of all services only those groups matter that were at a limit; few are, and the others are not even named.
  const chosen =
    query.service === undefined
      ? `WHERE cgroup IN (SELECT cgroup FROM raw.host_cgroup WHERE ${inTime} AND (throttled_ratio > 0.05 OR oom_kills > 0 OR mem_used_bytes > 0.9 * mem_limit_bytes))`
      : "WHERE (agent_id, cgroup) IN (SELECT (agent_id, cgroup) FROM net.service_instances WHERE service = $service)";
  const rows = await store.query(
    `WITH place AS (
       SELECT agent_id, cgroup, list_sort(list(DISTINCT service)) AS services FROM net.service_instances ${chosen} AND cgroup <> '/' GROUP BY agent_id, cgroup
     )
     SELECT p.agent_id, p.cgroup, any_value(p.services) AS services, avg(c.cpu_cores) AS cpu, max(c.cpu_limit_cores) AS cpu_limit,
       avg(c.throttled_ratio) AS throttled, max(c.mem_used_bytes) AS mem, max(c.mem_limit_bytes) AS mem_limit, sum(c.oom_kills)::DOUBLE AS oom
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
  const startUs = Math.floor((query.nowMs - query.sinceMs) * 1_000);
  const isNow = `"time" >= make_timestamp(${startUs})`;
  const chosen = `severity IN ('error', 'fatal') ${query.service === undefined ? "" : "OR is_new"}`;
  const rows = await store.query(
    `SELECT service, pattern, any_value(template) AS template, any_value(severity) AS severity, coalesce(bool_or(is_new) FILTER (${isNow}), false) AS is_new,
       coalesce(sum(records) FILTER (${isNow}), 0)::DOUBLE AS records, coalesce(sum(records) FILTER (NOT (${isNow})), 0)::DOUBLE AS before,
       min("time") FILTER (${isNow}) AS first_at
     FROM raw.log_pattern WHERE ${since(query.nowMs, query.sinceMs + hourMs)} AND (${chosen}) ${where}
     GROUP BY service, pattern HAVING records > 0 ORDER BY records DESC, service, pattern LIMIT ${patternsMax}`,
    parameters,
  );
  return rows.map((row) => ({
    service: textIn(row, "service"),
    pattern: textIn(row, "pattern"),
    template: textIn(row, "template"),
    severity: textIn(row, "severity"),
    isNew: booleanIn(row, "is_new") && numberIn(row, "before") === 0,
    records: numberIn(row, "records"),
    recordsBefore: numberIn(row, "before"),
    firstAt: row["first_at"] === null ? null : isoTimeIn(row, "first_at"),
  }));
}

async function readEvents(store: Queryable, query: SummaryQuery): Promise<SummaryEventFact[]> {
  const { where, parameters } = oneService(query);
  const backMs = Math.max(query.sinceMs, query.service === undefined ? eventsMinMs : hourMs);
  const rows = await store.query(
    `SELECT "time", kind, severity, service, agent_id, message FROM events
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
