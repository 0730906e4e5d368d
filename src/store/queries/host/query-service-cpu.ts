import type { ServiceCpuFact } from "../../../model/red.ts";
import { numberIn, type Queryable, textIn } from "../../tables/queryable.ts";

/** Older samples do not count as current. */
const windowMs = 300_000;

/** Every sample contains the top processes of a host, and at least once a minute all processes of services. */
const lastsMs = 90_000;

/** Only services with known processes, most CPU first. */
export async function queryServiceCpu(store: Queryable, query: { nowMs: number }): Promise<ServiceCpuFact[]> {
  const sinceUs = Math.floor((query.nowMs - windowMs) * 1_000);
  const rows = await store.query(
    `WITH recent AS (SELECT agent_id, "time", pid, start_ticks, cpu_cores, rss_bytes FROM host_process WHERE "time" >= make_timestamp(?)),
     newest AS (SELECT agent_id, max("time") AS newest FROM recent GROUP BY agent_id),
     busy AS (SELECT agent_id, pid, start_ticks, arg_max(cpu_cores, "time") AS cpu_cores, arg_max(rss_bytes, "time") AS rss_bytes
       FROM recent JOIN newest USING (agent_id) WHERE "time" >= newest - INTERVAL (${lastsMs}) MILLISECONDS
       GROUP BY agent_id, pid, start_ticks),
     process AS (SELECT DISTINCT agent_id, pid, start_ticks, service FROM net.service_instances WHERE pid > 0
       QUALIFY row_number() OVER (PARTITION BY agent_id, pid, start_ticks ORDER BY confidence DESC, service) = 1)
     SELECT service, sum(cpu_cores) AS cpu, sum(rss_bytes)::DOUBLE AS rss FROM busy JOIN process USING (agent_id, pid, start_ticks)
     GROUP BY service ORDER BY cpu DESC, service`,
    [sinceUs],
  );
  return rows.map((row) => ({ service: textIn(row, "service"), cpuCores: numberIn(row, "cpu"), rssBytes: numberIn(row, "rss") }));
}
