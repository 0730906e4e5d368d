import { latestSampleSql } from "./latest-sample.ts";
import { isoTimeIn, numberIn, type Queryable, textIn, textOrNullIn } from "./queryable.ts";

/** One service and port at one agent, from that agent's newest listener sample. */
export interface ServiceListenerRow {
  agentId: string;
  service: string;
  namedBy: string;
  protocol: string;
  port: number;
  addresses: string[];
  /** At least 1, also when the pids may not be read. */
  instances: number;
  pids: number[];
  exe: string | null;
  sampledAt: string;
}

/** Agents that were silent for longer show no services. */
const windowMs = 6 * 3_600_000;
/** An empty sample leaves no rows; a listener sample this much older than the newest host sample is one that was followed by empty ones. */
const staleAfterUs = 200_000_000;

export async function queryServices(store: Queryable, options: { nowMs?: number } = {}): Promise<ServiceListenerRow[]> {
  const sinceUs = ((options.nowMs ?? Date.now()) - windowMs) * 1_000;
  const rows = await store.query(
    `WITH sample AS (${latestSampleSql("listener", "time >= make_timestamp(?)")}),
     host_newest AS (SELECT agent_id, epoch, arg_max(time, seq) AS host_at FROM host WHERE time >= make_timestamp(?) GROUP BY agent_id, epoch)
     SELECT sample.agent_id, service, arg_min(named_by, sample.seq) AS named_by, protocol, port, any_value(time) AS time,
       list_sort(list(DISTINCT address)) AS addresses,
       greatest(count(DISTINCT pid), 1) AS instances,
       list_sort(coalesce(list(DISTINCT pid) FILTER (pid IS NOT NULL), [])) AS pids,
       min(exe) AS exe
     FROM sample LEFT JOIN host_newest USING (agent_id, epoch)
     WHERE host_at IS NULL OR epoch_us(host_at) - epoch_us(time) < ?
     GROUP BY sample.agent_id, service, protocol, port
     ORDER BY service, sample.agent_id, port`,
    [sinceUs, sinceUs, sinceUs, staleAfterUs],
  );
  return rows.map((row) => ({
    agentId: textIn(row, "agent_id"),
    service: textIn(row, "service"),
    namedBy: textIn(row, "named_by"),
    protocol: textIn(row, "protocol"),
    port: numberIn(row, "port"),
    addresses: (row["addresses"] as unknown[]).map(String),
    instances: numberIn(row, "instances"),
    pids: (row["pids"] as unknown[]).map(Number),
    exe: textOrNullIn(row, "exe"),
    sampledAt: isoTimeIn(row, "time"),
  }));
}
