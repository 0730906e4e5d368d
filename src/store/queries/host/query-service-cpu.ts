import type { ServiceCpuFact } from "../../../model/red.ts";
import { numberIn, type Queryable, textIn } from "../../tables/queryable.ts";
import { latestSampleSql } from "./latest-sample.ts";

/** Older samples are not "now". */
const windowMs = 300_000;

/** Only of services with a process among the busiest of its host: the others are not sampled. Most first. */
export async function queryServiceCpu(store: Queryable, query: { nowMs: number }): Promise<ServiceCpuFact[]> {
  const sinceUs = Math.floor((query.nowMs - windowMs) * 1_000);
  const rows = await store.query(
    `WITH busy AS (${latestSampleSql("host_process", "time >= make_timestamp(?)", "agent_id, pid, start_ticks, cpu_cores, rss_bytes")}),
     process AS (SELECT DISTINCT agent_id, pid, start_ticks, service FROM net.service_instances WHERE pid > 0
       QUALIFY row_number() OVER (PARTITION BY agent_id, pid, start_ticks ORDER BY confidence DESC, service) = 1)
     SELECT service, sum(cpu_cores) AS cpu, sum(rss_bytes)::DOUBLE AS rss FROM busy JOIN process USING (agent_id, pid, start_ticks)
     GROUP BY service ORDER BY cpu DESC, service`,
    [sinceUs, sinceUs],
  );
  return rows.map((row) => ({ service: textIn(row, "service"), cpuCores: numberIn(row, "cpu"), rssBytes: numberIn(row, "rss") }));
}
