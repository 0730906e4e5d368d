/** Facts from Postgres: sessions, locks with their holders, the plan of a statement, tables and indexes. */

import { CoralError } from "../../base/errors.ts";
import type { DatabaseClientFact, DatabaseCredentials, DatabaseFacts, PlanFact, TableFact } from "../../model/database-facts.ts";
import { sqlTemplate } from "../../redact/index.ts";
import { postgresStatement } from "../plans/explainable.ts";
import { indexAdvice } from "../plans/index-advice.ts";
import type { DatabaseAddress } from "../wire/byte-stream.ts";
import { PostgresClient, type PostgresRow } from "./postgres-client.ts";
import { lockFacts, lockSql } from "./postgres-locks.ts";
import { type PostgresPlan, readPostgresPlan } from "./postgres-plan.ts";

/** `force_generic_plan` exists since version 12. */
const minPlanVersion = 120_000;
const maxTables = 5;
const maxIndexes = 10;
const prepared = "coral_explained";

/** Every query runs in a transaction that can neither write nor wait for locks. */
const guards = ["BEGIN READ ONLY", "SET LOCAL lock_timeout = 100", "SET LOCAL idle_in_transaction_session_timeout = 10000"];

export async function readPostgres(
  address: DatabaseAddress,
  login: DatabaseCredentials,
  { statement, signal, statementMs }: { statement: string | null; signal: AbortSignal; statementMs: number },
): Promise<DatabaseFacts> {
  using client = await PostgresClient.open(address, login, signal);
  const session = new PostgresSession(client, statementMs);
  const [role = {}] = await session.guarded(() => client.query(roleSql));
  const version = Number(role["number"]);
  const facts: DatabaseFacts = {
    engine: "postgres",
    version: role["version"] ?? "",
    user: role["user"] ?? login.user,
    database: role["database"] ?? login.database,
    canWrite: role["can_write"] === "t",
    connections: null,
    clients: [],
    locks: lockFacts(await session.rows("locks", lockSql)),
    plan: null,
    tables: [],
    statements: [],
    cache: null,
    notes: session.notes,
  };
  if (role["sees_all"] !== "t")
    facts.notes.push(`statements and states of other roles are hidden: GRANT pg_monitor TO "${facts.user}" shows them`);
  addSessions(facts, await session.rows("sessions", sessionsSql), numberOf(role, "max"));
  if (statement !== null) facts.plan = await explain(session, statement, version);
  facts.tables = await readTables(
    session,
    (facts.plan?.scans ?? []).map(({ table }) => table),
  );
  facts.statements = await busyStatements(session);
  return facts;
}

/** Collects notes about what could not be read instead of failing. */
class PostgresSession {
  readonly notes: string[] = [];
  readonly client: PostgresClient;
  readonly #statementMs: number;

  constructor(client: PostgresClient, statementMs: number) {
    this.client = client;
    this.#statementMs = statementMs;
  }

  async guarded<T>(work: () => Promise<T>, more: readonly string[] = []): Promise<T> {
    for (const guard of [...guards, `SET LOCAL statement_timeout = ${Math.round(this.#statementMs)}`, ...more])
      await this.client.query(guard);
    try {
      return await work();
    } finally {
      await this.client.query("ROLLBACK").catch(() => undefined);
    }
  }

  async rows(what: string, sql: string): Promise<PostgresRow[]> {
    try {
      return await this.guarded(() => this.client.query(sql));
    } catch (error) {
      const { details, message } = CoralError.from(error);
      // The connection is gone, so nothing else can be read either.
      if (details["sqlState"] === undefined) throw error;
      this.notes.push(`cannot read ${what}: ${message}`);
      return [];
    }
  }
}

const roleSql = `SELECT current_setting('server_version') AS version, current_setting('server_version_num') AS number, current_user AS "user",
  current_database() AS database, current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS max,
  pg_has_role(current_user, 'pg_read_all_stats', 'MEMBER') AS sees_all,
  EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND n.nspname NOT LIKE 'pg_temp%' AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')) OR
  (SELECT rolsuper OR rolcreatedb OR rolcreaterole FROM pg_roles WHERE rolname = current_user) AS can_write`;

const sessionsSql = `SELECT coalesce(nullif(application_name, ''), usename, '') AS client, host(client_addr) AS address, count(*) AS open,
  count(*) FILTER (WHERE state = 'active') AS active, count(*) FILTER (WHERE state LIKE 'idle in transaction%') AS idle
  FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 50`;

function addSessions(facts: DatabaseFacts, rows: readonly PostgresRow[], max: number): void {
  const clients = rows.map(
    (row): DatabaseClientFact => ({
      client: row["client"] ?? "",
      address: row["address"] ?? null,
      open: numberOf(row, "open"),
      active: numberOf(row, "active"),
      idleInTransaction: numberOf(row, "idle"),
    }),
  );
  const sum = (key: "open" | "active" | "idleInTransaction"): number => clients.reduce((total, client) => total + client[key], 0);
  facts.connections = { open: sum("open"), active: sum("active"), idleInTransaction: sum("idleInTransaction"), max };
  facts.clients = clients.slice(0, 10);
}

async function explain(session: PostgresSession, template: string, version: number): Promise<PlanFact | null> {
  const sql = postgresStatement(template) ?? (template.endsWith("…") ? await fullStatement(session, template) : null);
  if (sql === null) {
    session.notes.push(
      `cannot explain ${template}: its text is truncated, or it has no plan; install pg_stat_statements for the full text`,
    );
    return null;
  }
  if (version < minPlanVersion) {
    session.notes.push("cannot explain a statement without its values before Postgres 12");
    return null;
  }
  try {
    const plan = await genericPlan(session, sql);
    return plan === null ? null : { statement: template, indexes: plan.indexes, cost: plan.cost, scans: await scansOf(session, plan) };
  } catch (error) {
    const { details, message } = CoralError.from(error);
    if (details["sqlState"] === undefined) throw error;
    session.notes.push(`cannot explain ${template}: ${message}`);
    return null;
  }
}

/**
 * The generic plan, for unknown values. PREPARE outlives the transaction. EXPLAIN without ANALYZE does not run the statement. Works since
 * version 12; EXPLAIN (GENERIC_PLAN) needs 16.
 */
async function genericPlan(session: PostgresSession, sql: string): Promise<PostgresPlan | null> {
  const { client } = session;
  const read = async (): Promise<PostgresPlan | null> => {
    await client.query(`PREPARE ${prepared} AS ${sql}`);
    const [known] = await client.query(
      `SELECT coalesce(array_length(parameter_types, 1), 0) AS count FROM pg_prepared_statements WHERE name = '${prepared}'`,
    );
    const count = numberOf(known ?? {}, "count");
    const values = count === 0 ? "" : `(${Array.from({ length: count }, () => "NULL").join(", ")})`;
    const rows = await client.query(`EXPLAIN (FORMAT JSON, VERBOSE) EXECUTE ${prepared}${values}`);
    return readPostgresPlan(rows.map((row) => row["QUERY PLAN"] ?? "").join("\n"));
  };
  try {
    return await session.guarded(read, ["SET LOCAL plan_cache_mode = force_generic_plan"]);
  } finally {
    // Fails if PREPARE failed.
    await client.query(`DEALLOCATE ${prepared}`).catch(() => undefined);
  }
}

/** Request names are truncated; the server's statistics have full texts. */
async function fullStatement(session: PostgresSession, template: string): Promise<string | null> {
  const start = template.slice(0, -1);
  const rows = await session.rows("pg_stat_statements", "SELECT query FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 500");
  const whole = rows.map((row) => row["query"] ?? "").find((query) => sqlTemplate(query, { maxLength: 4_000 }).template.startsWith(start));
  return whole === undefined ? null : postgresStatement(whole);
}

async function scansOf(session: PostgresSession, { scans }: PostgresPlan): Promise<PlanFact["scans"]> {
  const found: PlanFact["scans"] = [];
  for (const { schema, table, columns } of scans.slice(0, maxTables)) {
    const [row = {}] = await session.rows(
      `indexes of ${table}`,
      `SELECT format('%I.%I', n.nspname, c.relname) AS name, greatest(c.reltuples, pg_stat_get_live_tuples(c.oid)) AS rows,
         (SELECT string_agg(quote_ident(a.attname), ',') FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] WHERE i.indrelid = c.oid AND i.indisvalid) AS indexed
       FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = ${quoted(table)} AND n.nspname = ${quoted(schema)} LIMIT 1`,
    );
    const [name, rows] = [row["name"] ?? table, Math.max(0, Math.round(numberOf(row, "rows")))];
    const indexed = (row["indexed"] ?? "").split(",");
    found.push({ table: name, rows, columns, advice: indexAdvice({ table: name, rows, columns, indexed, concurrently: true }) });
  }
  return found.sort((a, b) => b.rows - a.rows);
}

/** Tables of the plan, else those with most rows read sequentially. */
async function readTables(session: PostgresSession, names: readonly string[]): Promise<TableFact[]> {
  const chosen = names.length === 0 ? "seq_tup_read > 100000" : `format('%I.%I', schemaname, relname) IN (${names.map(quoted).join(", ")})`;
  const rows = await session.rows(
    "tables",
    `SELECT format('%I.%I', schemaname, relname) AS name, n_live_tup, n_dead_tup, seq_scan, idx_scan, pg_total_relation_size(relid) AS size,
       to_char(greatest(last_analyze, last_autoanalyze) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS analyzed,
       (SELECT string_agg(pg_get_indexdef(i.indexrelid), E'\\n') FROM pg_index i WHERE i.indrelid = relid) AS indexes
     FROM pg_stat_user_tables WHERE ${chosen} ORDER BY seq_tup_read DESC, 1 LIMIT ${maxTables}`,
  );
  return rows.map((row) => ({
    table: row["name"] ?? "",
    rows: numberOf(row, "n_live_tup"),
    deadRows: numberOf(row, "n_dead_tup"),
    sequentialScans: numberOf(row, "seq_scan"),
    indexScans: numberOf(row, "idx_scan"),
    sizeBytes: numberOf(row, "size"),
    indexes: (row["indexes"] ?? "")
      .split("\n")
      .filter((text) => text !== "")
      .slice(0, maxIndexes),
    lastAnalyzed: row["analyzed"] ?? null,
  }));
}

async function busyStatements(session: PostgresSession): Promise<DatabaseFacts["statements"]> {
  const [extension] = await session.rows("extensions", "SELECT 1 AS found FROM pg_extension WHERE extname = 'pg_stat_statements'");
  if (!extension) return [];
  const rows = await session.rows(
    "pg_stat_statements",
    `SELECT query, calls, total_exec_time AS total, mean_exec_time AS mean, rows FROM pg_stat_statements
     WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY total_exec_time DESC LIMIT 5`,
  );
  return rows.map((row) => ({
    statement: sqlTemplate(row["query"] ?? "").template,
    calls: numberOf(row, "calls"),
    totalMs: numberOf(row, "total"),
    meanMs: numberOf(row, "mean"),
    rows: numberOf(row, "rows"),
  }));
}

const quoted = (value: string): string => `'${value.replaceAll("'", "''")}'`;

const numberOf = (row: PostgresRow, column: string): number => Number(row[column] ?? 0);
