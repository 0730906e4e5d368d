import type { HostFacts, HostRequest } from "../../../model/host.ts";
import type { Queryable } from "../../tables/queryable.ts";
import { queryHostDetails } from "./host-details.ts";
import { queryHostHistory, seriesRange } from "./host-series.ts";

export interface HostsQuery extends HostRequest {
  nowMs: number;
}

/** Devices, control groups and processes describe the present: their averages reach back this far at most. */
const detailsMaxMs = 3_600_000;

/** All facts about hosts over the window; one entry for each requested agent, in that order. */
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
