import type { ColonyEvent, EventsRequest } from "../../model/events.ts";
import type { Resolved } from "../../model/services.ts";
import { isoTimeIn, placeholders, type Queryable, type QueryParameter, textIn, textOrNullIn } from "../tables/queryable.ts";
import { serviceTexts } from "./service-filter.ts";

export interface EventsQuery extends Resolved<EventsRequest> {
  nowMs: number;
}

const severities = ["info", "warning", "error"] as const;

/** Events of the colony and its agents, newest first. */
export async function queryEvents(store: Queryable, query: EventsQuery): Promise<ColonyEvent[]> {
  const conditions = ["time >= make_timestamp(?)"];
  const parameters: QueryParameter[] = [Math.floor((query.nowMs - query.sinceMs) * 1_000)];
  if (query.agentIds !== undefined) {
    if (query.agentIds.length === 0) return [];
    conditions.push(`agent_id IN (${placeholders(query.agentIds)})`);
    parameters.push(...query.agentIds);
  }
  if (query.kind !== undefined) {
    conditions.push("kind = ?");
    parameters.push(query.kind);
  }
  if (query.service !== undefined) {
    const texts = serviceTexts(query.service);
    conditions.push(
      `(service_id IN (${placeholders(texts)}) OR list_has_any(CASE WHEN json_valid(details) THEN json_extract_string(details, '$.services[*]') END, [${placeholders(texts)}]))`,
    );
    parameters.push(...texts, ...texts);
  }
  const rows = await store.query(
    `SELECT time, kind, severity, agent_id, service_id AS service, message, details FROM events WHERE ${conditions.join(" AND ")}
     ORDER BY time DESC, kind, agent_id, message LIMIT ?`,
    [...parameters, query.limit],
  );
  return rows.map((row) => ({
    at: isoTimeIn(row, "time"),
    kind: textIn(row, "kind"),
    severity: severities.find((severity) => severity === textIn(row, "severity")) ?? "info",
    agentId: textOrNullIn(row, "agent_id"),
    service: textOrNullIn(row, "service"),
    message: textIn(row, "message"),
    details: detailsIn(textIn(row, "details")),
  }));
}

/** Agents write `details`; a value that is not a JSON object is returned as text. */
function detailsIn(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : { value };
  } catch {
    return { text };
  }
}
