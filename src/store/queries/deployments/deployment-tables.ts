/** Stored builds and deployments of services. All times are milliseconds since 1970. */

import type { ServiceFilter } from "../../../model/services.ts";
import type { Transaction } from "../../engine/database.ts";
import {
  numberIn,
  numberOrNullIn,
  placeholders,
  type Queryable,
  type QueryParameter,
  type QueryRow,
  textIn,
  textOrNullIn,
  type WritableStore,
} from "../../tables/queryable.ts";
import { serviceTexts } from "../service-filter.ts";

/** A build that a service ran. `found_by` is `process` or `span`. One of `build` and `version` may be empty. */
export interface KnownBuild {
  service: string;
  foundBy: "process" | "span";
  build: string;
  version: string;
  firstSeenMs: number;
  lastSeenMs: number;
  isRunning: boolean;
  places: BuildPlace[];
}

/**
 * A build at one agent, by that agent's clock. `instances` is the process count of the last scan with it, or the request count for spans.
 */
export interface BuildPlace {
  agentId: string;
  startedMs: number;
  lastMs: number;
  instances: number;
}

/** One of several builds that run side by side. `requests` covers the last five minutes; null where builds cannot be told apart. */
export interface BuildShare {
  build: string | null;
  version: string | null;
  instances: number;
  agents: number;
  requests: number | null;
}

/** An agent that a deployment reached, and when. */
export interface DeploymentPlace {
  agentId: string;
  atMs: number;
}

export interface DeploymentRecord {
  id: string;
  service: string;
  startedMs: number;
  noticedMs: number;
  /** Any of `build`, `version`, `mark`. */
  foundBy: string[];
  build: string | null;
  previousBuild: string | null;
  version: string | null;
  previousVersion: string | null;
  note: string;
  markedBy: string | null;
  /** Empty when unknown: then it applies everywhere. */
  places: DeploymentPlace[];
  /** How often it was compared with the period before. */
  looks: number;
  isComplete: boolean;
  verdict: string;
  evaluatedMs: number | null;
  /** JSON. */
  report: string | null;
  /** `rolling`, `complete`, `rolled-back`, `variant`. */
  state: string;
  shares: BuildShare[];
  /** When the old build stopped, or the new one after a rollback. */
  endedMs: number | null;
}

export interface DeploymentsQuery {
  service?: ServiceFilter;
  /** Only deployments that started since then. */
  fromMs?: number;
  /** Only deployments still being compared, or to be compared again because late rows arrived. */
  open?: boolean;
  limit: number;
}

/** Name in the table of roll-up progress. New pulls are numbered above the highest number there. */
const progressName = "deployments";
const keptMs = 60 * 86_400_000;

/** The last pull whose rows were read; null if there was none. */
export async function loadBuildProgress(store: Queryable): Promise<number | null> {
  const [row] = await store.query("SELECT max(ingest) AS ingest FROM internal.rollup_progress WHERE name = ?", [progressName]);
  return row === undefined ? null : numberOrNullIn(row, "ingest");
}

export async function loadKnownBuilds(store: Queryable): Promise<KnownBuild[]> {
  const rows = await store.query("SELECT * FROM registry.service_builds ORDER BY first_seen, service, build, version");
  return rows.map((row) => ({
    service: textIn(row, "service"),
    foundBy: textIn(row, "found_by") === "span" ? "span" : "process",
    build: textIn(row, "build"),
    version: textIn(row, "version"),
    firstSeenMs: millisecondsIn(row, "first_seen"),
    lastSeenMs: millisecondsIn(row, "last_seen"),
    isRunning: row["is_running"] === true,
    places: JSON.parse(textOrNullIn(row, "places") ?? "[]") as BuildPlace[],
  }));
}

/** Sorted newest first. */
export async function listDeployments(store: Queryable, query: DeploymentsQuery): Promise<DeploymentRecord[]> {
  const conditions = ["true"];
  const parameters: QueryParameter[] = [];
  if (query.service !== undefined) {
    const texts = serviceTexts(query.service);
    conditions.push(`service IN (${placeholders(texts)})`);
    parameters.push(...texts);
  }
  if (query.fromMs !== undefined) {
    conditions.push("started_at >= make_timestamp(?)");
    parameters.push(Math.floor(query.fromMs * 1_000));
  }
  if (query.open) conditions.push("(NOT is_complete OR (looks > 0 AND evaluated_at IS NULL))");
  const rows = await store.query(
    `SELECT * FROM registry.deployments WHERE ${conditions.join(" AND ")} ORDER BY started_at DESC, id LIMIT ?`,
    [...parameters, query.limit],
  );
  return rows.map(deploymentIn);
}

export interface DeploymentChanges {
  builds: readonly KnownBuild[];
  /** New deployments, and replacements for stored ones with the same id. */
  deployments: readonly DeploymentRecord[];
  /** Events stored in the same transaction, so that each is reported once. */
  events: readonly { kind: string; atMs: number; message: string; details: Record<string, unknown> }[];
  /** The last pull whose rows were read. */
  readUpTo?: number;
}

/** Saves everything in one transaction, and deletes what is older than 60 days. */
export async function saveDeployments(store: WritableStore, changes: DeploymentChanges, nowMs: number): Promise<void> {
  const { builds, deployments, events, readUpTo } = changes;
  if (builds.length + deployments.length + events.length === 0 && readUpTo === undefined) return;
  await store.write(async (transaction) => {
    if (readUpTo !== undefined) {
      const changed = await transaction.run("UPDATE internal.rollup_progress SET ingest = ? WHERE name = ?", [readUpTo, progressName]);
      if (changed === 0) await transaction.run("INSERT INTO internal.rollup_progress VALUES (?, ?)", [progressName, readUpTo]);
    }
    for (const build of builds) await saveBuild(transaction, build);
    for (const deployment of deployments) await saveDeployment(transaction, deployment);
    for (const { kind, atMs, message, details } of events) {
      await transaction.run("INSERT INTO registry.events VALUES (make_timestamp(?), ?, NULL, ?, ?)", [
        Math.floor(atMs * 1_000),
        kind,
        message,
        JSON.stringify(details),
      ]);
    }
    const oldestUs = Math.floor((nowMs - keptMs) * 1_000);
    await transaction.run("DELETE FROM registry.deployments WHERE started_at < make_timestamp(?)", [oldestUs]);
    await transaction.run("DELETE FROM registry.service_builds WHERE NOT is_running AND last_seen < make_timestamp(?)", [oldestUs]);
  });
}

async function saveBuild(transaction: Transaction, build: KnownBuild): Promise<void> {
  const { service, foundBy, version, firstSeenMs, lastSeenMs, isRunning } = build;
  await transaction.run("DELETE FROM registry.service_builds WHERE service = ? AND found_by = ? AND build = ? AND version = ?", [
    service,
    foundBy,
    build.build,
    version,
  ]);
  await transaction.run("INSERT INTO registry.service_builds VALUES (?, ?, ?, ?, make_timestamp(?), make_timestamp(?), ?, ?)", [
    service,
    foundBy,
    build.build,
    version,
    Math.floor(firstSeenMs * 1_000),
    Math.floor(lastSeenMs * 1_000),
    isRunning,
    JSON.stringify(build.places),
  ]);
}

async function saveDeployment(transaction: Transaction, one: DeploymentRecord): Promise<void> {
  await transaction.run("DELETE FROM registry.deployments WHERE id = ?", [one.id]);
  await transaction.run(
    `INSERT INTO registry.deployments VALUES (?, ?, make_timestamp(?), make_timestamp(?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
       CASE WHEN CAST(? AS BIGINT) < 0 THEN NULL ELSE make_timestamp(CAST(? AS BIGINT)) END, ?, ?, ?,
       CASE WHEN CAST(? AS BIGINT) < 0 THEN NULL ELSE make_timestamp(CAST(? AS BIGINT)) END)`,
    [
      one.id,
      one.service,
      Math.floor(one.startedMs * 1_000),
      Math.floor(one.noticedMs * 1_000),
      one.foundBy.join(","),
      one.build,
      one.previousBuild,
      one.version,
      one.previousVersion,
      one.note,
      one.markedBy,
      JSON.stringify(one.places),
      one.looks,
      one.isComplete,
      one.verdict,
      ...[0, 1].map(() => (one.evaluatedMs === null ? -1 : Math.floor(one.evaluatedMs * 1_000))),
      one.report,
      one.state,
      JSON.stringify(one.shares),
      ...[0, 1].map(() => (one.endedMs === null ? -1 : Math.floor(one.endedMs * 1_000))),
    ],
  );
}

function deploymentIn(row: QueryRow): DeploymentRecord {
  return {
    id: textIn(row, "id"),
    service: textIn(row, "service"),
    startedMs: millisecondsIn(row, "started_at"),
    noticedMs: millisecondsIn(row, "noticed_at"),
    foundBy: textIn(row, "found_by").split(","),
    build: textOrNullIn(row, "build"),
    previousBuild: textOrNullIn(row, "previous_build"),
    version: textOrNullIn(row, "version"),
    previousVersion: textOrNullIn(row, "previous_version"),
    note: textIn(row, "note"),
    markedBy: textOrNullIn(row, "marked_by"),
    places: JSON.parse(textIn(row, "places")) as DeploymentPlace[],
    looks: numberIn(row, "looks"),
    isComplete: row["is_complete"] === true,
    verdict: textIn(row, "verdict"),
    evaluatedMs: numberOrNullIn(row, "evaluated_at") === null ? null : millisecondsIn(row, "evaluated_at"),
    report: textOrNullIn(row, "report"),
    state: textOrNullIn(row, "state") ?? "complete",
    shares: JSON.parse(textOrNullIn(row, "shares") ?? "[]") as BuildShare[],
    endedMs: numberOrNullIn(row, "ended_at") === null ? null : millisecondsIn(row, "ended_at"),
  };
}

function millisecondsIn(row: QueryRow, name: string): number {
  return Math.floor(numberIn(row, name) / 1_000);
}
