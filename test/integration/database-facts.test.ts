/** Facts of real Postgres, MariaDB and Redis servers: plans, missing indexes, lock holders, evictions, and clear failures. */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { inspectDatabase } from "../../src/databases/index.ts";
import type { DatabaseCredentials, DatabaseFacts } from "../../src/model/database-facts.ts";
import { type RunningServer, startMariadb, startPostgres, startRedis } from "../support/database-servers.ts";
import { programsSkipReason } from "../support/has-program.ts";
import { waitFor } from "../support/wait-for.ts";

const run = promisify(execFile);
const isRoot = process.geteuid?.() === 0;
const never = new AbortController().signal;
const password = "tr0ub4dor&3";

function skipReason(...programs: string[]): string | undefined {
  return programsSkipReason(...programs) ?? (isRoot ? undefined : "needs root to start servers as their own users");
}

function login(engine: DatabaseCredentials["engine"], more: Partial<DatabaseCredentials> = {}): DatabaseCredentials {
  return { engine, user: "coral_ro", password, database: "shop", socket: "", ...more };
}

interface Asked {
  statement?: string;
  timeoutMs?: number;
}

function inspect(port: number, credentials: DatabaseCredentials, { statement, timeoutMs = 120_000 }: Asked = {}): Promise<DatabaseFacts> {
  return inspectDatabase({
    port,
    addresses: [],
    credentials,
    statement: statement ?? null,
    signal: never,
    timeoutMs,
  });
}

/** A client that keeps its session, and its transaction, until it is killed. */
class HeldSession implements AsyncDisposable {
  readonly #child: ChildProcess;

  constructor(file: string, args: readonly string[], sql: string, env: Record<string, string> = {}) {
    this.#child = spawn(file, args, { stdio: ["pipe", "ignore", "ignore"], env: { ...process.env, ...env } });
    this.#child.stdin?.write(sql);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#child, "close");
    this.#child.kill("SIGKILL");
    await closed;
  }
}

const pgSkip = skipReason("postgres", "initdb", "psql");
describe.skipIf(pgSkip)(`Postgres${pgSkip === undefined ? "" : ` (${pgSkip})`}`, () => {
  let server: RunningServer;
  const args = (user = "postgres", database = "shop"): string[] => [
    "-h",
    "127.0.0.1",
    "-p",
    String(server.port),
    "-U",
    user,
    "-qAt",
    "-d",
    database,
  ];
  const sql = async (text: string, database?: string): Promise<string> =>
    (await run("psql", [...args("postgres", database), "-c", text])).stdout.trim();

  beforeAll(async () => {
    server = await startPostgres();
    await waitFor(
      "Postgres",
      async () => (await run("psql", [...args("postgres", "postgres"), "-c", "SELECT 1"]).catch(() => undefined)) !== undefined,
    );
    await sql("CREATE DATABASE shop", "postgres");
    await sql(`SET password_encryption = 'scram-sha-256'; CREATE ROLE coral_ro LOGIN PASSWORD '${password}'; GRANT pg_monitor TO coral_ro; CREATE ROLE writer LOGIN PASSWORD '${password}';
      SET password_encryption = 'md5'; CREATE ROLE old_ro LOGIN PASSWORD '${password}'`);
    await sql(
      "CREATE TABLE orders (id int PRIMARY KEY, user_id int NOT NULL, total int); INSERT INTO orders SELECT n, n % 5000, n FROM generate_series(1, 220000) n; ANALYZE orders",
    );
    await sql("GRANT SELECT ON orders TO coral_ro, old_ro; GRANT SELECT, UPDATE ON orders TO writer");
    const hba = await sql("SHOW hba_file");
    writeFileSync(
      hba,
      "host all postgres 127.0.0.1/32 trust\nhost all coral_ro,writer 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 md5\n",
    );
    await sql("SELECT pg_reload_conf()");
    await waitFor(
      "authentication",
      async () => (await inspect(server.port, login("postgres", { password: "wrong" })).catch(() => undefined)) === undefined,
    );
  });
  afterAll(() => server[Symbol.asyncDispose]());

  it("names the missing index of a statement, with SCRAM and with md5", async () => {
    const statement = "SELECT id, total FROM orders WHERE user_id = ? AND total > ? LIMIT ?";
    const facts = await inspect(server.port, login("postgres"), { statement });
    expect(facts.notes).toEqual([]);
    expect(facts).toMatchObject({ engine: "postgres", user: "coral_ro", database: "shop", canWrite: false });
    expect(facts.plan?.scans).toEqual([
      {
        table: "public.orders",
        rows: 220_000,
        columns: ["user_id", "total"],
        advice: "CREATE INDEX CONCURRENTLY ON public.orders (user_id, total)",
      },
    ]);
    expect(facts.tables[0]).toMatchObject({ table: "public.orders", indexes: [expect.stringContaining("orders_pkey")] });
    const old = await inspect(server.port, login("postgres", { user: "old_ro" }), { statement });
    expect(old.plan?.scans[0]?.advice).toBe(facts.plan?.scans[0]?.advice);
    const byId = await inspect(server.port, login("postgres", { user: "writer" }), { statement: "SELECT * FROM orders WHERE id = ?" });
    expect(byId).toMatchObject({ canWrite: true, plan: { scans: [], indexes: ["orders_pkey"] } });
  });

  it("names the holder of a row lock, and runs nothing that writes", async () => {
    const holder = new HeldSession("psql", args("writer"), "BEGIN; UPDATE orders SET total = 7 WHERE id = 42;\n", {
      PGPASSWORD: password,
      PGAPPNAME: "batch",
    });
    await waitFor(
      "the holder",
      async () =>
        (await sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'batch' AND state = 'idle in transaction'")) === "1",
    );
    const waiting = spawn("psql", [...args(), "-c", "UPDATE orders SET total = 8 WHERE id = 42"], { stdio: "ignore" });
    try {
      await waitFor(
        "a waiting session",
        async () => (await sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")) === "1",
      );
      const { locks } = await inspect(server.port, login("postgres"));
      expect(locks).toHaveLength(1);
      expect(locks[0]).toMatchObject({
        waiting: 1,
        waitingStatement: "UPDATE orders SET total = ? WHERE id = ?",
        holder: {
          user: "writer",
          application: "batch",
          state: "idle in transaction",
          statement: "UPDATE orders SET total = ? WHERE id = ?",
          clientAddress: "127.0.0.1",
        },
      });
      expect(locks[0]?.holder.clientPort).toBeGreaterThan(0);
    } finally {
      const ended = once(waiting, "close");
      await holder[Symbol.asyncDispose]();
      await ended;
    }
    const evil = "DELETE FROM orders WHERE id = ?; DROP TABLE orders";
    const { plan, notes } = await inspect(server.port, login("postgres", { user: "writer" }), { statement: evil });
    expect(plan).toBeNull();
    expect(notes.join("\n")).toContain("multiple commands");
    await inspect(server.port, login("postgres", { user: "writer" }), { statement: "UPDATE orders SET total = ? WHERE id > ?" });
    expect(await sql("SELECT count(*) FROM orders WHERE total IS NULL OR total = 8")).toBe("2");
  });

  it.each([
    ["a wrong password", { password: "wr0ng-s3cret" }, "unauthenticated", /cannot log in .*pg_hba/],
    ["an unknown database", { database: "nope" }, "unavailable", /"nope" does not exist/],
  ])("reports the cause of a failure: %s", async (_, change, code, text) => {
    const failed = await inspect(server.port, login("postgres", change)).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(failed).toMatchObject({ code, message: expect.stringMatching(text) });
    expect(String(failed)).not.toMatch(/wr0ng|tr0ub/);
  });
});

describe("a broken server", () => {
  it.each(["postgres", "mysql", "redis"] as const)(
    "times out or fails for a %s server that is silent, gone, or not a database",
    async (engine) => {
      const silent = createServer().listen(0, "127.0.0.1");
      const babbling = createServer((socket) => socket.on("error", () => undefined).end("HTTP/1.1 400 Bad Request\r\n\r\n")).listen(
        0,
        "127.0.0.1",
      );
      await Promise.all([once(silent, "listening"), once(babbling, "listening")]);
      const [quiet, loud] = [silent, babbling].map((server) => Number((server.address() as { port: number }).port));
      try {
        await expect(inspect(quiet ?? 0, login(engine), { timeoutMs: 100 })).rejects.toMatchObject({ code: "timeout" });
        await expect(inspect(loud ?? 0, login(engine), { timeoutMs: 60_000 })).rejects.toMatchObject({
          code: expect.stringMatching(/unavailable|unauthenticated/),
        });
      } finally {
        silent.close();
        babbling.close();
      }
      await expect(inspect(loud ?? 0, login(engine), { timeoutMs: 60_000 })).rejects.toMatchObject({
        message: expect.stringContaining("nothing listens"),
      });
    },
  );
});

const mariaSkip = skipReason("mariadbd", "mariadb", "mariadb-install-db", "openssl");
describe.skipIf(mariaSkip)(`MariaDB${mariaSkip === undefined ? "" : ` (${mariaSkip})`}`, () => {
  let server: RunningServer;
  const args = (...more: string[]): string[] => [
    "--no-defaults",
    "-h",
    "127.0.0.1",
    "-P",
    String(server.port),
    "-u",
    "root",
    "-N",
    ...more,
  ];
  const sql = async (text: string): Promise<string> => (await run("mariadb", args("-e", text))).stdout.trim();

  beforeAll(async () => {
    server = await startMariadb(true);
    await waitFor("MariaDB", async () => (await sql("SELECT 1").catch(() => undefined)) !== undefined);
    await sql(`CREATE DATABASE shop; USE shop; CREATE TABLE orders (id int PRIMARY KEY, user_id int NOT NULL, email varchar(40) NOT NULL, KEY by_email (email));
      INSERT INTO orders SELECT seq, seq % 5000, concat('u', seq, '@x.org') FROM seq_1_to_200000; ANALYZE TABLE orders`);
    await sql(
      `CREATE USER coral_ro@'127.0.0.1' IDENTIFIED BY '${password}'; GRANT SELECT ON shop.* TO coral_ro@'127.0.0.1'; GRANT PROCESS ON *.* TO coral_ro@'127.0.0.1'`,
    );
  });
  afterAll(() => server[Symbol.asyncDispose]());

  it("names the missing index of a statement, over TLS", async () => {
    const facts = await inspect(server.port, login("mysql"), { statement: "SELECT * FROM orders WHERE user_id = ? LIMIT ?" });
    expect(facts.notes).toEqual([]);
    expect(facts).toMatchObject({ engine: "mysql", database: "shop", canWrite: false });
    expect(facts.plan?.scans).toEqual([
      { table: "orders", rows: expect.any(Number), columns: ["user_id"], advice: "CREATE INDEX idx_orders_user_id ON orders (user_id)" },
    ]);
    expect(facts.plan?.scans[0]?.rows).toBeGreaterThan(150_000);
    const byEmail = await inspect(server.port, login("mysql"), { statement: "SELECT * FROM orders WHERE email = ?" });
    expect(byEmail.plan).toMatchObject({ scans: [], indexes: ["by_email"] });
  });

  it("names the holder of a row lock, and refuses a wrong password", async () => {
    await using _holder = new HeldSession("mariadb", args("-n", "shop"), "BEGIN; UPDATE orders SET email = 'a' WHERE id = 42;\n");
    await waitFor(
      "the holder",
      async () => (await sql("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_rows_modified > 0")) === "1",
    );
    await using _waiter = new HeldSession("mariadb", args("-n", "shop"), "UPDATE orders SET email = 'b' WHERE id = 42;\n");
    await waitFor(
      "a waiting session",
      async () => (await sql("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")) === "1",
    );
    const { locks } = await inspect(server.port, login("mysql"));
    expect(locks).toMatchObject([
      {
        waiting: 1,
        waitingStatement: "UPDATE orders SET email = ? WHERE id = ?",
        table: "shop.orders",
        holder: { user: "root", state: "idle in transaction" },
      },
    ]);
    expect(locks[0]?.holder.clientPort).toBeGreaterThan(0);
    const wrong = inspect(server.port, login("mysql", { password: "wr0ng-s3cret" }));
    await expect(wrong).rejects.toMatchObject({ code: "unauthenticated", message: expect.not.stringContaining("wr0ng") });
  });
});

const redisSkip = programsSkipReason("redis-server", "redis-cli");
describe.skipIf(redisSkip)(`Redis${redisSkip === undefined ? "" : ` (${redisSkip})`}`, () => {
  it("reports evictions, big keys by pattern and slow commands; a wrong password is refused", async () => {
    await using server = await startRedis();
    const cli = async (...words: string[]): Promise<string> =>
      (await run("redis-cli", ["-p", String(server.port), ...words])).stdout.trim();
    await cli("CONFIG", "SET", "maxmemory", "3mb", "maxmemory-policy", "allkeys-lru", "slowlog-log-slower-than", "0");
    await cli("EVAL", "for i = 1, 20000 do redis.call('SET', 'session:' .. i, string.rep('y', 200)) end", "0");
    await cli("SET", "basket:6f9619ff-8b86-d011-b42d-00c04fc964ff", "x".repeat(20_000));
    const facts = await inspect(server.port, login("redis", { user: "", password: "" }));
    expect(facts.notes).toEqual([]);
    expect(facts.cache).toMatchObject({ policy: "allkeys-lru", maxBytes: 3 * 1024 * 1024, blockedClients: 0 });
    expect(facts.cache?.evictedKeys).toBeGreaterThan(0);
    expect(facts.cache?.bigKeys.length).toBeGreaterThan(0);
    for (const { key } of facts.cache?.bigKeys ?? []) expect(["basket:{id}", "session:{id}"]).toContain(key);
    expect(facts.cache?.slowCommands.map(({ command }) => command)).toContain("SET basket:{id}");
    await cli("CONFIG", "SET", "requirepass", password);
    await expect(inspect(server.port, login("redis", { user: "", password: "" }))).rejects.toMatchObject({ code: "unauthenticated" });
    await expect(inspect(server.port, login("redis", { user: "", password: "wr0ng-s3cret" }))).rejects.toMatchObject({
      code: "unauthenticated",
    });
    await expect(inspect(server.port, login("redis", { user: "" }))).resolves.toMatchObject({ engine: "redis" });
  });
});
