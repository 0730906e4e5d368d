import type { HostFacts, HostNow, HostRequest } from "../../../model/host.ts";
import { isoTimeIn, numberOrNullIn, type Queryable, textIn } from "../../tables/queryable.ts";
import { queryHostDetails } from "./host-details.ts";
import { queryHostHistory, seriesRange } from "./host-series.ts";
import { latestSampleSql } from "./latest-sample.ts";

export interface HostsQuery extends HostRequest {
  nowMs: number;
}

/** Devices, control groups and processes describe the present: their averages cover at most this time. */
const detailsMaxMs = 3_600_000;

/** All facts about hosts over the window: one entry per requested agent, in the requested order. */
export async function queryHosts(store: Queryable, query: HostsQuery): Promise<HostFacts[]> {
  const agentIds = [...new Set(query.agentIds)];
  if (agentIds.length === 0) return [];
  const range = seriesRange(query.nowMs, query.sinceMs, query.maxPoints);
  const [history, details] = await Promise.all([
    queryHostHistory(store, agentIds, range, query.maxPoints > 0),
    queryHostDetails(store, agentIds, query.nowMs - Math.min(query.sinceMs, detailsMaxMs)),
  ]);
  return agentIds.flatMap((agentId) => {
    const past = history.get(agentId);
    const present = details.get(agentId);
    return past && present ? [{ agentId, ...past, ...present }] : [];
  });
}

/** Older samples do not count as current. */
const nowMaxMs = 3_600_000;

/** SQL for the mean CPU use of the newest four samples (one every 15 s); null if there are fewer than three. */
const minuteSql = `(
  SELECT CASE WHEN count(*) >= 3 THEN avg(recent.cpu_busy_ratio) END FROM host recent
  WHERE recent.agent_id = newest.agent_id AND recent.epoch = newest.epoch AND recent.time BETWEEN newest.time - INTERVAL 50 SECONDS AND newest.time
    AND recent.time >= make_timestamp(?)
)`;

/** One row for each agent that was sampled within the last hour. */
export async function queryHostsNow(store: Queryable, options: { nowMs?: number } = {}): Promise<HostNow[]> {
  const sinceUs = ((options.nowMs ?? Date.now()) - nowMaxMs) * 1_000;
  const columns = `agent_id, time, cpu_busy_ratio, ${minuteSql} AS cpu_busy_minute_ratio, cpu_count,
    1 - mem_available_bytes / nullif(mem_total_bytes, 0) AS mem_used_ratio, mem_total_bytes, load_1m`;
  const rows = await store.query(`${latestSampleSql("host", "time >= make_timestamp(?)", columns)} ORDER BY agent_id`, [
    sinceUs,
    sinceUs,
    sinceUs,
  ]);
  return rows.map((row) => ({
    agentId: textIn(row, "agent_id"),
    sampledAt: isoTimeIn(row, "time"),
    cpuBusyRatio: numberOrNullIn(row, "cpu_busy_ratio"),
    cpuBusyMinuteRatio: numberOrNullIn(row, "cpu_busy_minute_ratio"),
    cpuCount: numberOrNullIn(row, "cpu_count"),
    memUsedRatio: numberOrNullIn(row, "mem_used_ratio"),
    memTotalBytes: numberOrNullIn(row, "mem_total_bytes"),
    load1m: numberOrNullIn(row, "load_1m"),
  }));
}
