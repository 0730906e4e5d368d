import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CoralError } from "../base/errors.ts";
import { createLogger } from "../base/log.ts";
import type { Database } from "./database.ts";
import { type Engine, openEngine } from "./engine.ts";
import type { PublishedView } from "./published-views.ts";
import { type ReadOnlySqlOptions, type ReadOnlySqlResult, runReadOnlySql } from "./read-only-sql.ts";
import { allowedFunctions } from "./sql-guard/allowed-functions.ts";

const views: PublishedView[] = [
  {
    name: "host",
    description: "one row per agent every 15 s",
    columns: [
      { name: "agent_id", type: "VARCHAR" },
      { name: "time", type: "TIMESTAMP" },
      { name: "cpu_busy_ratio", type: "DOUBLE" },
    ],
  },
  { name: "host_mount", description: "mounts", columns: [{ name: "mount", type: "VARCHAR" }] },
];

const migrations = [
  {
    version: 1,
    sql: `CREATE TABLE tokens (id VARCHAR, secret VARCHAR);
      INSERT INTO tokens VALUES ('t1', 'hidden');
      CREATE TABLE host (agent_id VARCHAR, time TIMESTAMP, cpu_busy_ratio DOUBLE);
      INSERT INTO host SELECT 'agent-' || (range % 3), TIMESTAMP '2026-01-01' + INTERVAL (range * 15) SECOND, (range % 10) / 10 FROM range(3000);
      CREATE SEQUENCE numbers;
      CREATE MACRO leak() AS (SELECT secret FROM tokens);
      CREATE SCHEMA views;
      CREATE VIEW views.host AS SELECT * FROM colony.main.host;
      CREATE VIEW views.host_mount AS SELECT '/' AS mount, 10 AS used_bytes, agent_id FROM colony.main.host;
      CREATE VIEW main.internal_view AS SELECT * FROM colony.main.tokens;`,
  },
];

let directory: string;
let engine: Engine;
let database: Database;

const run = (sql: string, options: Partial<ReadOnlySqlOptions> = {}): Promise<ReadOnlySqlResult> =>
  runReadOnlySql({ publishedViews: () => views, database }, { sql, maxRows: 100, maxBytes: 1_000_000, timeoutMs: 20_000, ...options });

async function failure(sql: string, options: Partial<ReadOnlySqlOptions> = {}): Promise<CoralError> {
  try {
    const result = await run(sql, options);
    throw new Error(`it ran and gave ${JSON.stringify(result).slice(0, 200)}`);
  } catch (error) {
    if (error instanceof CoralError) return error;
    throw error;
  }
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "coral-sql-"));
  writeFileSync(join(directory, "secret.csv"), "secret\nhidden\n");
  engine = await openEngine({
    dataDirectories: [directory],
    memoryLimitBytes: 128 * 1024 ** 2,
    threads: 1,
    log: createLogger("test", "error", () => {}),
  });
  database = await engine.attach("colony", join(directory, "colony.duckdb"), migrations, { readSchema: "views" });
});

afterAll(async () => {
  await engine.close();
  rmSync(directory, { recursive: true });
});

/** The file is inside the folder that DuckDB may read, so only the guard stands between it and these. */
const fileReads = (file: string): string[] => [
  `SELECT * FROM '${file}'`,
  `FROM '${file}'`,
  `SELECT * FROM "${file}"`,
  `SELECT * FROM "/etc/passwd"`,
  `SELECT * FROM read_csv('${file}')`,
  `SELECT * FROM read_csv_auto(['${file}'])`,
  `SELECT * FROM read_text('${file}')`,
  `SELECT * FROM read_blob('${file}')`,
  `SELECT * FROM read_json('${file}')`,
  `SELECT * FROM read_json_objects('${file}')`,
  `SELECT * FROM read_ndjson('${file}')`,
  `SELECT * FROM read_parquet('${file}')`,
  `SELECT * FROM parquet_scan('${file}')`,
  `SELECT * FROM parquet_metadata('${file}')`,
  `SELECT * FROM parquet_schema('${file}')`,
  `SELECT * FROM read_duckdb('${file}')`,
  `SELECT * FROM sniff_csv('${file}')`,
  `SELECT * FROM glob('/*')`,
  `SELECT * FROM system.main.read_text('${file}')`,
  `SELECT * FROM main.read_text('${file}')`,
  `SELECT (SELECT content FROM read_text('${file}'))`,
  `SELECT * FROM host WHERE agent_id IN (SELECT secret FROM '${file}')`,
  `SELECT * FROM host ORDER BY (SELECT count(*) FROM '${file}')`,
  `SELECT * FROM host LIMIT (SELECT count(*) FROM '${file}')`,
  `SELECT count(*) FROM host GROUP BY (SELECT count(*) FROM '${file}')`,
  `SELECT count(*) FROM host HAVING count(*) > (SELECT count(*) FROM '${file}')`,
  `SELECT sum(1) OVER (ORDER BY (SELECT count(*) FROM '${file}')) FROM host`,
  `SELECT sum(1) FILTER (WHERE EXISTS (FROM '${file}')) FROM host`,
  `SELECT row_number() OVER () FROM host QUALIFY (SELECT true FROM '${file}')`,
  `SELECT CASE WHEN true THEN (SELECT secret FROM '${file}') END`,
  `SELECT * FROM host JOIN host_mount ON (SELECT true FROM '${file}')`,
  `SELECT * FROM host, LATERAL (SELECT * FROM '${file}')`,
  `SELECT * FROM range((SELECT count(*) FROM '${file}'))`,
  `WITH x AS (SELECT * FROM '${file}') SELECT * FROM x`,
  `WITH RECURSIVE x AS (SELECT secret FROM '${file}' UNION ALL SELECT * FROM x) SELECT * FROM x`,
  `WITH x AS (WITH y AS (WITH z AS (FROM '${file}') FROM z) FROM y) FROM x`,
  `WITH "${file}" AS (SELECT 1) SELECT * FROM "${file}"`,
  `SELECT 1 UNION SELECT secret FROM '${file}'`,
  `VALUES ((SELECT secret FROM '${file}'))`,
  `DESCRIBE SELECT * FROM '${file}'`,
  `SUMMARIZE '${file}'`,
  `FROM '${file}' PIVOT (count(*) FOR secret IN ('a'))`,
  `SELECT * FROM (SUMMARIZE SELECT * FROM '${file}')`,
  `SELECT [(SELECT secret FROM '${file}')]`,
  `SELECT {'a': (SELECT secret FROM '${file}')}`,
  `SELECT COLUMNS((SELECT secret FROM '${file}')) FROM host`,
];

const otherAttacks: string[] = [
  "SELECT * FROM tokens",
  "SELECT * FROM main.tokens",
  "SELECT * FROM colony.main.tokens",
  "SELECT * FROM colony.tokens",
  "SELECT * FROM internal_view",
  'SELECT * FROM "tokens"',
  "SELECT * FROM TOKENS",
  "SELECT * FROM main.host",
  "SELECT * FROM colony.main.host",
  "TABLE tokens",
  "DESCRIBE tokens",
  "SHOW tokens",
  "SUMMARIZE tokens",
  "SELECT leak()",
  "SELECT main.leak()",
  "SELECT colony.main.leak()",
  "WITH tokens AS (SELECT * FROM tokens) SELECT * FROM tokens",
  "SELECT * FROM (WITH tokens AS (SELECT 1) FROM tokens), tokens",
  "WITH RECURSIVE tokens AS (SELECT id FROM tokens UNION ALL SELECT id FROM tokens) FROM tokens",
  "WITH tokens AS (SELECT 1) SELECT * FROM tokens",
  "SELECT * FROM recurring.tokens",
  "SELECT * FROM information_schema.tables",
  "SELECT * FROM sqlite_master",
  "SELECT * FROM duckdb_tables",
  "SELECT * FROM duckdb_tables()",
  "SELECT * FROM duckdb_settings()",
  "SELECT * FROM duckdb_secrets()",
  "SELECT * FROM pg_catalog.pg_tables",
  "SELECT * FROM pragma_table_info('tokens')",
  "SELECT * FROM pragma_database_size()",
  "SELECT * FROM query('SELECT * FROM tokens')",
  "SELECT * FROM query_table('tokens')",
  "SELECT * FROM query_table(['tokens'])",
  `SELECT * FROM json_execute_serialized_sql('{"statements":[]}')`,
  "SELECT json_serialize_sql('SELECT 1')",
  "SELECT getenv('HOME')",
  "SELECT getvariable('x')",
  "SELECT current_setting('memory_limit')",
  "SELECT nextval('numbers')",
  "SELECT currval('numbers')",
  "SELECT write_log('x')",
  "SELECT sleep_ms(100000)",
  "SELECT pg_sleep(100)",
  "SELECT * FROM checkpoint()",
  "SELECT * FROM enable_logging()",
  "SELECT * FROM summary((SELECT 1))",
  "SELECT * FROM seq_scan('tokens')",
  "SELECT * FROM arrow_scan(1, 2, 3)",
  "SELECT * FROM which_secret('x', 'y')",
  "ATTACH ':memory:' AS other",
  "DETACH colony",
  "COPY host TO '/tmp/stolen.csv'",
  "COPY (SELECT 1) TO '/tmp/stolen.csv'",
  "EXPORT DATABASE '/tmp/stolen'",
  "IMPORT DATABASE '/tmp/stolen'",
  "INSTALL httpfs",
  "LOAD httpfs",
  "SET memory_limit = '100GB'",
  "RESET memory_limit",
  "PRAGMA database_list",
  "CALL pragma_version()",
  "CREATE TABLE x (a INT)",
  "CREATE TEMP TABLE x AS SELECT 1",
  "CREATE MACRO f() AS 1",
  "CREATE OR REPLACE VIEW host AS SELECT 1",
  "DROP TABLE tokens",
  "ALTER TABLE tokens ADD COLUMN x INT",
  "INSERT INTO tokens VALUES ('a', 'b')",
  "UPDATE tokens SET secret = 'x'",
  "DELETE FROM tokens",
  "TRUNCATE tokens",
  "MERGE INTO tokens USING host ON true WHEN MATCHED THEN DELETE",
  "WITH x AS (DELETE FROM tokens RETURNING *) SELECT * FROM x",
  "BEGIN TRANSACTION",
  "COMMIT",
  "CHECKPOINT",
  "VACUUM",
  "USE main",
  "PREPARE p AS SELECT 1",
  "EXECUTE p",
  "EXPLAIN SELECT 1",
  "EXPLAIN ANALYZE SELECT * FROM host",
  "SELECT 1; SELECT 2",
  "SELECT 1; DROP TABLE tokens",
  "SELECT 1 /* ; */ ; -- \n DELETE FROM tokens",
  "/* SELECT 1 */ DROP TABLE tokens",
  "SHOW DATABASES",
  "SHOW SCHEMAS",
  "SELECT * FROM (SHOW TABLES)",
  "SELECT * FROM (SHOW ALL TABLES)",
  "PIVOT host ON agent_id USING count(*)",
  "SELECT $1",
  "SELECT ?",
  "SELECT list_transform([1], x -> x + 1)",
  "SELECT [x FOR x IN [1, 2]]",
  "SELECT list_reduce([1, 2], (a, b) -> a + b)",
  "SELECT repeat('x', 2000000000)",
  "SELECT repeat('x', (SELECT 2000000000))",
  "SELECT lpad('x', 2000000000, 'y')",
  "SELECT replace(repeat('a', 1000), 'a', repeat('b', 1000))",
  "SELECT replace(replace(replace(agent_id, 'a', 'aaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaa') FROM host",
  "SELECT range(2000000000)",
  "SELECT range(TIMESTAMP '1970-01-01', now()::TIMESTAMP, INTERVAL 1 MICROSECOND)",
  "SELECT printf('%1000000000d', 1)",
  "SELECT format('{:>1000000000}', 'x')",
  "SELECT format('{:>{}}', 'x', 1000000000)",
  "SELECT levenshtein(agent_id, agent_id) FROM host",
  "SELECT length(s || a.range) FROM range(10000) a, (SELECT string_agg(range::VARCHAR, '') AS s FROM range(1000000))",
  "SELECT len(x || [1]) FROM (SELECT (SELECT list(range) FROM range(1000000)) AS x FROM range(10000))",
  "WITH l AS (SELECT list(range) AS l FROM range(1000000)) SELECT length(l::VARCHAR) FROM l JOIN range(10000) ON true",
  "SELECT list(range) OVER (ORDER BY range) FROM range(100000)",
  "SELECT unnest(range(10000)), list(range)::VARCHAR FROM range(1000000)",
  "SELECT x, l::VARCHAR FROM (SELECT max(range, 1000000) AS l FROM range(1000000)), LATERAL unnest(range(10000)) t(x)",
  `WITH ${Array.from({ length: 9 }, (_, index) => `a${index + 1} AS (SELECT [x, x, x, x]::VARCHAR AS x FROM ${index === 0 ? "(SELECT agent_id AS x FROM host)" : `a${index}`})`).join(", ")} FROM a9`,
  "WITH RECURSIVE t(s) AS (SELECT 'x' UNION ALL SELECT s || s || s || s || s FROM t) SELECT * FROM t",
];

const oversized: [string, string][] = [
  ["a deep expression", `SELECT ${"1 + ".repeat(500)}1`],
  ["deep subqueries", `SELECT ${"(SELECT ".repeat(150)}1${")".repeat(150)}`],
  ["many queries", `SELECT 1 ${"UNION ALL SELECT 1 ".repeat(1_000)}`],
  ["a megabyte", `SELECT '${"x".repeat(1_000_000)}'`],
  ["a long literal that grows", `SELECT '${"x".repeat(20_000)}' || time || agent_id || cpu_busy_ratio || agent_id FROM host`],
];

describe("runReadOnlySql() refuses", () => {
  it("every way to read a file", async () => {
    for (const sql of fileReads(join(directory, "secret.csv"))) {
      const error = await failure(sql);
      expect([sql, error.code]).toEqual([sql, "not-permitted"]);
    }
  });

  it.each(otherAttacks)("%s", async (sql) => {
    const error = await failure(sql);
    expect(error.message).not.toContain("hidden");
    expect(["not-permitted", "invalid"]).toContain(error.code);
  });

  it.each(oversized)("%s", async (_name, sql) => {
    expect((await failure(sql)).code).toBe("not-permitted");
  });

  it("with a message that says what is allowed", async () => {
    const error = await failure("SELECT * FROM tokens");
    expect(error.message).toBe(
      'Cannot run SQL: "tokens" is not a published view; one SELECT or DESCRIBE over the published views is allowed, and SHOW TABLES lists them',
    );
    expect(error.details["views"]).toEqual(["host", "host_mount"]);
    expect((await failure("SELECT * FROM hosts")).message).toContain('"hosts" is not a published view; did you mean "host"? one SELECT');
    expect((await failure("PIVOT host ON agent_id USING count(*)")).message).toContain("PIVOT (sum(x) FOR name IN ('a', 'b'))");
    expect((await failure("SELECT 1; SELECT 2")).message).toContain("2 statements");
  });

  it("wrong SQL as invalid, with the engine's hint", async () => {
    const error = await failure("SELECT cpu_busy FROM host");
    expect(error.code).toBe("invalid");
    expect(error.message).toMatch(
      /^Cannot run SQL: Referenced column "cpu_busy" not found in FROM clause; Candidate bindings: .*"cpu_busy_ratio"[^\n]*$/,
    );
    expect((await failure("SELEC 1")).message).toContain("syntax error");
    expect((await failure("  -- nothing")).message).toContain("no statement");
    expect((await failure("")).code).toBe("invalid");
  });
});

const good: [string, unknown[][]][] = [
  ["SELECT 1", [[1]]],
  ["SELECT 1;", [[1]]],
  ["-- a comment\nSELECT /* another */ 1", [[1]]],
  ["VALUES (1, 'a'), (2, 'b')", [[1, "a"], [2, "b"]]], // biome-ignore format: a row a line would hide the shape
  ["SELECT count(*) FROM host", [[3000]]],
  ["FROM host SELECT count(*)", [[3000]]],
  ["SELECT count(*) FROM views.host", [[3000]]],
  ["SELECT count(*) FROM HOST", [[3000]]],
  ["SELECT agent_id, count(*) FROM host GROUP BY ALL ORDER BY 1 LIMIT 1", [["agent-0", 1000]]],
  ["SELECT max(time) FROM host", [["2026-01-01T12:29:45.000Z"]]],
  ["WITH busy AS (SELECT * FROM host WHERE cpu_busy_ratio > 0.8) SELECT count(*) FROM busy", [[300]]],
  ["WITH host AS (SELECT * FROM host LIMIT 5) SELECT count(*) FROM host", [[5]]],
  ["WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT sum(n) FROM t", [[10]]],
  ["SELECT count(*) FROM host a JOIN host_mount b USING (agent_id) WHERE a.time < TIMESTAMP '2026-01-01 00:00:30'", [[2000]]],
  [
    "SELECT time_bucket(INTERVAL 6 HOUR, time) AS t, round(avg(cpu_busy_ratio), 2) FROM host GROUP BY t ORDER BY t LIMIT 1",
    [["2026-01-01T00:00:00.000Z", 0.45]],
  ],
  ["SELECT arg_max(cpu_busy_ratio, time), quantile_cont(cpu_busy_ratio, 0.5) FROM host", [[0.9, 0.45]]],
  [
    "SELECT agent_id, lag(cpu_busy_ratio) OVER (PARTITION BY agent_id ORDER BY time) FROM host ORDER BY time OFFSET 3 LIMIT 1",
    [["agent-0", 0]],
  ],
  ["SELECT range, unnest([10, 20]) FROM range(2) ORDER BY ALL LIMIT 3", [[0, 10], [0, 20], [1, 10]]], // biome-ignore format: as above
  ["SELECT count(*) FROM generate_series(TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-02', INTERVAL 1 HOUR)", [[25]]],
  [
    "SELECT * FROM (SELECT agent_id, cpu_busy_ratio > 0.5 AS hot FROM host) PIVOT (count(*) FOR hot IN (true, false)) ORDER BY 1 LIMIT 1",
    [["agent-0", 400, 600]],
  ],
  ["SELECT * EXCLUDE (time, cpu_busy_ratio) FROM host LIMIT 1", [["agent-0"]]],
  ["SELECT COLUMNS(c -> c LIKE 'agent%') FROM host LIMIT 1", [["agent-0"]]],
  ["SELECT CASE WHEN EXISTS (SELECT 1 FROM host) THEN 'yes' ELSE 'no' END", [["yes"]]],
  [
    "SELECT printf('%.1f', 2.25), format('{:.1f}', 2.25), repeat('-', 10), lpad('7', 3, '0'), replace('a_b', '_', ' ')",
    [["2.2", "2.2", "----------", "007", "a b"]],
  ],
  ["SELECT json_extract_string('{\"a\": {\"b\": 1}}', '$.a.b'), '{\"a\": 1}'::JSON ->> 'a'", [["1", "1"]]],
  ["SELECT agent_id || ':' || cpu_busy_ratio FROM host LIMIT 1", [["agent-0:0.0"]]],
  ["SELECT list_sum([1, 2]), len(range(24)), list_sort(list(DISTINCT agent_id))[1] FROM host", [[3, 24, "agent-0"]]],
  [
    "SELECT agent_id || '/' || agent_id || '/' || agent_id || '/' || time || '/' || cpu_busy_ratio || '/' || agent_id FROM host WHERE false",
    [],
  ],
  [
    "SELECT string_agg(DISTINCT h.agent_id, ', ' ORDER BY h.agent_id) FROM host h JOIN host_mount m USING (agent_id) WHERE h.time = TIMESTAMP '2026-01-01'",
    [["agent-0"]],
  ],
  ["WITH g AS (SELECT agent_id, list(cpu_busy_ratio) AS l FROM host GROUP BY 1) SELECT sum(len(l)) FROM g", [[3000]]],
  ["SELECT count(*) FROM host TABLESAMPLE 100%", [[3000]]],
  ["SELECT x FROM (SELECT 1 AS x UNION ALL SELECT 2 EXCEPT SELECT 1) ORDER BY x DESC", [[2]]],
];

describe("runReadOnlySql() answers", () => {
  it.each(good)("%s", async (sql, rows) => {
    expect((await run(sql)).rows).toEqual(rows);
  });

  it("SHOW TABLES and DESCRIBE from what is published", async () => {
    expect((await run("show tables")).rows).toEqual([
      ["host", "one row per agent every 15 s"],
      ["host_mount", "mounts"],
    ]);
    expect((await run("SHOW ALL TABLES;")).rows).toHaveLength(2);
    const described = await run("DESCRIBE host");
    expect(described.columns.map((column) => column.name)).toEqual(["column_name", "column_type"]);
    expect(described.rows[1]).toEqual(["time", "TIMESTAMP"]);
    expect((await run("describe select count(*) as n from host")).rows[0]?.slice(0, 2)).toEqual(["n", "BIGINT"]);
    expect((await run("SUMMARIZE host")).rows.map((row) => row[0])).toEqual(["agent_id", "time", "cpu_busy_ratio"]);
  });

  it("with column types and the views that were read", async () => {
    const result = await run(
      "SELECT h.agent_id, [1]::BIGINT[] AS l, 1.5::DECIMAL(9,2) AS d, {'a': 1} AS s, MAP {'k': 1} AS m FROM host h, host_mount LIMIT 1",
    );
    expect(result.columns).toEqual([
      { name: "agent_id", type: "VARCHAR" },
      { name: "l", type: "BIGINT[]" },
      { name: "d", type: "DECIMAL(9,2)" },
      { name: "s", type: "STRUCT(a INTEGER)" },
      { name: "m", type: "MAP(VARCHAR, INTEGER)" },
    ]);
    expect(result.views).toEqual(["host", "host_mount"]);
    expect(result.rows[0]?.slice(1)).toEqual([[1], 1.5, { a: 1 }, { k: 1 }]);
    expect(result.elapsedMs).toBeGreaterThanOrEqual(0);
  });

  it("with values that JSON can carry", async () => {
    const [row] = (
      await run(`SELECT 9007199254740991, 9007199254740993, -170141183460469231731687303715884105727::HUGEINT, 'NaN'::DOUBLE, 'Infinity'::DOUBLE, '-Infinity'::FLOAT,
        TIMESTAMP '2026-01-02 03:04:05.000006', TIMESTAMPTZ '2026-01-02 03:04:05+01', DATE '2026-01-02', TIME '03:04:05.5', INTERVAL '1 month 2 days 3.5 seconds',
        '\\xAA\\x01'::BLOB, 12345678901234567.89::DECIMAL(19,2), -0.05::DECIMAL(4,2), NULL, [NULL, 'x'], MAP {1: 'a'}, 'a'::ENUM('a', 'b'), true,
        '5f8a5f39-7d8c-4b5f-9d3c-000000000001'::UUID, TIMESTAMP '1969-12-31 23:59:59.999999', 'infinity'::TIMESTAMP, {'a': [{'b': 'ü'}]}`)
    ).rows;
    expect(row).toEqual([
      9007199254740991,
      "9007199254740993",
      "-170141183460469231731687303715884105727",
      null,
      "Infinity",
      "-Infinity",
      "2026-01-02T03:04:05.000006Z",
      "2026-01-02T02:04:05.000Z",
      "2026-01-02",
      "03:04:05.500000",
      "P1M2DT3.5S",
      "aa01",
      "12345678901234567.89",
      -0.05,
      null,
      [null, "x"],
      [[1, "a"]],
      "a",
      true,
      "5f8a5f39-7d8c-4b5f-9d3c-000000000001",
      "1969-12-31T23:59:59.999999Z",
      "infinity",
      { a: [{ b: "ü" }] },
    ]);
    expect(JSON.parse(JSON.stringify(row))).toEqual(row);
    expect((await failure("SELECT '101'::BIT")).message).toContain("cast it to VARCHAR");
  });
});

describe("runReadOnlySql() limits", () => {
  it("rows, without reading the rest", async () => {
    const result = await run("SELECT range FROM range(1000000000000)", { maxRows: 5000 });
    expect(result.rows).toHaveLength(5000);
    expect(result.truncated).toBe(true);
    expect((await run("SELECT range FROM range(10)", { maxRows: 10 })).truncated).toBe(false);
    expect((await run("SELECT range FROM range(11)", { maxRows: 10 })).truncated).toBe(true);
  });

  it("bytes, also inside one value", async () => {
    const result = await run("SELECT repeat('x', 1000) FROM range(1000)", { maxRows: 1000, maxBytes: 50_000 });
    expect(result.truncated).toBe(true);
    expect(result.rows.length).toBeGreaterThan(30);
    expect(JSON.stringify(result.rows).length).toBeLessThan(60_000);
    const error = await failure("SELECT list(range) FROM range(1000000)", { maxBytes: 50_000 });
    expect(error.code).toBe("exhausted");
    expect(error.message).toContain("first row");
  });

  it.each([
    "SELECT count(*) FROM range(100000000000) a WHERE md5(a.range::VARCHAR) = ''",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT 1 FROM t) SELECT count(*) FROM t",
  ])("time: %s", async (sql) => {
    const startMs = performance.now();
    const error = await failure(sql, { timeoutMs: 200 });
    expect(error.code).toBe("timeout");
    expect(error.message).toContain("200ms");
    expect(performance.now() - startMs).toBeLessThan(10_000);
    expect((await run("SELECT 1")).rows).toEqual([[1]]);
  });

  it.each([
    "SELECT list(range) FROM range(1000000000)",
    "SELECT md5(range::VARCHAR) AS k, count(*) FROM range(1000000000) GROUP BY k",
    "SELECT count(*) FROM range(100000000000) a, range(100000000) b",
    "SELECT * FROM range(1000000000) ORDER BY random()",
    // Kept in memory that DuckDB does not count: the growth of the process ends it.
    "SELECT count(*) FROM (SELECT * FROM range(1000000000) USING SAMPLE reservoir(500000000 ROWS))",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t, range(5)) SELECT count(*) FROM t",
    "SELECT count(*) FROM host a, host b, host c, host d WHERE a.cpu_busy_ratio + b.cpu_busy_ratio + c.cpu_busy_ratio > d.cpu_busy_ratio",
  ])(
    "memory, and lives on: %s",
    async (sql) => {
      const error = await failure(sql, { timeoutMs: 25_000 });
      expect(error.code).toBe("exhausted");
      expect(error.message).toContain("filter earlier");
      expect((await run("SELECT count(*) FROM host")).rows).toEqual([[3000]]);
    },
    60_000,
  );

  it("by the caller's signal", async () => {
    const abort = new AbortController();
    const running = failure("SELECT count(*) FROM range(100000000000) a WHERE md5(a.range::VARCHAR) = ''", { signal: abort.signal });
    setTimeout(() => abort.abort(), 100);
    expect((await running).code).toBe("cancelled");
  });

  it("how many wait", async () => {
    const slow = "SELECT count(*) FROM range(100000000000) a WHERE md5(a.range::VARCHAR) = ''";
    const source = { publishedViews: () => views, database };
    const options = { sql: slow, maxRows: 1, maxBytes: 1_000, timeoutMs: 50 };
    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => runReadOnlySql(source, options)));
    const codes = outcomes.map((outcome) => (outcome.status === "rejected" ? (outcome.reason as CoralError).code : "ran"));
    expect(codes.filter((code) => code === "timeout")).toHaveLength(17);
    expect(codes.filter((code) => code === "unavailable")).toHaveLength(3);
  });
});

describe("runReadOnlySql() fuzzed", () => {
  /** A linear congruential generator: the same statements on every run. */
  function seeded(seed: number): (below: number) => number {
    let state = seed;
    return (below) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
  }

  it("never gives a secret away and never fails in an unknown way", async () => {
    const words =
      `SELECT * FROM WITH AS ( ( ) ) , host tokens main.tokens x secret id WHERE IN UNION ALL JOIN ON true LATERAL unnest([1]) read_text('f') 'f' "f"
      RECURSIVE VALUES DESCRIBE SUMMARIZE SHOW ORDER BY 1 LIMIT OVER () count(*) [ ] { } : :: VARCHAR COLUMNS EXISTS NOT - + || ; -- /* */ $1 ? leak() query('x')`.split(
        /\s+/,
      );
    const next = seeded(42);
    const codes = new Set<string>();
    for (let round = 0; round < 2_000; round++) {
      const sql = Array.from({ length: 1 + next(14) }, () => words[next(words.length)]).join(" ");
      try {
        expect(JSON.stringify(await run(`${round % 2 === 0 ? "SELECT " : ""}${sql}`))).not.toContain("hidden");
        codes.add("ran");
      } catch (error) {
        if (!(error instanceof CoralError)) throw error;
        expect(error.message).not.toContain("hidden");
        codes.add(error.code);
      }
    }
    expect([...codes].sort()).toEqual(["invalid", "not-permitted", "ran"]);
  });
});

describe("allowedFunctions", () => {
  it("holds names that DuckDB has", async () => {
    const rows = await database.query("SELECT DISTINCT lower(function_name) AS name FROM duckdb_functions()");
    const known = new Set(rows.map((row) => row["name"]));
    // Not in the catalog: made by the parser or the binder.
    for (const name of ["unnest", "nullif"]) known.add(name);
    expect([...allowedFunctions].filter((name) => !known.has(name))).toEqual([]);
  });
});
