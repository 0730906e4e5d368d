/** Incidents and declared objectives. Times are milliseconds since 1970, services are ids. */

import type { EvidenceFact } from "../../model/diagnosis.ts";
import type { Incident, IncidentState, Objective } from "../../model/incident.ts";
import type { Row, SqlParameter, SqlValue } from "../engine/sql-values.ts";
import type { ColonyStore } from "./colony-store.ts";

/** Limits on the age and number of closed incidents. */
const keptMs = 180 * 86_400_000;
const keptMax = 10_000;

type Facts = Pick<
  Incident,
  "severity" | "symptoms" | "cause" | "ruledOut" | "next" | "changes" | "evidence" | "timeline" | "diagnosedMs" | "mergedInto"
>;

export interface StoredEvent {
  atMs: number;
  kind: string;
  message: string;
  details: Record<string, unknown>;
}

/** Inserts or replaces incidents. Their events are stored in the same transaction, so that each is reported once. */
export async function saveIncidents(
  store: ColonyStore,
  { incidents, events, nowMs }: { incidents: readonly Incident[]; events: readonly StoredEvent[]; nowMs: number },
): Promise<void> {
  if (incidents.length + events.length === 0) return;
  await store.write(async (transaction) => {
    for (const incident of incidents) {
      await transaction.run("DELETE FROM registry.incidents WHERE number = ?", [incident.number]);
      const { endedMs, closedMs } = incident;
      await transaction.run(
        `INSERT INTO registry.incidents VALUES (?, ?, make_timestamp(?), make_timestamp(?), make_timestamp(?), ${timeSql(endedMs)}, ${timeSql(closedMs)}, ?, ?, ?)`,
        [
          incident.number,
          incident.state,
          microseconds(incident.startedMs),
          microseconds(incident.openedMs),
          microseconds(incident.updatedMs),
          incident.symptoms[0]?.service ?? "",
          incident.cause?.service ?? null,
          JSON.stringify(factsOf(incident)),
        ],
      );
    }
    for (const { atMs, kind, message, details } of events) {
      const values: SqlParameter[] = [microseconds(atMs), kind, message, JSON.stringify(details)];
      await transaction.run("INSERT INTO registry.events VALUES (make_timestamp(?), ?, NULL, ?, ?)", values);
    }
    await transaction.run("DELETE FROM registry.incidents WHERE state <> 'open' AND updated_at < make_timestamp(?)", [
      microseconds(nowMs - keptMs),
    ]);
    await transaction.run(
      `DELETE FROM registry.incidents WHERE state <> 'open' AND number::BIGINT + ${keptMax} <= (SELECT max(number)::BIGINT FROM registry.incidents)`,
    );
  });
}

export interface IncidentQuery {
  state?: IncidentState;
  number?: number;
  /** Only incidents updated since then. */
  fromMs?: number;
  limit: number;
}

/** Open ones first, then newest first. */
export async function loadIncidents(store: ColonyStore, { state, number, fromMs, limit }: IncidentQuery): Promise<Incident[]> {
  const conditions = ["true"];
  const parameters: SqlParameter[] = [];
  if (state !== undefined) {
    conditions.push("state = ?");
    parameters.push(state);
  }
  if (number !== undefined) {
    conditions.push("number = ?");
    parameters.push(number);
  }
  if (fromMs !== undefined) {
    conditions.push("(state = 'open' OR updated_at >= make_timestamp(?))");
    parameters.push(microseconds(fromMs));
  }
  const rows = await store.query(
    `SELECT * FROM registry.incidents WHERE ${conditions.join(" AND ")} ORDER BY (state = 'open') DESC, number DESC LIMIT ?`,
    [...parameters, limit],
  );
  return rows.map(incidentIn);
}

/** Evidence of an incident is kept as long as the incident. */
export async function findIncidentEvidence(store: ColonyStore, id: string): Promise<EvidenceFact | undefined> {
  const rows = await store.query("SELECT facts FROM registry.incidents WHERE contains(facts::VARCHAR, ?) ORDER BY number DESC LIMIT 10", [
    id,
  ]);
  return rows.flatMap((row) => (JSON.parse(text(row["facts"])) as Facts).evidence).find((fact) => fact.id === id);
}

/** Counts all incidents, including those that a list would leave out. */
export async function countIncidents(store: ColonyStore): Promise<{ open: number; last: number }> {
  const [row] = await store.query(
    "SELECT count(*) FILTER (state = 'open') AS open, coalesce(max(number), 0) AS last FROM registry.incidents",
  );
  return { open: Number(row?.["open"] ?? 0), last: Number(row?.["last"] ?? 0) };
}

/** Sorted by service and route. */
export async function loadObjectives(store: ColonyStore): Promise<Objective[]> {
  const rows = await store.query("SELECT * FROM registry.objectives ORDER BY service, route");
  return rows.map((row) => ({
    service: text(row["service"]),
    route: text(row["route"]),
    p95Us: numberOrNull(row["p95_us"]),
    errorRatio: numberOrNull(row["error_ratio"]),
    setBy: text(row["set_by"]),
    setMs: milliseconds(row["set_at"]),
  }));
}

/** Replaces the objective for the same service and route. */
export async function saveObjective(store: ColonyStore, objective: Objective): Promise<void> {
  const { service, route, p95Us, errorRatio, setBy, setMs } = objective;
  await store.write(async (transaction) => {
    await transaction.run("DELETE FROM registry.objectives WHERE service = ? AND route = ?", [service, route]);
    await transaction.run("INSERT INTO registry.objectives VALUES (?, ?, ?, ?, ?, make_timestamp(?))", [
      service,
      route,
      p95Us,
      errorRatio,
      setBy,
      microseconds(setMs),
    ]);
  });
}

/** Returns how many were deleted. */
export async function deleteObjectives(store: ColonyStore, services: readonly string[], route: string): Promise<number> {
  if (services.length === 0) return 0;
  const list = services.map(() => "?").join(", ");
  return await store.write((transaction) =>
    transaction.run(`DELETE FROM registry.objectives WHERE service IN (${list}) AND route = ?`, [...services, route]),
  );
}

function factsOf({ severity, symptoms, cause, ruledOut, next, changes, evidence, timeline, diagnosedMs, mergedInto }: Incident): Facts {
  return { severity, symptoms, cause, ruledOut, next, changes, evidence, timeline, diagnosedMs, mergedInto };
}

function incidentIn(row: Row): Incident {
  return {
    number: Number(row["number"]),
    state: text(row["state"]) as IncidentState,
    startedMs: milliseconds(row["started_at"]),
    openedMs: milliseconds(row["opened_at"]),
    updatedMs: milliseconds(row["updated_at"]),
    endedMs: row["ended_at"] === null ? null : milliseconds(row["ended_at"]),
    closedMs: row["closed_at"] === null ? null : milliseconds(row["closed_at"]),
    ...(JSON.parse(text(row["facts"])) as Facts),
  };
}

const microseconds = (ms: number): number => Math.floor(ms * 1_000);
const milliseconds = (value: SqlValue | undefined): number => Math.floor(Number(value ?? 0) / 1_000);
const timeSql = (ms: number | null): string => (ms === null ? "NULL" : `make_timestamp(${microseconds(ms)})`);
const text = (value: SqlValue | undefined): string => (typeof value === "string" ? value : "");
const numberOrNull = (value: SqlValue | undefined): number | null => (value === null || value === undefined ? null : Number(value));
