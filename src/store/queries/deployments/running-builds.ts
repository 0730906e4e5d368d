import { numberIn, type Queryable, textIn } from "../../tables/queryable.ts";
import { hasRequests } from "../request-parts.ts";

/** One build of a service at one agent. */
export interface RunningBuild {
  service: string;
  foundBy: "process" | "span";
  /** Empty when only a version is known. */
  build: string;
  /** Empty when unknown. */
  version: string;
  agentId: string;
  /** Start of the first of its processes; of spans the first within the window. */
  startedMs: number;
}

/** Environment variables that carry a version, the most reliable first. The agent keeps them; see docs/services.md. */
const versionVariables = ["SERVICE_VERSION", "DD_VERSION", "APP_VERSION", "GIT_COMMIT", "GIT_SHA", "COMMIT_SHA", "RELEASE", "VERSION"];
/** Interpreted programs have no build; their path may have the version: `billing-1.4.2.jar`, `/srv/shop/releases/20260102/server.js`. */
const launchedSql = `CASE WHEN contains(command_line, '.jar') OR contains(command_line, '/releases/') THEN coalesce(
    nullif(regexp_extract(command_line, '[-_]v?(\\d+(?:\\.\\d+)+[^\\s/]*?)\\.jar(?:\\s|$)', 1), ''),
    regexp_extract(command_line, '/releases/([^/\\s]+)/', 1)) ELSE '' END`;
const rowsMax = 50_000;

/** Of the processes that the newest scans have shown. */
export async function queryRunningBuilds(store: Queryable): Promise<RunningBuild[]> {
  const versions = versionVariables.map((name) => `nullif(json_extract_string(environment, '$.${name}'), '')`).join(", ");
  const attributes = "json_extract_string(environment, '$.OTEL_RESOURCE_ATTRIBUTES')";
  // Of a hundred thousand processes few have an environment of their own: parse each distinct one once.
  const rows = await store.query(
    `WITH seen AS MATERIALIZED (
       SELECT service, agent_id, build, coalesce(environment, '') AS environment, ${launchedSql} AS launched, min(coalesce(started, first_seen)) AS started
       FROM net.service_instances WHERE pid > 0 AND build IS NOT NULL GROUP BY ALL
     ), reported AS (
       SELECT environment, CASE WHEN json_valid(environment)
         THEN coalesce(nullif(regexp_extract(${attributes}, '(?:^|,)service\\.version=([^,]+)', 1), ''), ${versions}, '') ELSE '' END AS version
       FROM (SELECT DISTINCT environment FROM seen)
     )
     SELECT service, agent_id, build, coalesce(nullif(version, ''), launched) AS version, min(started) AS started FROM seen JOIN reported USING (environment)
     GROUP BY ALL ORDER BY started, service, agent_id LIMIT ${rowsMax}`,
  );
  return rows.map((row) => ({
    service: textIn(row, "service"),
    foundBy: "process",
    build: textIn(row, "build"),
    version: textIn(row, "version").slice(0, 100),
    agentId: textIn(row, "agent_id"),
    startedMs: numberIn(row, "started") / 1_000,
  }));
}

/** Versions that spans of the last `sinceMs` carry. */
export async function querySpanVersions(store: Queryable, { sinceMs, nowMs }: { sinceMs: number; nowMs: number }): Promise<RunningBuild[]> {
  if (!(await hasRequests(store, "spans"))) return [];
  const rows = await store.query(
    `SELECT service, agent_id, version, min("time") AS started FROM raw.span_red JOIN internal.sources USING (source)
     WHERE "time" >= make_timestamp(?) AND version IS NOT NULL AND version <> ''
     GROUP BY service, agent_id, version ORDER BY started, service LIMIT ${rowsMax}`,
    [Math.floor((nowMs - sinceMs) * 1_000)],
  );
  return rows.map((row) => ({
    service: textIn(row, "service"),
    foundBy: "span",
    build: "",
    version: textIn(row, "version").slice(0, 100),
    agentId: textIn(row, "agent_id"),
    startedMs: numberIn(row, "started") / 1_000,
  }));
}
