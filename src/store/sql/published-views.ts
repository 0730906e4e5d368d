import { createHash } from "node:crypto";
import { storedColumns } from "../columns/column-batch.ts";
import type { Transaction } from "../engine/database.ts";
import type { Signal } from "../signals/define-signal.ts";
import { resolutions, rollupName, rollupView, type ViewColumn } from "../tables/rollup.ts";
import { sqlTypeOf } from "../tables/signal-tables.ts";
import { discoveryViews } from "./discovery-views.ts";
import { latenciesView } from "./latencies-view.ts";

/** A view that users' SQL may read. Its schema is `viewSchema`. */
export interface PublishedView {
  name: string;
  /** One line for people and language models. */
  description: string;
  columns: readonly ViewColumn[];
  /** It reads segment files: those set on its connection. */
  isSegmented?: boolean;
}

/** Schema of the published views in the colony's file. All other schemas are internal. */
export const viewSchema = "views";

export interface ViewDefinition extends PublishedView {
  sql: string;
}

/**
 * Columns of observed data that hold service ids; the views show labels instead. Telemetry keeps the name that its program sent. Internal
 * queries read tables, or `service_id`.
 */
const labelledColumns: Readonly<Record<string, readonly string[]>> = {
  red: ["service", "peer"],
  connection: ["service"],
  service_instance: ["service"],
  agent_event: ["service"],
  services: ["service"],
  service_instances: ["service"],
  connections: ["source_service", "dest_service"],
  edges: ["client", "server"],
  endpoints: ["service"],
  events: ["service"],
  red_latencies: ["service", "peer"],
};

function withLabels(database: string, view: ViewDefinition): ViewDefinition {
  const columns = labelledColumns[view.name.replace(/_(?:1m|10m)$/, "")];
  if (columns === undefined) return view;
  const labels = columns.map((name, at) => `coalesce(n${at}.label, v."${name}") AS "${name}"`).join(", ");
  const joins = columns.map((name, at) => `LEFT JOIN "${database}".net.service_names n${at} ON n${at}.text = v."${name}"`).join(" ");
  return { ...view, sql: `SELECT v.* REPLACE (${labels}) FROM (${view.sql}) v ${joins}` };
}

function signalViews(database: string, signal: Signal): ViewDefinition[] {
  const columns = storedColumns(signal).filter(({ name }) => name !== "mono_ms");
  const raw: ViewDefinition = {
    name: signal.name,
    description: signal.description,
    columns: [
      { name: "agent_id", type: "VARCHAR" },
      { name: "epoch", type: "VARCHAR" },
      { name: "seq", type: "UBIGINT" },
      ...columns.map(({ name, type }) => ({ name, type: sqlTypeOf(type) })),
    ],
    sql: `SELECT s.agent_id, s.epoch, r.seq, ${columns.map(({ name }) => `r."${name}"`).join(", ")}
      FROM "${database}".raw."${signal.name}" r JOIN "${database}".internal.sources s USING (source)`,
  };
  if (signal.isThinned) {
    const thinned = resolutions.map((resolution) => {
      const name = rollupName(signal, resolution);
      const description = `${signal.description}; merged to ${resolution.bucketMinutes} min, kept longer`;
      return { ...raw, name, description, sql: raw.sql.replace(`.raw."${signal.name}"`, `.rollup."${name}"`) };
    });
    return [raw, ...thinned];
  }
  if (signal.rollup === undefined) return [raw];
  const coarse = resolutions.map((resolution) => ({
    name: rollupName(signal, resolution),
    description: `${signal.description}; merged to ${resolution.bucketMinutes} min, kept longer; time is the start of the interval`,
    ...rollupView(database, signal, resolution),
  }));
  return [raw, ...coarse];
}

/** Where agents run, and its history. Null for agents that do not report it. */
function runtimeViews(database: string): ViewDefinition[] {
  const text = (name: string): ViewColumn => ({ name, type: "VARCHAR" });
  const time = (name: string): ViewColumn => ({ name, type: "TIMESTAMP" });
  const can = ["can_connect", "can_exec", "can_shell", "can_run"].map((name): ViewColumn => ({ name, type: "BOOLEAN" }));
  const kinds = ["runtime_type", "sidecar_mode", "cri_type", "cri_version"].map(text);
  const list = (columns: readonly ViewColumn[], of: string): string => columns.map(({ name }) => `${of}.${name}`).join(", ");
  const agent = ["agent_id", "hostname", "version"].map(text);
  const platform = ["platform_os", "os_version"].map(text);
  const history = [text("agent_id"), ...kinds, ...can, text("change_reason"), text("changes")];
  return [
    {
      name: "agent_registry",
      description: "Where each agent runs and which commands it can do; runtime_type is null for agents that do not report it",
      columns: [
        ...agent,
        { name: "is_legacy", type: "BOOLEAN" },
        ...kinds,
        ...platform,
        ...can,
        time("detected_at"),
        { name: "runtime", type: "JSON" },
      ],
      sql: `SELECT ${list(agent, "a")}, a.protocol_version < 2 AS is_legacy, ${list([...kinds, ...platform, ...can], "r")}, r.detected_at, r.context AS runtime
        FROM "${database}".registry.agents a LEFT JOIN "${database}".registry.agent_runtime r USING (agent_id)`,
    },
    {
      name: "agent_runtime_history",
      description: "Changes of where agents run and what they can do there, with the reason",
      columns: [time("time"), ...history],
      sql: `SELECT changed_at AS "time", ${list(history, "h")} FROM "${database}".registry.agent_runtime_history h`,
    },
  ];
}

function registryViews(database: string, hasSpanEdges: boolean): ViewDefinition[] {
  const text = (name: string): ViewColumn => ({ name, type: "VARCHAR" });
  const time = (name: string): ViewColumn => ({ name, type: "TIMESTAMP" });
  const agents = [
    ...["agent_id", "hostname", "os", "kernel", "arch", "version"].map(text),
    { name: "labels", type: "JSON" },
    { name: "capabilities", type: "JSON" },
    ...["first_seen_at", "last_seen_at", "registered_at", "revoked_at"].map(time),
    { name: "pull_lag_ms", type: "DOUBLE" },
  ];
  return [
    {
      name: "agents",
      description: "Every agent that has registered with this colony",
      columns: agents,
      sql: `SELECT ${agents.map(({ name }) => name).join(", ")} FROM "${database}".registry.agents`,
    },
    ...runtimeViews(database),
    {
      name: "gaps",
      description: "Rows known to be missing, and why; rows is null if their number is unknown",
      columns: [time("time"), text("agent_id"), text("signal"), text("reason"), { name: "rows", type: "UBIGINT" }],
      sql: `SELECT noticed_at AS "time", agent_id, signal, reason, rows FROM "${database}".internal.gaps`,
    },
    ...discoveryViews(database, hasSpanEdges).map(({ name, description, columns: shown, from }) => ({
      name,
      description,
      columns: shown.map((column) => ({ name: column.name, type: column.type })),
      sql: `SELECT ${shown.map((column) => `${column.sql} AS "${column.name}"`).join(", ")} FROM ${from}`,
    })),
  ];
}

/** Events of the colony and its agents, merged by time. */
function eventsView(database: string, signals: readonly Signal[]): ViewDefinition {
  const columns = ["time", "kind", "severity", "service", "agent_id", "message", "details", "service_id"];
  // Details are free text from agents; the view must not fail for invalid JSON.
  const agents = `UNION ALL SELECT r."time", r.kind, r.severity, r.service, s.agent_id, r.message,
      CASE WHEN json_valid(r.details) THEN r.details ELSE to_json(r.details) END
    FROM "${database}".raw.agent_event r JOIN "${database}".internal.sources s USING (source)`;
  return {
    name: "events",
    description: "What happened to services, agents and the colony: restarts, updates, health, new dependencies, joins, losses",
    columns: columns.map((name) => ({ name, type: name === "time" ? "TIMESTAMP" : name === "details" ? "JSON" : "VARCHAR" })),
    sql: `SELECT "time", kind, severity, service, agent_id, message, details::JSON AS details, service AS service_id FROM (
      SELECT occurred_at AS "time", kind,
        CASE WHEN kind = 'incident-updated' AND json_extract_string(details, '$.news') = 'recovered' THEN 'info'
          WHEN kind IN ('agent-id-duplicate', 'store-recovered', 'store-write-failed', 'audit-broken', 'service-critical', 'incident-opened') THEN 'error'
          WHEN kind IN ('rows-lost', 'agent-revoked', 'service-stale', 'egress-new', 'ingress-new', 'deployment-regression', 'service-degraded', 'incident-updated', 'agent-runtime-doubtful')
            THEN 'warning'
          -- It lost a capability.
          WHEN kind = 'agent-runtime-changed' AND contains(message, ' yes → no') THEN 'warning'
          WHEN kind = 'agent-health-changed' AND json_extract_string(details, '$.after') <> 'healthy' THEN 'warning' ELSE 'info' END AS severity,
        json_extract_string(details, '$.service') AS service, agent_id, message, details FROM "${database}".registry.events
      ${signals.some((signal) => signal.name === "agent_event") ? agents : ""})`,
  };
}

/** All views of a colony with these signals; `more` are views over segments. */
export function viewDefinitions(database: string, signals: readonly Signal[], more: readonly ViewDefinition[] = []): ViewDefinition[] {
  const has = (name: string): boolean => signals.some((signal) => signal.name === name);
  return [
    ...more,
    ...signals.filter((signal) => !signal.isPrivate).flatMap((signal) => signalViews(database, signal)),
    ...(has("red") ? [latenciesView(database)] : []),
    ...registryViews(database, has("span_edge")),
    eventsView(database, signals),
  ].map((view) => withLabels(database, view));
}

/**
 * Creates views whose declaration has changed, and drops removed ones. A view's comment is the hash of its statement, so a start without
 * changes writes nothing and succeeds even on a full disk.
 */
export async function publishViews(
  transaction: Transaction,
  database: string,
  signals: readonly Signal[],
  more: readonly ViewDefinition[] = [],
): Promise<PublishedView[]> {
  const definitions = viewDefinitions(database, signals, more);
  const stored = await transaction.query("SELECT view_name, comment FROM duckdb_views() WHERE database_name = ? AND schema_name = ?", [
    database,
    viewSchema,
  ]);
  const hashes = new Map(stored.map((row) => [String(row["view_name"]), row["comment"]]));
  const wanted = new Set(definitions.map(({ name }) => name));
  for (const name of hashes.keys()) {
    if (!wanted.has(name)) await transaction.run(`DROP VIEW ${viewSchema}."${name}"`);
  }
  for (const { name, sql } of definitions) {
    const hash = createHash("sha256").update(sql).digest("hex");
    if (hashes.get(name) === hash) continue;
    await transaction.run(`CREATE OR REPLACE VIEW ${viewSchema}."${name}" AS ${sql}`);
    await transaction.run(`COMMENT ON VIEW ${viewSchema}."${name}" IS '${hash}'`);
  }
  return definitions.map(({ sql: _sql, ...view }) => view);
}
