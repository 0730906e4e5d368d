/**
 * Builds that agents reported since the last reading. Read by pull number, not by time, so that late rows are included under their own
 * time.
 */

import { numberIn, numberOrNullIn, type Queryable, type QueryRow, textIn, textOrNullIn } from "../../tables/queryable.ts";
import { hasRequests } from "../request-parts.ts";

/** One build of a service at one agent, by that agent's clock. */
export interface BuildSighting {
  service: string;
  foundBy: "process" | "span";
  /** Empty if only a version is known. */
  build: string;
  /** Empty if unknown. */
  version: string;
  agentId: string;
  /** Start of its first process, or its first span. */
  startedMs: number;
  /** First and last scan or span with this build. */
  firstMs: number;
  lastMs: number;
  /** Process count at the last scan, or request count of spans. */
  instances: number;
}

export interface AgentScan {
  agentId: string;
  /** Time of the newest scan, by the agent's clock. */
  lastMs: number;
  /** Time at which it was stored, by the colony's clock. */
  storedMs: number;
}

/** Rows of a service that arrived later than usual, by their own times. */
export interface LateRows {
  service: string;
  fromMs: number;
  untilMs: number;
}

export interface BuildReading {
  /** The last pull that was read; null if there was none. */
  upTo: number | null;
  sightings: BuildSighting[];
  scans: AgentScan[];
  late: LateRows[];
}

export interface BuildReadingQuery {
  /** The last pull of the previous reading; null for the first reading. */
  after: number | null;
  nowMs: number;
  /** A row stored this long after its own time is late. */
  lateMs: number;
}

/** The rows of one scan may be stored by two consecutive pulls. */
export const buildsSettledMs = 2_000;
/** The first reading covers rows stored within this time. */
const firstReadMs = 3_600_000;
/** Environment variables that carry a version, most reliable first. Agents collect exactly these; see docs/services.md. */
const versionVariables = ["SERVICE_VERSION", "DD_VERSION", "APP_VERSION", "GIT_COMMIT", "GIT_SHA", "COMMIT_SHA", "RELEASE", "VERSION"];
/** The path of an interpreted program may contain its version: `billing-1.4.2.jar`, `/srv/shop/releases/20260102/server.js`. */
const launchedSql = `CASE WHEN contains(command_line, '.jar') OR contains(command_line, '/releases/') THEN coalesce(
    nullif(regexp_extract(command_line, '[-_]v?(\\d+(?:\\.\\d+)+[^\\s/]*?)\\.jar(?:\\s|$)', 1), ''),
    regexp_extract(command_line, '/releases/([^/\\s]+)/', 1)) ELSE '' END`;
const rowsMax = 50_000;

export async function readBuilds(store: Queryable, query: BuildReadingQuery): Promise<BuildReading> {
  const requestTables: string[] = [];
  if (await hasRequests(store, "hooks")) requestTables.push("red");
  if (await hasRequests(store, "spans")) requestTables.push("span_red");
  const upTo = await lastPull(store, query, ["service_instance", ...requestTables]);
  if (upTo === null) return { upTo: null, sightings: [], scans: [], late: [] };
  const inRange = rangeSql(query, upTo);
  return {
    upTo,
    sightings: [
      ...(await processSightings(store, inRange)),
      ...(requestTables.includes("span_red") ? await spanSightings(store, inRange) : []),
    ],
    scans: await agentScans(store, inRange),
    // The first reading has nothing to compare late rows with.
    late: query.after === null ? [] : await lateRows(store, inRange, requestTables, query.lateMs),
  };
}

const timestamp = (ms: number): string => `make_timestamp(${Math.floor(ms * 1_000)})`;

async function lastPull(store: Queryable, query: BuildReadingQuery, tables: readonly string[]): Promise<number | null> {
  const newest = tables.map(
    (table) =>
      `SELECT max(ingest) AS ingest FROM raw.${table} WHERE ingest > ${query.after ?? 0} AND stored_at <= ${timestamp(query.nowMs - buildsSettledMs)}`,
  );
  const [row] = await store.query(`SELECT max(ingest) AS ingest FROM (${newest.join(" UNION ALL ")})`);
  return row === undefined ? null : numberOrNullIn(row, "ingest");
}

function rangeSql({ after, nowMs }: BuildReadingQuery, upTo: number): string {
  const recent = after === null ? ` AND stored_at >= ${timestamp(nowMs - firstReadMs)}` : "";
  return `ingest > ${after ?? 0} AND ingest <= ${upTo}${recent}`;
}

async function processSightings(store: Queryable, inRange: string): Promise<BuildSighting[]> {
  const versions = versionVariables.map((name) => `nullif(json_extract_string(environment, '$.${name}'), '')`).join(", ");
  const attributes = "json_extract_string(environment, '$.OTEL_RESOURCE_ATTRIBUTES')";
  // Most of 100,000 processes share their environment: parse each distinct one once.
  const rows = await store.query(
    `WITH fresh AS MATERIALIZED (
       SELECT agent_id, service, build, coalesce(environment, '') AS environment, ${launchedSql} AS launched, pid, start_ticks, "time" AS scan,
         coalesce(started, "time") AS started, "time" = max("time") OVER (PARTITION BY agent_id) AS is_newest
       FROM raw.service_instance JOIN internal.sources USING (source) WHERE ${inRange} AND pid > 0 AND build IS NOT NULL AND service <> ''
     ), reported AS (
       SELECT environment, CASE WHEN json_valid(environment)
         THEN coalesce(nullif(regexp_extract(${attributes}, '(?:^|,)service\\.version=([^,]+)', 1), ''), ${versions}, '') ELSE '' END AS version
       FROM (SELECT DISTINCT environment FROM fresh)
     )
     SELECT service, agent_id, build, coalesce(nullif(version, ''), launched) AS version, min(started) AS started, min(scan) AS first, max(scan) AS last,
       count(DISTINCT (pid, start_ticks)) FILTER (is_newest) AS instances
     FROM fresh JOIN reported USING (environment) GROUP BY ALL ORDER BY started, service, agent_id LIMIT ${rowsMax}`,
  );
  return rows.map((row) => sightingIn(row, "process"));
}

/** Versions carried by spans. */
async function spanSightings(store: Queryable, inRange: string): Promise<BuildSighting[]> {
  const rows = await store.query(
    `SELECT service, agent_id, '' AS build, version, min("time") AS started, min("time") AS first, max("time") AS last, sum(requests)::DOUBLE AS instances
     FROM raw.span_red JOIN internal.sources USING (source) WHERE ${inRange} AND version IS NOT NULL AND version <> ''
     GROUP BY service, agent_id, version ORDER BY started, service LIMIT ${rowsMax}`,
  );
  return rows.map((row) => sightingIn(row, "span"));
}

function sightingIn(row: QueryRow, foundBy: BuildSighting["foundBy"]): BuildSighting {
  return {
    service: textIn(row, "service"),
    foundBy,
    build: textIn(row, "build"),
    version: textIn(row, "version").slice(0, 100),
    agentId: textIn(row, "agent_id"),
    startedMs: numberIn(row, "started") / 1_000,
    firstMs: numberIn(row, "first") / 1_000,
    lastMs: numberIn(row, "last") / 1_000,
    instances: numberIn(row, "instances"),
  };
}

async function agentScans(store: Queryable, inRange: string): Promise<AgentScan[]> {
  const rows = await store.query(
    `SELECT agent_id, max("time") AS last, max(stored_at) AS stored FROM raw.service_instance JOIN internal.sources USING (source)
     WHERE ${inRange} GROUP BY agent_id`,
  );
  return rows.map((row) => ({
    agentId: textIn(row, "agent_id"),
    lastMs: numberIn(row, "last") / 1_000,
    storedMs: numberIn(row, "stored") / 1_000,
  }));
}

async function lateRows(store: Queryable, inRange: string, tables: readonly string[], lateMs: number): Promise<LateRows[]> {
  if (tables.length === 0) return [];
  const late = `${inRange} AND "time" < stored_at - ${Math.ceil(lateMs)} * INTERVAL 1 MILLISECOND`;
  const each = tables.map((table) => `SELECT service, "time" FROM raw.${table} WHERE ${late}`);
  const rows = await store.query(
    `SELECT service, min("time") AS first, max("time") AS last FROM (${each.join(" UNION ALL ")}) GROUP BY service ORDER BY service`,
  );
  return rows.map((row) => ({
    service: textIn(row, "service"),
    fromMs: numberIn(row, "first") / 1_000,
    untilMs: numberIn(row, "last") / 1_000,
  }));
}

/** Requests that a service served at each agent, by version if spans carry one. */
export interface ServedRequests {
  agentId: string;
  /** Null for requests counted by hooks. */
  version: string | null;
  requests: number;
}

export async function queryServedRequests(
  store: Queryable,
  { service, fromMs, untilMs }: { service: string; fromMs: number; untilMs: number },
): Promise<ServedRequests[]> {
  const inTime = `service = $service AND role = 'server' AND "time" >= ${timestamp(fromMs)} AND "time" < ${timestamp(untilMs)}`;
  const each: string[] = [];
  if (await hasRequests(store, "hooks")) each.push(`SELECT source, NULL::VARCHAR AS version, requests FROM raw.red WHERE ${inTime}`);
  if (await hasRequests(store, "spans"))
    each.push(`SELECT source, coalesce(version, '') AS version, requests FROM raw.span_red WHERE ${inTime}`);
  if (each.length === 0) return [];
  const rows = await store.query(
    `SELECT agent_id, version, sum(requests)::DOUBLE AS requests FROM (${each.join(" UNION ALL ")}) JOIN internal.sources USING (source)
     GROUP BY agent_id, version ORDER BY agent_id, version`,
    { service },
  );
  return rows.map((row) => ({
    agentId: textIn(row, "agent_id"),
    version: textOrNullIn(row, "version"),
    requests: numberIn(row, "requests"),
  }));
}
