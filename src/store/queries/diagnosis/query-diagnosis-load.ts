/** CPU, memory and throttling of services' processes and control groups, as their hosts report them. */

import { type DiagnosisTimesRequest, loadMeasures, type MeasureFact, ownServicesSql } from "../../../model/diagnosis.ts";
import { type Queryable, textIn } from "../../tables/queryable.ts";
import { rangesSql } from "./ranges-sql.ts";
import { spreadIn, spreadSql } from "./spread-sql.ts";

const rowsMax = 10_000;

export async function queryDiagnosisLoad(store: Queryable, { before, after }: DiagnosisTimesRequest): Promise<MeasureFact[]> {
  const isAfter = rangesSql('"time"', [after]);
  const inTime = rangesSql('"time"', [...before, after]);
  const rows = await store.query(
    `WITH process AS (
       SELECT DISTINCT agent_id, pid, start_ticks, service FROM net.service_instances WHERE pid > 0
       QUALIFY row_number() OVER (PARTITION BY agent_id, pid, start_ticks ORDER BY confidence DESC, service) = 1
     ), grouped AS (
       SELECT DISTINCT agent_id, cgroup, service FROM net.service_instances WHERE cgroup IS NOT NULL AND cgroup <> '/'
       QUALIFY count(DISTINCT service) OVER (PARTITION BY agent_id, cgroup) = 1
     ), used AS (
       SELECT p.service, "time", ${isAfter} AS is_after, sum(cpu_cores) AS cores, sum(rss_bytes) AS bytes
       FROM host_process h JOIN process p USING (agent_id, pid, start_ticks) WHERE ${inTime} GROUP BY ALL
     ), readings AS (
       SELECT service, '${loadMeasures.cpu}' AS name, 'cores' AS unit, is_after, cores AS reading FROM used
       UNION ALL SELECT service, '${loadMeasures.memory}', 'By', is_after, bytes FROM used
       UNION ALL SELECT g.service, '${loadMeasures.throttling}', 'ratio', ${isAfter}, h.throttled_ratio FROM host_cgroup h JOIN grouped g USING (agent_id, cgroup)
       WHERE ${inTime} AND h.throttled_ratio IS NOT NULL
     )
     SELECT service, name, unit, ${spreadSql("reading", "NOT is_after")} AS before, ${spreadSql("reading", "is_after")} AS after
     FROM readings WHERE service NOT IN ${ownServicesSql} GROUP BY service, name, unit ORDER BY service, name LIMIT ${rowsMax}`,
  );
  return rows.map((row) => ({
    service: textIn(row, "service"),
    name: textIn(row, "name"),
    subject: "",
    unit: textIn(row, "unit"),
    kind: "resource",
    before: spreadIn(row, "before"),
    after: spreadIn(row, "after"),
  }));
}
