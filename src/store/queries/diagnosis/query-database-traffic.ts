/** Database statements before and after the onset of a diagnosis, and the number of connections that callers held. */

import type { DatabaseTraffic, PoolTraffic, StatementFigures, StatementTraffic } from "../../../model/database-traffic.ts";
import type { DiagnosisTimesRequest, TimeRange } from "../../../model/diagnosis.ts";
import { routeText } from "../../../model/route-text.ts";
import { isWaitingRequest } from "../../../model/waiting-requests.ts";
import { numberIn, type Queryable, type QueryRow, textIn } from "../../tables/queryable.ts";
import { withPeerSql } from "../red-parts.ts";
import { rangesSql } from "./ranges-sql.ts";

const protocols = "('postgres', 'mysql', 'redis')";
const statementsMax = 500;
const poolsMax = 200;
/** Number of sampling times per period for counting open connections. */
const moments = 12;

export async function queryDatabaseTraffic(store: Queryable, times: DiagnosisTimesRequest): Promise<DatabaseTraffic> {
  const [statements, pools] = await Promise.all([queryStatements(store, times), queryPools(store, times)]);
  return { statements, pools };
}

async function queryStatements(store: Queryable, { before, after }: DiagnosisTimesRequest): Promise<StatementTraffic[]> {
  const isAfter = rangesSql('"time"', [after]);
  const seen = `SELECT source, service, role, protocol, server_port, peer, peer_address, method, route, status, ${isAfter} AS is_after, requests, is_error, response_bytes, duration_us
    FROM raw.red WHERE ${rangesSql('"time"', [...before, after])} AND protocol IN ${protocols}`;
  const figures = (period: string, flag: string): string =>
    `coalesce(sum(requests) FILTER (${flag}), 0) AS ${period}_requests, coalesce(sum(duration_us) FILTER (${flag}), 0) AS ${period}_us,
     coalesce(sum(requests) FILTER (${flag} AND is_error), 0) AS ${period}_failed, coalesce(sum(response_bytes) FILTER (${flag}), 0) AS ${period}_bytes`;
  const rows = await store.query(
    `WITH seen AS MATERIALIZED (${withPeerSql(seen)}), served AS (SELECT DISTINCT service FROM seen WHERE role = 'server'),
     used AS (SELECT service AS subject, protocol, server_port, method, route, status, is_after, requests, is_error, response_bytes, duration_us FROM seen WHERE role = 'server'
       UNION ALL SELECT who, protocol, server_port, method, route, status, is_after, requests, is_error, response_bytes, duration_us FROM seen WHERE role = 'client' AND who NOT IN (SELECT service FROM served))
     SELECT subject AS service, protocol, server_port AS port, method, route, ${figures("before", "NOT is_after")}, ${figures("after", "is_after")},
       coalesce(mode(status) FILTER (is_after AND is_error), '') AS failure
     FROM used GROUP BY subject, protocol, server_port, method, route ORDER BY after_us DESC, before_us DESC, service, route LIMIT ${statementsMax}`,
  );
  return rows.flatMap((row) => {
    const [protocol, method, route] = [textIn(row, "protocol"), textIn(row, "method"), textIn(row, "route")];
    if (isWaitingRequest({ protocol, method, route })) return [];
    return {
      service: textIn(row, "service"),
      protocol,
      port: numberIn(row, "port"),
      statement: routeText(method, route),
      before: figuresIn(row, "before", before),
      after: figuresIn(row, "after", [after]),
      failure: textIn(row, "failure"),
    };
  });
}

function figuresIn(row: QueryRow, period: string, ranges: readonly TimeRange[]): StatementFigures {
  const requests = numberIn(row, `${period}_requests`);
  const seconds = secondsOf(ranges);
  const each = (name: string): number => (requests === 0 ? 0 : numberIn(row, `${period}_${name}`) / requests);
  return {
    requests,
    perSecond: seconds === 0 ? 0 : requests / seconds,
    meanUs: each("us"),
    failedRatio: each("failed"),
    responseBytes: each("bytes"),
  };
}

function secondsOf(ranges: readonly TimeRange[]): number {
  return ranges.reduce((sum, { fromMs, untilMs }) => sum + (untilMs - fromMs) / 1_000, 0);
}

/**
 * A connection's row is written when it is first seen, periodically, and when it closes. It was open from its first to its last time, or
 * still is.
 */
async function queryPools(store: Queryable, { before, after }: DiagnosisTimesRequest): Promise<PoolTraffic[]> {
  const isAfter = rangesSql('"time"', [after]);
  const instants = [...momentsOf(before).map((at) => ({ at, isAfter: false })), ...momentsOf([after]).map((at) => ({ at, isAfter: true }))];
  if (instants.length === 0) return [];
  const values = instants.map(({ at, isAfter: later }) => `(make_timestamp(${Math.floor(at * 1_000)}), ${later})`).join(", ");
  const rows = await store.query(
    `WITH seen AS MATERIALIZED (${withPeerSql(`SELECT source, service, role, protocol, server_port, peer, peer_address, ${isAfter} AS is_after, sum(requests) AS requests, sum(duration_us) AS duration_us
         FROM raw.red WHERE ${rangesSql('"time"', [...before, after])} AND protocol IN ${protocols} AND role = 'client' GROUP BY ALL`)}),
     used AS (SELECT service AS caller, who AS service, server_port AS port, sum(requests) FILTER (NOT is_after) AS requests_before, sum(duration_us) FILTER (NOT is_after) AS us_before,
         sum(requests) FILTER (is_after) AS requests_after, sum(duration_us) FILTER (is_after) AS us_after FROM seen GROUP BY ALL HAVING requests_after > 0 LIMIT ${poolsMax}),
     ends AS (SELECT service, server_port, client_address, client_port, server_address, min(first_seen) AS opened, max(last_seen) AS last, arg_max(state, last_seen) AS state, max(connections) AS held
         FROM raw.connection WHERE role = 'client' AND state <> 'failed' AND service IN (SELECT caller FROM used) AND server_port IN (SELECT port FROM used) GROUP BY ALL),
     instants(moment, is_after) AS (VALUES ${values}),
     counted AS (SELECT e.service AS caller, e.server_port AS port, i.moment, i.is_after,
         coalesce(sum(held) FILTER (e.opened <= i.moment AND (e.state = 'open' OR e.last > i.moment)), 0) AS open FROM ends e CROSS JOIN instants i GROUP BY ALL)
     SELECT u.*, max(open) FILTER (NOT is_after) AS open_before, min(open) FILTER (is_after) AS least_after, max(open) FILTER (is_after) AS most_after
     FROM used u JOIN counted c ON c.caller = u.caller AND c.port = u.port GROUP BY ALL ORDER BY u.caller, u.service, u.port`,
  );
  return rows.map((row) => ({
    caller: textIn(row, "caller"),
    service: textIn(row, "service"),
    port: numberIn(row, "port"),
    openBefore: numberIn(row, "open_before"),
    openAfter: { least: numberIn(row, "least_after"), most: numberIn(row, "most_after") },
    busyAfter: numberIn(row, "us_after") / 1_000_000 / secondsOf([after]),
    meanUsBefore: numberIn(row, "us_before") / Math.max(1, numberIn(row, "requests_before")),
    meanUsAfter: numberIn(row, "us_after") / Math.max(1, numberIn(row, "requests_after")),
  }));
}

function momentsOf(ranges: readonly TimeRange[]): number[] {
  const total = ranges.reduce((sum, { fromMs, untilMs }) => sum + untilMs - fromMs, 0);
  return ranges.flatMap(({ fromMs, untilMs }) => {
    const count = Math.max(1, Math.round((moments * (untilMs - fromMs)) / Math.max(1, total)));
    // Rows of the last seconds have not arrived yet.
    return Array.from({ length: count }, (_, index) => fromMs + ((index + 0.5) * (untilMs - fromMs)) / count);
  });
}
