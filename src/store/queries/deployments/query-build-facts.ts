/** Facts about a service before and after a deployment, in short cells of time. */

import type { BuildFacts, RouteCell } from "../../../model/deployments.ts";
import type { RequestSource } from "../../../model/summary.ts";
import { gatheredSql, mergedCountsSql, mergedLoSql } from "../../engine/histogram-sql.ts";
import { numberIn, type Queryable, type QueryParameter, type QueryRow, textIn } from "../../tables/queryable.ts";
import type { RedResolution } from "../red-parts.ts";
import { hasRequests, oldestParts, requestPartsSql } from "../request-parts.ts";
import type { DeploymentPlace } from "./deployment-tables.ts";

export interface BuildFactsQuery {
  service: string;
  startedMs: number;
  /** Agents that the deployment reached, each with its own time. Empty: everywhere at `startedMs`. */
  places: readonly DeploymentPlace[];
  /** The compared periods end and begin this long before and after the deployment. */
  guardMs: number;
  warmUpMs: number;
  beforeMs: number;
  afterMs: number;
  /** Minimum length of a cell. */
  cellMs: number;
}

const routesMax = 20;
const listedMax = 20;
/** A pattern logged within this time before the deployment is not new. */
const patternsBackMs = 24 * 3_600_000;

type RequestFacts = Pick<BuildFacts, "source" | "beforeMs" | "afterMs" | "cellMs" | "routes">;

export async function queryBuildFacts(store: Queryable, query: BuildFactsQuery): Promise<BuildFacts> {
  const empty = { source: "none" as const, beforeMs: query.beforeMs, afterMs: query.afterMs, cellMs: query.cellMs, routes: [] };
  let requests: RequestFacts = empty;
  for (const source of ["hooks", "spans"] as const) {
    if (requests.routes.length === 0 && (await hasRequests(store, source))) requests = await readRequests(store, query, source);
  }
  const resources = await readResources(store, query);
  // The period before begins with its first request.
  const skipped = Math.round((query.beforeMs - requests.beforeMs) / 60_000);
  const before = resources.resourceMinutes.before.map((minute) => minute - skipped);
  return { ...requests, ...resources, resourceMinutes: { ...resources.resourceMinutes, before }, ...(await readNews(store, query)) };
}

interface Side {
  fromMs: number;
  untilMs: number;
}

function sidesOf({ guardMs, warmUpMs, beforeMs, afterMs }: BuildFactsQuery, atMs: number): { before: Side; after: Side } {
  return {
    before: { fromMs: atMs - guardMs - beforeMs, untilMs: atMs - guardMs },
    after: { fromMs: atMs + warmUpMs, untilMs: atMs + warmUpMs + afterMs },
  };
}

async function readRequests(store: Queryable, query: BuildFactsQuery, source: RequestSource): Promise<RequestFacts> {
  const { sql: places, parameters, firstMs, lastMs } = placesSql(query);
  const { before } = sidesOf(query, firstMs);
  const { after } = sidesOf(query, lastMs);
  const resolution = resolutionFor(await oldestParts(store, source), before.fromMs);
  const cellMs = resolution === "raw" ? query.cellMs : Math.max(query.cellMs, resolution === "1m" ? 60_000 : 600_000);
  const range = { startMs: before.fromMs, endMs: after.untilMs, resolution };
  const rows = await store.query(
    `WITH place AS (${places}),
     part AS MATERIALIZED (
       SELECT * FROM (
         SELECT p.*, (epoch_us(p."time") - ${sideUs("place.at_us", query)}) AS at_us, epoch_us(p."time") >= place.at_us AS is_after
         FROM (${requestPartsSql(source, range, "AND service = $service AND role IN ('server', 'client')")}) p JOIN place USING (source)
       ) WHERE at_us >= 0 AND at_us < CASE WHEN is_after THEN ${query.afterMs * 1_000} ELSE ${query.beforeMs * 1_000} END
     ),
     kept AS (SELECT role, method, route, sum(requests) AS total FROM part GROUP BY ALL ORDER BY total DESC LIMIT ${2 * routesMax})
     SELECT role, method, route, is_after, cell, requests, errors, total, ${mergedLoSql("gathered")} AS lo, ${mergedCountsSql("gathered")} AS counts FROM (
       SELECT role, method, route, is_after, at_us // ${cellMs * 1_000} AS cell, any_value(total) AS total, sum(requests) AS requests,
         coalesce(sum(requests) FILTER (is_error), 0) AS errors, ${gatheredSql("duration_lo", "duration_counts")} AS gathered
       FROM part JOIN kept USING (role, method, route) GROUP BY role, method, route, is_after, cell
     ) ORDER BY total DESC, role, method, route, is_after, cell`,
    { ...parameters, service: query.service },
  );
  const routes = routesIn(rows, cellMs);
  // Counts served requests; sent ones only if the service serves none.
  const servers = routes.filter(({ role }) => role === "server");
  const shown = (servers.length > 0 ? servers : routes).slice(0, routesMax);
  const firstCellMs = Math.min(...shown.flatMap(({ before: cells }) => cells.map(({ atMs }) => atMs)));
  return {
    source: shown.length === 0 ? "none" : source,
    cellMs,
    beforeMs: Number.isFinite(firstCellMs) ? query.beforeMs - firstCellMs : query.beforeMs,
    afterMs: query.afterMs,
    routes: shown.map((route) => ({ ...route, before: shifted(route.before, Number.isFinite(firstCellMs) ? firstCellMs : 0) })),
  };
}

const shifted = (cells: RouteCell[], byMs: number): RouteCell[] => cells.map((cell) => ({ ...cell, atMs: cell.atMs - byMs }));

/** SQL for the start of the period that a row is in, microseconds since 1970. */
function sideUs(at: string, { guardMs, warmUpMs, beforeMs }: BuildFactsQuery): string {
  return `CASE WHEN epoch_us(p."time") >= ${at} THEN ${at} + ${warmUpMs * 1_000} ELSE ${at} - ${(guardMs + beforeMs) * 1_000} END`;
}

/** The finest resolution whose rows are still kept. A shorter period at a finer resolution beats a longer one at a coarser resolution. */
function resolutionFor(oldest: Record<RedResolution, number>, fromMs: number): RedResolution {
  const order: RedResolution[] = ["raw", "1m", "10m"];
  const step = { raw: 0, "1m": 60_000, "10m": 600_000 };
  return order.reduce((best, other) => (oldest[best] > fromMs && oldest[other] < oldest[best] - 5 * step[other] ? other : best));
}

/** One row per source, with the time at which the deployment reached it. */
function placesSql({ places, startedMs }: BuildFactsQuery): {
  sql: string;
  parameters: Record<string, QueryParameter>;
  firstMs: number;
  lastMs: number;
} {
  if (places.length === 0) {
    const sql = `SELECT source, ${Math.floor(startedMs * 1_000)}::BIGINT AS at_us FROM internal.sources`;
    return { sql, parameters: {}, firstMs: startedMs, lastMs: startedMs };
  }
  const parameters: Record<string, QueryParameter> = {};
  const values = places.map(({ agentId, atMs }, index) => {
    parameters[`place${index}`] = agentId;
    return `($place${index}, ${Math.floor(atMs * 1_000)}::BIGINT)`;
  });
  const times = places.map(({ atMs }) => atMs);
  return {
    sql: `SELECT s.source, v.at_us FROM internal.sources s JOIN (VALUES ${values.join(", ")}) v(agent_id, at_us) ON v.agent_id = s.agent_id`,
    parameters,
    firstMs: Math.min(...times),
    lastMs: Math.max(...times),
  };
}

function routesIn(rows: readonly QueryRow[], cellMs: number): BuildFacts["routes"] {
  const routes = new Map<string, BuildFacts["routes"][number]>();
  for (const row of rows) {
    const [method, route] = [textIn(row, "method"), textIn(row, "route")];
    const role = textIn(row, "role") === "client" ? "client" : "server";
    const key = JSON.stringify([role, method, route]);
    const one = routes.get(key) ?? { role, method, route, before: [], after: [] };
    routes.set(key, one);
    one[row["is_after"] === true ? "after" : "before"].push({
      atMs: numberIn(row, "cell") * cellMs,
      requests: numberIn(row, "requests"),
      errors: numberIn(row, "errors"),
      histogram: { lo: numberIn(row, "lo"), counts: Array.isArray(row["counts"]) ? row["counts"].map(Number) : [] },
    });
  }
  return [...routes.values()];
}

/** Only for processes among the busiest of their hosts; others are not sampled. */
async function readResources(
  store: Queryable,
  query: BuildFactsQuery,
): Promise<Required<Pick<BuildFacts, "cpuCores" | "memoryBytes" | "resourceMinutes">>> {
  const { sql: places, parameters, firstMs, lastMs } = placesSql(query);
  const [fromMs, untilMs] = [sidesOf(query, firstMs).before.fromMs, sidesOf(query, lastMs).after.untilMs];
  const inTime = `"time" BETWEEN make_timestamp(${Math.floor(fromMs * 1_000)}) AND make_timestamp(${Math.floor(untilMs * 1_000)})`;
  const rows = await store.query(
    `WITH place AS (${places}),
     own AS (SELECT DISTINCT source, pid, start_ticks FROM raw.service_instance WHERE service = $service AND pid > 0 AND ${inTime}),
     sample AS (
       SELECT source, "time", sum(cpu_cores) AS cpu, sum(rss_bytes) AS rss FROM raw.host_process JOIN own USING (source, pid, start_ticks)
       WHERE ${inTime} GROUP BY ALL
     ),
     minute AS (
       SELECT source, is_after, at_us // 60000000 AS minute, avg(cpu) AS cpu, avg(rss) AS rss FROM (
         SELECT p.*, (epoch_us(p."time") - ${sideUs("place.at_us", query)}) AS at_us, epoch_us(p."time") >= place.at_us AS is_after
         FROM sample p JOIN place USING (source)
       ) WHERE at_us >= 0 AND at_us < CASE WHEN is_after THEN ${query.afterMs * 1_000} ELSE ${query.beforeMs * 1_000} END GROUP BY ALL
     )
     SELECT is_after, minute, sum(cpu) AS cpu, sum(rss)::DOUBLE AS rss FROM minute GROUP BY ALL ORDER BY is_after, minute`,
    { ...parameters, service: query.service },
  );
  const answer = {
    cpuCores: { before: [] as number[], after: [] as number[] },
    memoryBytes: { before: [] as number[], after: [] as number[] },
    resourceMinutes: { before: [] as number[], after: [] as number[] },
  };
  for (const row of rows) {
    const side = row["is_after"] === true ? "after" : "before";
    answer.resourceMinutes[side].push(numberIn(row, "minute"));
    answer.cpuCores[side].push(numberIn(row, "cpu"));
    answer.memoryBytes[side].push(numberIn(row, "rss"));
  }
  return answer;
}

async function readNews(store: Queryable, query: BuildFactsQuery): Promise<Pick<BuildFacts, "newEgress" | "newErrors">> {
  const { service, startedMs, afterMs, warmUpMs } = query;
  const [fromUs, untilUs] = [Math.floor(startedMs * 1_000), Math.floor((startedMs + warmUpMs + afterMs) * 1_000)];
  const egress = await store.query(
    `SELECT DISTINCT coalesce(details->>'name', details->>'address') AS who, details->>'port' AS port FROM registry.events
     WHERE kind = 'egress-new' AND occurred_at BETWEEN make_timestamp($from) AND make_timestamp($until) AND (details->>'service') = $service
     ORDER BY who, port LIMIT ${listedMax}`,
    { service, from: fromUs, until: untilUs },
  );
  const errors = await store.query(
    `SELECT any_value(template) AS template, any_value(severity) AS severity, sum(records)::DOUBLE AS records FROM raw.log_pattern
     WHERE service = $service AND severity IN ('error', 'fatal') AND "time" >= make_timestamp($back) AND "time" < make_timestamp($until)
     GROUP BY pattern HAVING min("time") >= make_timestamp($from) ORDER BY records DESC, template LIMIT ${listedMax}`,
    { service, from: fromUs, until: untilUs, back: Math.floor((startedMs - patternsBackMs) * 1_000) },
  );
  return {
    newEgress: egress.map((row) => [textIn(row, "who"), textIn(row, "port")].filter((text) => text !== "").join(":")),
    newErrors: errors.map((row) => ({
      template: textIn(row, "template"),
      severity: textIn(row, "severity"),
      records: numberIn(row, "records"),
    })),
  };
}
