/** Facts from MySQL and MariaDB: sessions, locks with their holders, the plan of a statement, tables and indexes. */

import { CoralError } from "../../base/errors.ts";
import type { DatabaseCredentials, DatabaseFacts, LockFact, PlanFact } from "../../model/database-facts.ts";
import { sqlTemplate } from "../../redact/index.ts";
import { mysqlStatement } from "../plans/explainable.ts";
import { indexAdvice } from "../plans/index-advice.ts";
import type { DatabaseAddress } from "../wire/byte-stream.ts";
import { MysqlClient, type MysqlRow } from "./mysql-client.ts";
import { readMysqlPlan } from "./mysql-plan.ts";

const maxTables = 5;
const maxHolders = 5;
/** Privileges that allow an account to change data. */
const writing = /\b(?:ALL PRIVILEGES|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|SUPER|FILE|EXECUTE|TRIGGER)\b/i;

export async function readMysql(
  address: DatabaseAddress,
  login: DatabaseCredentials,
  { statement, signal, statementMs }: { statement: string | null; signal: AbortSignal; statementMs: number },
): Promise<DatabaseFacts> {
  using client = await MysqlClient.open(address, login, signal);
  const [about = {}] = await client.query("SELECT version() AS version, current_user() AS user, database() AS db");
  const version = about["version"] ?? "";
  const isMariadb = /mariadb/i.test(version);
  const session = new MysqlSession(client, isMariadb);
  await session.guard(statementMs);
  const grants = await session.rows("grants", "SHOW GRANTS");
  const facts: DatabaseFacts = {
    engine: "mysql",
    version,
    user: about["user"] ?? login.user,
    database: about["db"] ?? "",
    canWrite: grants.length === 0 ? null : grants.some((row) => writing.test(Object.values(row)[0] ?? "")),
    connections: null,
    clients: [],
    locks: lockFacts(await session.rows("locks", isMariadb ? mariadbLocksSql : mysqlLocksSql)),
    plan: null,
    tables: [],
    statements: [],
    cache: null,
    notes: session.notes,
  };
  await addSessions(facts, session);
  if (statement !== null) facts.plan = await explain(session, statement, facts.database);
  facts.tables = await readTables(session, facts);
  facts.statements = await busyStatements(session, facts.database);
  return facts;
}

/** Collects notes about what could not be read instead of failing. */
class MysqlSession {
  readonly notes: string[] = [];
  readonly #client: MysqlClient;
  readonly #isMariadb: boolean;

  constructor(client: MysqlClient, isMariadb: boolean) {
    this.#client = client;
    this.#isMariadb = isMariadb;
  }

  /** Makes the session read-only, and limits waits and run time of statements. */
  async guard(statementMs: number): Promise<void> {
    await this.#client.query("SET SESSION TRANSACTION READ ONLY");
    await this.#client.query("SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1");
    // MariaDB limits all statements, in seconds; MySQL limits SELECTs, in milliseconds.
    await this.#client.query(
      this.#isMariadb
        ? `SET SESSION max_statement_time = ${statementMs / 1_000}`
        : `SET SESSION max_execution_time = ${Math.round(statementMs)}`,
    );
    await this.#client.query("START TRANSACTION READ ONLY");
  }

  async rows(what: string, sql: string): Promise<MysqlRow[]> {
    try {
      return await this.#client.query(sql);
    } catch (error) {
      const { details, message } = CoralError.from(error);
      // The connection is gone, so nothing else can be read either.
      if (details["errno"] === undefined) throw error;
      // Error 1227: a privilege is missing.
      const fix = details["errno"] === 1227 ? "; GRANT PROCESS ON *.* allows it" : "";
      this.notes.push(`cannot read ${what}: ${message}${fix}`);
      return [];
    }
  }
}

const holderColumns = `b.trx_mysql_thread_id AS pid, p.user, p.host, p.command, b.trx_query AS query, timestampdiff(SECOND, b.trx_started, now()) AS open_seconds,
  r.trx_query AS waiting_query, timestampdiff(SECOND, r.trx_wait_started, now()) AS waited`;
/** MariaDB has kept the InnoDB lock tables in information_schema; MySQL 8 moved them to performance_schema. */
const mariadbLocksSql = `SELECT ${holderColumns}, (SELECT l.lock_table FROM information_schema.innodb_locks l WHERE l.lock_id = w.requested_lock_id LIMIT 1) AS lock_table
  FROM information_schema.innodb_lock_waits w JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id
  LEFT JOIN information_schema.processlist p ON p.id = b.trx_mysql_thread_id WHERE b.trx_wait_started IS NULL ORDER BY waited DESC LIMIT 200`;
const mysqlLocksSql = `SELECT ${holderColumns}, (SELECT concat(l.object_schema, '.', l.object_name) FROM performance_schema.data_locks l WHERE l.engine_lock_id = w.requesting_engine_lock_id LIMIT 1) AS lock_table
  FROM performance_schema.data_lock_waits w JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_engine_transaction_id
  JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_engine_transaction_id
  LEFT JOIN performance_schema.processlist p ON p.id = b.trx_mysql_thread_id WHERE b.trx_wait_started IS NULL ORDER BY waited DESC LIMIT 200`;

function lockFacts(rows: readonly MysqlRow[]): LockFact[] {
  const locks = new Map<string, LockFact>();
  for (const row of rows) {
    const pid = row["pid"] ?? "";
    const known = locks.get(pid);
    if (known) {
      known.waiting++;
      continue;
    }
    const [, clientAddress = null, port] = /^(.*):(\d+)$/.exec(row["host"] ?? "") ?? [];
    locks.set(pid, {
      holder: {
        pid: Number(pid),
        user: row["user"] ?? "",
        application: "",
        clientAddress: clientAddress === "localhost" ? "127.0.0.1" : clientAddress,
        clientPort: port === undefined ? null : Number(port),
        service: null,
        state: row["command"] === "Sleep" ? "idle in transaction" : row["command"] === null ? null : "active",
        statement: templateOf(row["query"]),
        openSeconds: numberOf(row, "open_seconds"),
      },
      waiting: 1,
      longestSeconds: numberOf(row, "waited"),
      waitingStatement: templateOf(row["waiting_query"]),
      table: row["lock_table"]?.replaceAll("`", "") ?? null,
    });
  }
  return [...locks.values()].slice(0, maxHolders);
}

async function addSessions(facts: DatabaseFacts, session: MysqlSession): Promise<void> {
  const rows = await session.rows(
    "sessions",
    `SELECT p.user AS client, substring_index(p.host, ':', 1) AS address, count(*) AS open, sum(p.command <> 'Sleep') AS active, sum(p.command = 'Sleep' AND t.trx_id IS NOT NULL) AS idle
     FROM information_schema.processlist p LEFT JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id
     WHERE p.id <> connection_id() AND p.user NOT IN ('system user', 'event_scheduler') GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 50`,
  );
  const [limit = {}] = await session.rows("limits", "SELECT @@global.max_connections AS max");
  const clients = rows.map((row) => ({
    client: row["client"] ?? "",
    address: row["address"] ?? null,
    open: numberOf(row, "open"),
    active: numberOf(row, "active"),
    idleInTransaction: numberOf(row, "idle"),
  }));
  const sum = (key: "open" | "active" | "idleInTransaction"): number => clients.reduce((total, client) => total + client[key], 0);
  facts.connections = {
    open: sum("open"),
    active: sum("active"),
    idleInTransaction: sum("idleInTransaction"),
    max: numberOf(limit, "max"),
  };
  facts.clients = clients.slice(0, 10);
}

async function explain(session: MysqlSession, template: string, database: string): Promise<PlanFact | null> {
  const sql = mysqlStatement(template);
  if (sql === null) {
    session.notes.push(`cannot explain ${template}: its text is truncated, or it has no plan`);
    return null;
  }
  const rows = await session.rows(`the plan of ${template}`, `EXPLAIN FORMAT=JSON ${sql}`);
  const plan = readMysqlPlan(Object.values(rows[0] ?? {})[0] ?? "");
  if (plan === null) return null;
  const scans: PlanFact["scans"] = [];
  for (const { table, rows: estimated, columns } of plan.scans.slice(0, maxTables)) {
    const indexes = await session.rows(
      `indexes of ${table}`,
      `SELECT DISTINCT column_name AS name FROM information_schema.statistics WHERE table_schema = ${quoted(database)} AND table_name = ${quoted(table)} AND seq_in_index = 1`,
    );
    const indexed = indexes.map((row) => row["name"] ?? "");
    scans.push({ table, rows: estimated, columns, advice: indexAdvice({ table, rows: estimated, columns, indexed, concurrently: false }) });
  }
  return { statement: template, scans: scans.sort((a, b) => b.rows - a.rows), indexes: plan.indexes, cost: plan.cost };
}

async function readTables(session: MysqlSession, { plan, database }: DatabaseFacts): Promise<DatabaseFacts["tables"]> {
  const names = (plan?.scans ?? []).map(({ table }) => table);
  if (names.length === 0) return [];
  const rows = await session.rows(
    "tables",
    `SELECT t.table_name AS name, t.table_rows AS total, t.data_length + t.index_length AS size,
       (SELECT group_concat(DISTINCT s.index_name SEPARATOR ', ') FROM information_schema.statistics s WHERE s.table_schema = t.table_schema AND s.table_name = t.table_name) AS indexes
     FROM information_schema.tables t WHERE t.table_schema = ${quoted(database)} AND t.table_name IN (${names.map(quoted).join(", ")}) ORDER BY 2 DESC LIMIT ${maxTables}`,
  );
  return rows.map((row) => ({
    table: row["name"] ?? "",
    rows: numberOf(row, "total"),
    deadRows: null,
    sequentialScans: null,
    indexScans: null,
    sizeBytes: numberOf(row, "size"),
    indexes: (row["indexes"] ?? "")
      .split(", ")
      .filter((text) => text !== "")
      .slice(0, 10),
    lastAnalyzed: null,
  }));
}

async function busyStatements(session: MysqlSession, database: string): Promise<DatabaseFacts["statements"]> {
  const [setting = {}] = await session.rows("settings", "SELECT @@performance_schema AS is_on");
  if (setting["is_on"] !== "1") return [];
  const rows = await session.rows(
    "performance_schema",
    `SELECT digest_text AS query, count_star AS calls, sum_timer_wait / 1e9 AS total, avg_timer_wait / 1e9 AS mean, sum_rows_sent AS sent
     FROM performance_schema.events_statements_summary_by_digest WHERE schema_name = ${quoted(database)} AND digest_text IS NOT NULL ORDER BY sum_timer_wait DESC LIMIT 5`,
  );
  return rows.map((row) => ({
    statement: sqlTemplate(row["query"] ?? "", { dialect: "mysql" }).template,
    calls: numberOf(row, "calls"),
    totalMs: numberOf(row, "total"),
    meanMs: numberOf(row, "mean"),
    rows: numberOf(row, "sent"),
  }));
}

const quoted = (value: string): string => `'${value.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;

const numberOf = (row: MysqlRow, column: string): number => Number(row[column] ?? 0);

function templateOf(query: string | null | undefined): string | null {
  return query === null || query === undefined || query === "" ? null : sqlTemplate(query, { dialect: "mysql" }).template;
}
