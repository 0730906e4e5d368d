import type { HostNow } from "../../../model/host.ts";
import { isoTimeIn, numberOrNullIn, type Queryable, textIn } from "../../tables/queryable.ts";
import { latestSampleSql } from "./latest-sample.ts";

/** Older samples are not "now". */
const windowMs = 3_600_000;

/** One row for each agent that was sampled within the last hour. */
export async function queryHostsNow(store: Queryable, options: { nowMs?: number } = {}): Promise<HostNow[]> {
  const sinceUs = ((options.nowMs ?? Date.now()) - windowMs) * 1_000;
  const columns =
    "agent_id, time, cpu_busy_ratio, cpu_count, 1 - mem_available_bytes / nullif(mem_total_bytes, 0) AS mem_used_ratio, mem_total_bytes, load_1m";
  const rows = await store.query(`${latestSampleSql("host", "time >= make_timestamp(?)", columns)} ORDER BY agent_id`, [sinceUs, sinceUs]);
  return rows.map((row) => ({
    agentId: textIn(row, "agent_id"),
    sampledAt: isoTimeIn(row, "time"),
    cpuBusyRatio: numberOrNullIn(row, "cpu_busy_ratio"),
    cpuCount: numberOrNullIn(row, "cpu_count"),
    memUsedRatio: numberOrNullIn(row, "mem_used_ratio"),
    memTotalBytes: numberOrNullIn(row, "mem_total_bytes"),
    load1m: numberOrNullIn(row, "load_1m"),
  }));
}
